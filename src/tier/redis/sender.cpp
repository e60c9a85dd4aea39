// SPDX-License-Identifier: Apache-2.0
/// tier/redis/sender.cpp: commands as runs of bytes, some at a time.
#include <algorithm>

#include "tier/redis/pipeline.h"

namespace folio::inline v1::tier::redis {
namespace {

constexpr size_t most_runs = 1024;           // of one call of the kernel
constexpr size_t enough_bytes = 256 * 1024;  // that are prepared before the first of them goes

}  // namespace

void Sender::add(const void* data, size_t bytes) {
  if (bytes != 0) runs_.push_back({const_cast<void*>(data), bytes});
}

void Sender::add_page(Command& c) {
  if (!has_short_extents(c)) {
    c.header = header_of(c.name, c.fingerprint, c.extents);
    add(&c.header, sizeof(c.header));
    for (const Extent& e : c.extents) add(e.data, static_cast<size_t>(e.bytes));
    return;
  }
  std::vector<std::byte>& copy = copies_.emplace_back();
  copy.reserve(static_cast<size_t>(c.bytes));
  for (const Extent& e : c.extents) copy.insert(copy.end(), e.data, e.data + e.bytes);
  const Extent all[] = {{copy.data(), c.bytes}};
  c.header = header_of(c.name, c.fingerprint, all);
  add(&c.header, sizeof(c.header));
  add(copy.data(), copy.size());
}

void Sender::prepare(size_t last) {
  last = std::min(last, commands_.size());
  size_t bytes = 0;
  while (next_ < last && bytes < enough_bytes) {
    Command& c = *commands_[next_++];
    bytes += c.head.size();
    add(c.head.data(), c.head.size());
    if (c.kind != Command::Kind::set) continue;
    add_page(c);
    add(c.tail.data(), c.tail.size());
    bytes += static_cast<size_t>(value_bytes(c)) + c.tail.size();
  }
}

Result<size_t> Sender::push(size_t last) {
  if (runs_.empty()) prepare(last);
  if (runs_.empty()) return size_t{0};
  const size_t count = std::min(runs_.size() - first_, most_runs);
  Result<size_t> sent = stream_.write(std::span(runs_).subspan(first_, count));
  if (!sent) return sent;
  for (size_t left = *sent; left != 0;) {
    iovec& run = runs_[first_];
    const size_t part = std::min(left, run.iov_len);
    run.iov_base = static_cast<char*>(run.iov_base) + part;
    run.iov_len -= part;
    left -= part;
    if (run.iov_len == 0) ++first_;
  }
  if (first_ == runs_.size()) {
    copies_.clear();
    runs_.clear();
    first_ = 0;
  }
  return sent;
}

}  // namespace folio::inline v1::tier::redis
