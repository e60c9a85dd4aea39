// SPDX-License-Identifier: Apache-2.0
/// bench/roofs.cpp: measures reading, arithmetic and copying.
#include "roofs.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <map>
#include <new>
#include <span>
#include <stdexcept>
#include <thread>

#include "cpu/features.h"

namespace folio::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t huge_page = 2 << 20;
constexpr int64_t piece = 4096;  // hardware prefetchers stop at the end of a small page

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Keeps the results of reading loops alive.
std::atomic<uint64_t> read_sink;

std::vector<const std::byte*> cut(const ReadRuns& runs, int64_t piece_bytes) {
  std::vector<const std::byte*> pieces;
  pieces.reserve(runs.at.size() * static_cast<size_t>(runs.bytes / piece_bytes));
  for (const std::byte* run : runs.at)
    for (int64_t i = 0; i < runs.bytes; i += piece_bytes) pieces.push_back(run + i);
  return pieces;
}

double pass(std::span<const std::byte* const> pieces, int64_t piece_bytes, ReadLoop read,
            int threads) {
  const auto count = static_cast<int64_t>(pieces.size());
  const double seconds = timed(threads, [&](int t) {
    const int64_t begin = count * t / threads, end = count * (t + 1) / threads;
    read_sink.fetch_xor(read(pieces.data() + begin, end - begin, piece_bytes));
  });
  return static_cast<double>(count) * static_cast<double>(piece_bytes) / seconds;
}

ArithmeticLoop loop_of(ArithmeticUnit unit) {
  switch (unit) {
    case ArithmeticUnit::amx: return amx_bf16;
    case ArithmeticUnit::bf16_dot: return bf16_dot_avx512_bf16;
    case ArithmeticUnit::fma: break;
  }
  return machine_has(Capability::x86_64_v4) ? fma_x86_64_v4 : fma_x86_64_v3;
}

}  // namespace

HugeMemory::HugeMemory(int64_t bytes) : bytes_((bytes + huge_page - 1) / huge_page * huge_page) {
  void* memory = mmap(nullptr, static_cast<size_t>(bytes_ + huge_page), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(memory);
  const int64_t before =
      (huge_page - static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory) % huge_page)) %
      huge_page;
  if (before > 0) munmap(begin, static_cast<size_t>(before));
  if (before < huge_page) munmap(begin + before + bytes_, static_cast<size_t>(huge_page - before));
  data_ = begin + before;
  madvise(data_, static_cast<size_t>(bytes_), MADV_HUGEPAGE);
  std::memset(data_, 1, static_cast<size_t>(bytes_));
}

HugeMemory::~HugeMemory() { munmap(data_, static_cast<size_t>(bytes_)); }

int64_t cache_bytes() {
  int64_t total = 0;
  for (const int level : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE})
    total += std::max<int64_t>(sysconf(level), 0);
  return total;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const size_t middle = (values.size() - 1) / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle),
                   values.end());
  return values[middle];
}

double timed(int threads, void (*work)(void* arg, int thread), void* arg) {
  Clock::time_point begin;
  std::barrier all_are_here(threads, [&begin]() noexcept { begin = Clock::now(); });
  const auto run = [&](int t) {
    all_are_here.arrive_and_wait();
    work(arg, t);
  };
  std::vector<std::thread> team;
  for (int t = 1; t < threads; ++t) team.emplace_back(run, t);
  run(0);
  for (std::thread& thread : team) thread.join();
  return seconds_since(begin);
}

ReadChoice best_pattern(const ReadRuns& runs, int threads) {
  struct Tried {
    ReadChoice choice;
    double rate;
  };
  if (runs.bytes % 256 != 0)
    throw std::invalid_argument("best_pattern: expected runs of a multiple of 256 bytes");
  // a first try reads one in turn: it is back at the first when the caches have long forgotten it
  constexpr size_t parts = 4;
  const PatternList list =
      machine_has(Capability::x86_64_v4) ? read_patterns_x86_64_v4() : read_patterns_x86_64_v3();
  std::vector<Tried> tried;
  std::vector<int64_t> sizes = {runs.bytes};
  if (runs.bytes > piece && runs.bytes % piece == 0) sizes.push_back(piece);
  for (const int64_t piece_bytes : sizes) {
    const auto pieces = cut(runs, piece_bytes);
    const size_t part = pieces.size() / parts;
    for (int i = 0; i < list.count; ++i) {
      const std::span here = std::span(pieces).subspan(static_cast<size_t>(i) % parts * part, part);
      tried.push_back({{list.patterns[i], piece_bytes},
                       pass(here, piece_bytes, list.patterns[i].read, threads)});
    }
  }
  const auto by_rate = [](const Tried& a, const Tried& b) { return a.rate > b.rate; };
  std::sort(tried.begin(), tried.end(), by_rate);
  tried.resize(std::min<size_t>(tried.size(), 3));
  for (Tried& t : tried) t.rate = median(read_rates(runs, t.choice, threads, 3));
  return std::min_element(tried.begin(), tried.end(), by_rate)->choice;
}

std::vector<double> read_rates(const ReadRuns& runs, const ReadChoice& choice, int threads,
                               int passes) {
  const auto pieces = cut(runs, choice.piece_bytes);
  std::vector<double> rates;
  rates.reserve(static_cast<size_t>(passes));
  for (int i = 0; i < passes; ++i)
    rates.push_back(pass(pieces, choice.piece_bytes, choice.pattern.read, threads));
  return rates;
}

std::string describe(const ReadChoice& choice) {
  return std::string(choice.pattern.name) + ", runs of " + std::to_string(choice.piece_bytes) +
         " bytes";
}

const char* name(ArithmeticUnit unit) {
  switch (unit) {
    case ArithmeticUnit::amx: return "AMX bf16";
    case ArithmeticUnit::bf16_dot: return "bf16 dot product";
    case ArithmeticUnit::fma: break;
  }
  return "f32 fused multiply-add";
}

std::vector<ArithmeticUnit> arithmetic_units() {
  std::vector<ArithmeticUnit> units = {ArithmeticUnit::fma};
  if (machine_has(Capability::avx512_bf16)) units.push_back(ArithmeticUnit::bf16_dot);
  if (machine_has(Capability::amx_bf16)) units.push_back(ArithmeticUnit::amx);
  return units;
}

std::vector<double> arithmetic_rates(ArithmeticUnit unit, int threads, double seconds) {
  const ArithmeticLoop loop = loop_of(unit);
  float sink = 0.0f;
  int64_t rounds = 1000;
  for (double elapsed = 0.0; elapsed < 0.002; rounds *= 2) {
    const auto begin = Clock::now();
    loop(rounds, &sink);
    elapsed = seconds_since(begin);
    // doubled below: 10 ms
    if (elapsed >= 0.002)
      rounds = static_cast<int64_t>(static_cast<double>(rounds) * 0.005 / elapsed);
  }
  std::vector<double> rates;
  const auto begin = Clock::now();
  do {
    std::vector<int64_t> operations(static_cast<size_t>(threads));
    std::vector<float> sinks(static_cast<size_t>(threads));
    const double elapsed = timed(threads, [&](int t) {
      operations[static_cast<size_t>(t)] = loop(rounds, &sinks[static_cast<size_t>(t)]);
    });
    int64_t total = 0;
    for (const int64_t n : operations) total += n;
    rates.push_back(static_cast<double>(total) / elapsed);
  } while (seconds_since(begin) < seconds);
  return rates;
}

ArithmeticUnit fastest_unit(int threads) {
  static std::map<int, ArithmeticUnit> known;
  const auto found = known.find(threads);
  if (found != known.end()) return found->second;
  ArithmeticUnit best = ArithmeticUnit::fma;
  double best_rate = 0.0;
  for (const ArithmeticUnit unit : arithmetic_units()) {
    const double rate = median(arithmetic_rates(unit, threads, 0.3));
    if (rate > best_rate) best = unit;
    best_rate = std::max(best_rate, rate);
  }
  return known[threads] = best;
}

double copy_rate(int threads) {
  const bool wide = machine_has(Capability::x86_64_v4);
  const CopyLoop loops[] = {[](std::byte* to, const std::byte* from, int64_t bytes) {
                              std::memcpy(to, from, static_cast<size_t>(bytes));
                            },
                            wide ? copy_x86_64_v4 : copy_x86_64_v3,
                            wide ? copy_non_temporal_x86_64_v4 : copy_non_temporal_x86_64_v3};
  const int64_t bytes = (2 * cache_bytes() / threads + huge_page - 1) / huge_page * huge_page;
  const HugeMemory from(bytes * threads), to(bytes * threads);
  double best = 0.0;
  for (const CopyLoop loop : loops) {
    std::vector<double> rates;
    for (int repeat = 0; repeat < 5; ++repeat) {
      const double seconds = timed(
          threads, [&](int t) { loop(to.data() + bytes * t, from.data() + bytes * t, bytes); });
      rates.push_back(2.0 * static_cast<double>(bytes) * threads / seconds);
    }
    best = std::max(best, median(rates));
  }
  return best;
}

}  // namespace folio::bench
