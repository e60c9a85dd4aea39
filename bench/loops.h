// SPDX-License-Identifier: Apache-2.0
/// bench/loops.h: the innermost loops of the roofs, one object per instruction set: reading,
/// copying, multiplying.
///
/// A read loop visits runs of equal length, each contiguous, in the order given; what the patterns
/// differ in is how many runs it reads at once and what it asks for ahead. Templates here are
/// instantiated on types of anonymous namespaces only, so that no two instruction sets share a
/// symbol.
#pragma once

#include <cstddef>
#include <cstdint>

namespace folio::bench {

/// Reads `count` runs of `bytes` bytes (a multiple of 256). The result depends on every line, so
/// that none is left out.
using ReadLoop = uint64_t (*)(const std::byte* const* runs, int64_t count, int64_t bytes);

struct ReadPattern {
  const char* name;
  ReadLoop read;
};

struct PatternList {
  const ReadPattern* patterns;
  int count;
};

/// Copies `bytes` (a multiple of 256) between buffers aligned to 64 bytes.
using CopyLoop = void (*)(std::byte* to, const std::byte* from, int64_t bytes);

/// Runs `rounds` rounds on the calling thread and returns the floating-point operations done; a
/// multiply-add is two. `sink` keeps the result alive.
using ArithmeticLoop = int64_t (*)(int64_t rounds, float* sink);

PatternList read_patterns_x86_64_v3();
PatternList read_patterns_x86_64_v4();
void copy_x86_64_v3(std::byte* to, const std::byte* from, int64_t bytes);
void copy_x86_64_v4(std::byte* to, const std::byte* from, int64_t bytes);
void copy_non_temporal_x86_64_v3(std::byte* to, const std::byte* from, int64_t bytes);
void copy_non_temporal_x86_64_v4(std::byte* to, const std::byte* from, int64_t bytes);
int64_t fma_x86_64_v3(int64_t rounds, float* sink);
int64_t fma_x86_64_v4(int64_t rounds, float* sink);
int64_t bf16_dot_avx512_bf16(int64_t rounds, float* sink);
int64_t amx_bf16(int64_t rounds, float* sink);

/// `Streams` runs at once; of the runs `Ahead` groups later the first `Kick` lines, once; every
/// line `Distance` bytes ahead (0: none).
template <class Isa, int Streams, int Kick, int Ahead, int Distance>
uint64_t read_runs(const std::byte* const* runs, int64_t count, int64_t bytes) {
  using Vec = typename Isa::Vec;
  Vec sum[4] = {};
  const auto read = [&](const std::byte* at) {
    for (int i = 0; i < 4; ++i) {
      constexpr int line = 64, parts = line / static_cast<int>(sizeof(Vec));
      for (int p = 0; p < parts; ++p)
        sum[i] |= *reinterpret_cast<const Vec*>(at + i * line + p * static_cast<int>(sizeof(Vec)));
      if (Distance > 0) __builtin_prefetch(at + Distance + i * line);
    }
  };
  for (int64_t k = 0; k < count; k += Streams) {
    const int64_t here = count - k < Streams ? count - k : Streams;
    for (int64_t s = 0; s < here; ++s) {
      const int64_t next = k + s + int64_t{Ahead} * Streams;
      if (next < count)
        for (int l = 0; l < Kick; ++l) __builtin_prefetch(runs[next] + l * 64);
    }
    for (int64_t i = 0; i < bytes; i += 256)
      for (int64_t s = 0; s < here; ++s) read(runs[k + s] + i);
  }
  const Vec all = (sum[0] | sum[1]) | (sum[2] | sum[3]);
  uint64_t word = 0;
  __builtin_memcpy(&word, &all, sizeof word);
  return word;
}

template <class Isa>
constexpr ReadPattern all_patterns[] = {
    {"plain", read_runs<Isa, 1, 0, 1, 0>},
    {"first 2 lines of the next run", read_runs<Isa, 1, 2, 1, 0>},
    {"first 4 lines of the next run", read_runs<Isa, 1, 4, 1, 0>},
    {"first 4 lines of the run after next", read_runs<Isa, 1, 4, 2, 0>},
    {"2 runs at once", read_runs<Isa, 2, 0, 1, 0>},
    {"2 runs at once, first 2 lines of the next", read_runs<Isa, 2, 2, 1, 0>},
    {"2 runs at once, first 4 lines of the next", read_runs<Isa, 2, 4, 1, 0>},
    {"4 runs at once", read_runs<Isa, 4, 0, 1, 0>},
    {"4 runs at once, first 2 lines of the next", read_runs<Isa, 4, 2, 1, 0>},
    {"every line 1 KiB ahead", read_runs<Isa, 1, 0, 1, 1024>},
    {"every line 2 KiB ahead", read_runs<Isa, 1, 0, 1, 2048>},
    {"every line 1 KiB ahead, first 4 lines of the next run", read_runs<Isa, 1, 4, 1, 1024>},
};

/// 12 chains cover the latency of two units; the register file holds them all in every instruction
/// set. They begin with what lies in `sink`: from a number that the compiler knows it would foresee
/// where they lead.
template <class F, class Fma>
int64_t fma_chains(int64_t rounds, float* sink, F one, Fma fma) {
  constexpr int chains = 12;
  F sum[chains];
  for (F& s : sum) s = one + *sink;
  const F factor = one * 0.999f, addend = one * 0.001f;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (F& s : sum) s = fma(s, factor, addend);
  }
  F total = sum[0];
  for (int c = 1; c < chains; ++c) total += sum[c];
  __builtin_memcpy(sink, &total, sizeof *sink);
  return rounds * chains * static_cast<int64_t>(sizeof(F) / sizeof(float)) * 2;
}

/// A small generator, so that operands are random: units run at a lower clock on random data than
/// on zeros.
class Noise {
 public:
  explicit Noise(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  /// Bits of a bf16 of either sign, between 1/2 and 2.
  uint16_t bf16() { return static_cast<uint16_t>((next() & 0x80ffu) | 0x3f00u); }

 private:
  uint64_t state_;
};

}  // namespace folio::bench
