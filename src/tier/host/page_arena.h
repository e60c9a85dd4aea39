// SPDX-License-Identifier: Apache-2.0
/// tier/host/page_arena.h: pages of one size at one stride, in a reservation of address space.
///
/// The reservation takes no memory, nor the right to any: chunks of it, a huge page each, are
/// opened when the first of their pages is taken, so that limits of the process and of the system
/// are met there, where a page can be refused. A chunk without pages gives its memory back, but for
/// a few that wait for the next page: where one page goes and one comes, none is asked for. Low
/// pages are taken first, so that high chunks become empty. Under AddressSanitizer a page that is
/// not taken cannot be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "folio/core/status.h"
#include "tier/device/host_blocks.h"

namespace folio::inline v1::tier {

/// Thread safe. All blocks have come back when it is destroyed.
class PageArena final : public BlockOwner {
 public:
  static constexpr int64_t chunk_bytes = int64_t{2} << 20;

  /// page_bytes 1 .. 2^40, pages 1 .. 2^31 - 1. Errors: out_of_memory
  [[nodiscard]] static Result<std::unique_ptr<PageArena>> reserve(int64_t page_bytes,
                                                                  int64_t pages) noexcept;
  ~PageArena();
  PageArena(const PageArena&) = delete;
  PageArena& operator=(const PageArena&) = delete;

  /// No block where no page is free, or the system gives no memory for one.
  [[nodiscard]] HostBlock take() noexcept;
  void give_back(void* none, std::byte* block) noexcept override;

  /// 64-byte aligned, as is the stride.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] int64_t page_stride_bytes() const noexcept { return stride_; }
  [[nodiscard]] int64_t pages() const noexcept { return pages_; }
  [[nodiscard]] int64_t page_bytes() const noexcept { return page_bytes_; }
  /// Of a block of these pages.
  [[nodiscard]] int32_t page_of(const std::byte* block) const noexcept {
    return static_cast<int32_t>((block - data_) / stride_);
  }

 private:
  struct Chunk {
    uint32_t pages = 0;  ///< that have bytes in it and are taken
    bool is_open = false;
    bool has_memory = false;
  };

  PageArena(int64_t page_bytes, int64_t pages) noexcept;
  [[nodiscard]] bool map() noexcept;
  [[nodiscard]] std::span<Chunk> chunks_of(int64_t page) noexcept;
  [[nodiscard]] std::byte* begin_of(const Chunk& chunk) const noexcept;
  /// Of a chunk, or of the rest of the arena.
  [[nodiscard]] size_t bytes_of(const Chunk& chunk) const noexcept;
  [[nodiscard]] bool open(std::span<Chunk> chunks) const noexcept;
  void empty(Chunk& chunk) noexcept;

  const int64_t page_bytes_, stride_, pages_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;  ///< that are mapped
  std::mutex mutex_;
  std::vector<Chunk> chunks_;
  std::vector<int32_t> free_;  ///< that were taken before, a heap with the lowest in front
  int32_t next_ = 0;           ///< the lowest that never was
  int64_t waiting_ = 0;        ///< chunks that have memory and no pages
};

}  // namespace folio::inline v1::tier
