// SPDX-License-Identifier: Apache-2.0
/// tier/host/page_arena.cpp: chunks that are opened, and emptied.
#include "tier/host/page_arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif

namespace folio::inline v1::tier {
namespace {

#ifdef ASAN_POISON_MEMORY_REGION
void forbid(const std::byte* at, int64_t bytes) noexcept {
  ASAN_POISON_MEMORY_REGION(at, static_cast<size_t>(bytes));
}
void allow(const std::byte* at, int64_t bytes) noexcept {
  ASAN_UNPOISON_MEMORY_REGION(at, static_cast<size_t>(bytes));
}
#else
void forbid(const std::byte*, int64_t) noexcept {}
void allow(const std::byte*, int64_t) noexcept {}
#endif

constexpr int64_t up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

/// As many chunks may wait as two pages have at most.
constexpr int64_t most_waiting(int64_t page_bytes) {
  return 2 * (page_bytes / PageArena::chunk_bytes + 2);
}

}  // namespace

PageArena::PageArena(int64_t page_bytes, int64_t pages) noexcept
    : page_bytes_(page_bytes), stride_(up(page_bytes, Buffer::alignment)), pages_(pages) {}

PageArena::~PageArena() {
  if (data_ == nullptr) return;
  allow(data_, next_ * stride_);  // whatever comes to lie here is another's
  munmap(data_, static_cast<size_t>(bytes_));
}

Result<std::unique_ptr<PageArena>> PageArena::reserve(int64_t page_bytes, int64_t pages) noexcept {
  const auto refuse = [&] {
    return fail(Errc::out_of_memory,
                "make_host_tier: no address space for {} pages of {} bytes: see the process's "
                "limits (ulimit -v)",
                pages, page_bytes);
  };
  try {
    std::unique_ptr<PageArena> arena(new PageArena(page_bytes, pages));
    if (arena->stride_ > (std::numeric_limits<int64_t>::max() - 2 * chunk_bytes) / pages ||
        !arena->map())
      return refuse();
    arena->chunks_.resize(static_cast<size_t>(up(arena->stride_ * pages, chunk_bytes)) /
                          chunk_bytes);
    arena->free_.reserve(static_cast<size_t>(pages));  // so that pages come back without asking
    return arena;
  } catch (const std::bad_alloc&) {
    return refuse();
  }
}

/// At the border of a huge page, where the system has them.
bool PageArena::map() noexcept {
  bytes_ = up(stride_ * pages_, sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, static_cast<size_t>(bytes_ + chunk_bytes), PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* const begin = static_cast<std::byte*>(memory);
  const int64_t before =
      -static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin)) & (chunk_bytes - 1);
  data_ = begin + before;
  if (before > 0) munmap(begin, static_cast<size_t>(before));
  munmap(data_ + bytes_, static_cast<size_t>(chunk_bytes - before));
  if (bytes_ >= chunk_bytes) madvise(data_, static_cast<size_t>(bytes_), MADV_HUGEPAGE);
  return true;
}

std::span<PageArena::Chunk> PageArena::chunks_of(int64_t page) noexcept {
  const int64_t first = page * stride_ / chunk_bytes;
  const int64_t last = (page * stride_ + page_bytes_ - 1) / chunk_bytes;
  return {chunks_.data() + first, static_cast<size_t>(last - first + 1)};
}

std::byte* PageArena::begin_of(const Chunk& chunk) const noexcept {
  return data_ + (&chunk - chunks_.data()) * chunk_bytes;
}

size_t PageArena::bytes_of(const Chunk& chunk) const noexcept {
  return static_cast<size_t>(std::min(chunk_bytes, data_ + bytes_ - begin_of(chunk)));
}

bool PageArena::open(std::span<Chunk> chunks) const noexcept {
  for (Chunk& chunk : chunks) {
    if (chunk.is_open) continue;
    if (mprotect(begin_of(chunk), bytes_of(chunk), PROT_READ | PROT_WRITE) != 0) return false;
    chunk.is_open = true;
  }
  return true;
}

void PageArena::empty(Chunk& chunk) noexcept {
  if (waiting_ < most_waiting(page_bytes_)) {
    ++waiting_;
    return;
  }
  // Refused where memory is locked: it stays then, and is used again.
  madvise(begin_of(chunk), bytes_of(chunk), MADV_DONTNEED);
  chunk.has_memory = false;
}

HostBlock PageArena::take() noexcept {
  const std::lock_guard lock(mutex_);
  if (free_.empty() && next_ == pages_) return {};
  const int32_t page = free_.empty() ? next_ : free_.front();
  const std::span<Chunk> chunks = chunks_of(page);
  if (!open(chunks)) return {};
  if (free_.empty()) {
    ++next_;
  } else {
    std::ranges::pop_heap(free_, std::greater<>());
    free_.pop_back();
  }
  for (Chunk& chunk : chunks) {
    if (chunk.pages++ == 0 && std::exchange(chunk.has_memory, true)) --waiting_;
  }
  std::byte* const block = data_ + page * stride_;
  allow(block, page_bytes_);
  return {*this, nullptr, block};
}

void PageArena::give_back(void*, std::byte* block) noexcept {
  const std::lock_guard lock(mutex_);
  const int32_t page = page_of(block);
  forbid(block, page_bytes_);
  free_.push_back(page);
  std::ranges::push_heap(free_, std::greater<>());
  for (Chunk& chunk : chunks_of(page))
    if (--chunk.pages == 0) empty(chunk);
}

}  // namespace folio::inline v1::tier
