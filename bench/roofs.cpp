// SPDX-License-Identifier: Apache-2.0
/// bench/roofs.cpp: measures read rate and multiply-add peak.
#include "roofs.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "cpu/features.h"
#include "fma.h"

namespace folio::bench {
namespace {

constexpr int64_t huge_page = 2 << 20;
constexpr int64_t line = 64;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Runs work(thread) on `threads` threads and returns the seconds until all have returned.
template <class Work>
double timed(int threads, Work work) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> team;
  for (int t = 1; t < threads; ++t) team.emplace_back(work, t);
  work(0);
  for (std::thread& thread : team) thread.join();
  return seconds_since(begin);
}

enum class Prefetch { none, next_page_head, fixed_distance };

uint64_t read_page(const std::byte* page, const std::byte* next, int64_t bytes, Prefetch prefetch) {
  if (prefetch == Prefetch::next_page_head)
    for (int64_t i = 0; i < 4 * line && i < bytes; i += line) __builtin_prefetch(next + i);
  uint64_t sum[8] = {};
  for (int64_t i = 0; i < bytes; i += line) {
    if (prefetch == Prefetch::fixed_distance) __builtin_prefetch(page + i + 1024);
    for (int w = 0; w < 8; ++w) {
      uint64_t word = 0;
      std::memcpy(&word, page + i + static_cast<int64_t>(w) * 8, sizeof word);
      sum[w] += word;
    }
  }
  uint64_t total = 0;
  for (const uint64_t s : sum) total += s;
  return total;
}

}  // namespace

HugeMemory::HugeMemory(int64_t bytes) : bytes_((bytes + huge_page - 1) / huge_page * huge_page) {
  void* memory = mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, static_cast<size_t>(bytes_), MADV_HUGEPAGE);
  std::memset(memory, 1, static_cast<size_t>(bytes_));
  data_ = static_cast<std::byte*>(memory);
}

HugeMemory::~HugeMemory() { munmap(data_, static_cast<size_t>(bytes_)); }

int64_t cache_bytes() {
  int64_t total = 0;
  for (const int name : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE}) total += std::max<int64_t>(sysconf(name), 0);
  return total;
}

double peak_flops(int threads) {
  const FmaLoop loop = machine_isa() == Isa::x86_64_v4 ? fma_x86_64_v4 : fma_x86_64_v3;
  double best = 0.0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::vector<int64_t> operations(static_cast<size_t>(threads));
    std::vector<float> sinks(static_cast<size_t>(threads));
    const double seconds =
        timed(threads, [&](int t) { operations[static_cast<size_t>(t)] = loop(2'000'000, &sinks[static_cast<size_t>(t)]); });
    int64_t total = 0;
    for (const int64_t n : operations) total += n;
    best = std::max(best, static_cast<double>(total) / seconds);
  }
  return best;
}

double read_rate(const HugeMemory& memory, int64_t page_bytes, std::span<const uint32_t> order, int threads) {
  double best = 0.0;
  for (const Prefetch prefetch : {Prefetch::none, Prefetch::next_page_head, Prefetch::fixed_distance}) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<uint64_t> sums(static_cast<size_t>(threads));
      const double seconds = timed(threads, [&](int t) {
        const size_t begin = order.size() * static_cast<size_t>(t) / static_cast<size_t>(threads);
        const size_t end = order.size() * static_cast<size_t>(t + 1) / static_cast<size_t>(threads);
        uint64_t sum = 0;
        for (size_t i = begin; i < end; ++i) {
          const std::byte* next = memory.data() + page_bytes * order[i + 1 < end ? i + 1 : i];
          sum += read_page(memory.data() + page_bytes * order[i], next, page_bytes, prefetch);
        }
        sums[static_cast<size_t>(t)] = sum;
      });
      best = std::max(best, static_cast<double>(page_bytes) * static_cast<double>(order.size()) / seconds);
    }
  }
  return best;
}

}  // namespace folio::bench
