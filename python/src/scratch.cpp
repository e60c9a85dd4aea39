// SPDX-License-Identifier: Apache-2.0
/// python/src/scratch.cpp: a small store of buffers, the best fitting lent first.
#include "scratch.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace folio::python {
namespace {

/// Buffers that wait for their next use. More than a step's worth are given back to the system.
class Store {
 public:
  Buffer lend(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto best = buffers_.end();
    for (auto b = buffers_.begin(); b != buffers_.end(); ++b)
      if (b->bytes() >= bytes && (best == buffers_.end() || b->bytes() < best->bytes())) best = b;
    if (best == buffers_.end()) return {};
    Buffer buffer = std::move(*best);
    buffers_.erase(best);
    return buffer;
  }

  void give_back(Buffer buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.push_back(std::move(buffer));
    if (buffers_.size() <= max_buffers) return;
    buffers_.erase(
        std::min_element(buffers_.begin(), buffers_.end(),
                         [](const Buffer& a, const Buffer& b) { return a.bytes() < b.bytes(); }));
  }

 private:
  static constexpr size_t max_buffers = 32;
  std::mutex mutex_;
  std::vector<Buffer> buffers_;
};

Store& store() {
  static auto* const forever = new Store;  // arrays may outlive the module's end
  return *forever;
}

}  // namespace

Scratch::Scratch(int64_t bytes) : buffer_(store().lend(bytes)) {
  if (buffer_.data() != nullptr || bytes == 0) return;
  int64_t rounded = 4096;
  while (rounded < bytes) rounded += rounded / 2;
  buffer_ = Buffer::allocate(rounded).value();
}

Scratch::~Scratch() {
  if (buffer_.data() != nullptr) store().give_back(std::move(buffer_));
}

}  // namespace folio::python
