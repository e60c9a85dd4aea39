// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_mirror.h: an AttentionCase in device memory: every block that the case holds is
/// copied there, and whatever points into one points into its copy.
///
/// Copies are exactly as large as the blocks, so that compute-sanitizer sees an access behind one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <type_traits>
#include <vector>

#include "folio/core/status.h"
#include "support/cuda_device.h"
#include "support/guarded_memory.h"

namespace folio::test {

/// All GuardedMemory that lives, by where it begins; kept from the first call on.
inline std::map<std::byte*, int64_t>& guarded_blocks() {
  static std::map<std::byte*, int64_t> blocks;
  watch_guarded_memory = [](std::byte* data, int64_t bytes, bool is_made) {
    if (is_made)
      guarded_blocks()[data] = bytes;
    else
      guarded_blocks().erase(data);
  };
  return blocks;
}

class GpuMirror {
 public:
  explicit GpuMirror(const CudaDevice& device) : device_(device) {
    for (const auto& [data, bytes] : guarded_blocks()) add(data, bytes);
  }

  /// What lies elsewhere, on the stack say.
  void add(const void* data, int64_t bytes) {
    CudaMemory copy(device_, bytes);
    if (bytes > 0) copy.upload(data, bytes);
    blocks_.push_back({static_cast<const std::byte*>(data), bytes, std::move(copy)});
  }
  /// The same place in the copy; null stays null, and so does what is in no block.
  template <class T>
  [[nodiscard]] T* at(T* host) const {
    const auto* const byte = reinterpret_cast<const std::byte*>(host);
    for (const Block& block : blocks_)
      if (byte >= block.host && byte < block.host + block.bytes)
        return reinterpret_cast<T*>(block.copy.data() + (byte - block.host));
    return nullptr;
  }
  /// A struct of plain data whose pointers into blocks point into the copies. Its words are looked
  /// at, not its members: a member that is added later is not forgotten here.
  template <class T>
  [[nodiscard]] T translated(const T& host) const {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) == alignof(void*));
    const std::byte* words[sizeof(T) / sizeof(void*)];
    std::memcpy(words, &host, sizeof words);
    for (const std::byte*& word : words)
      if (const std::byte* const there = at(word)) word = there;
    T device = host;
    std::memcpy(&device, words, sizeof words);
    return device;
  }
  /// A status that names the first byte in which a block differs from its copy.
  [[nodiscard]] Status compare(const GuardedMemory& memory, const char* name) const {
    for (const Block& block : blocks_) {
      if (block.host != memory.data()) continue;
      std::vector<std::byte> there(static_cast<size_t>(block.bytes));
      if (block.bytes > 0) block.copy.download(there.data(), block.bytes);
      for (size_t i = 0; i < there.size(); ++i)
        if (there[i] != block.host[i])
          return fail(Errc::internal, "{} differ at byte {}", name, static_cast<int64_t>(i));
    }
    return {};
  }
  /// Brings the bytes of all blocks back.
  void download_all() const {
    for (const Block& block : blocks_)
      if (block.bytes > 0) block.copy.download(const_cast<std::byte*>(block.host), block.bytes);
  }

 private:
  struct Block {
    const std::byte* host;
    int64_t bytes;
    CudaMemory copy;
  };
  const CudaDevice& device_;
  std::vector<Block> blocks_;
};

}  // namespace folio::test
