// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/probes.h: kernels of one instruction each, whose words a GPU records and the emulator
/// must give again: the same source for both, as all kernels.
///
/// A probe reads words, lets the instruction work on them and writes all that it gave. Its inputs
/// are drawn here, but a record holds its own, so that old records stay of use.
#pragma once

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "cuda/primitives/device.h"
#include "cuda/primitives/machine.h"
#include "folio/core/convert.h"
#include "folio/core/host_device.h"
#include "folio/testing/wgmma.h"
#include "support/random.h"

namespace folio::test {

/// How near the emulator must come.
enum class Rule : uint8_t {
  bits,    ///< every word equal
  floats,  ///< equal as floats: any NaN is a NaN
  ulps,    ///< floats, three units in the last place apart at most
  sums,    ///< floats, 2^-14 apart at most: sums of at most 64 products below 4, in any order
};

/// What a probe needs beyond what every architecture has.
enum class Needs : uint8_t { nothing, bulk_copies, wgmma };

struct ProbeArgs {
  const uint32_t* in = nullptr;
  uint32_t* out = nullptr;
};

struct ProbeBase {
  static constexpr int threads = 32, cases = 4, shared_bytes = 1024;
  static constexpr Rule rule = Rule::bits;
  static constexpr Needs needs = Needs::nothing;
};

namespace detail {

FOLIO_HOST_DEVICE constexpr uint32_t word_of(float x) { return __builtin_bit_cast(uint32_t, x); }
FOLIO_HOST_DEVICE constexpr float float_of(uint32_t word) {
  return __builtin_bit_cast(float, word);
}

inline std::vector<uint32_t> random_words(Rng& rng, int count) {
  std::vector<uint32_t> words(static_cast<size_t>(count));
  for (uint32_t& word : words) word = static_cast<uint32_t>(rng.next());
  return words;
}
/// Pairs of bf16 or f16 of both signs, between 1/2 and 2; or, exactly summed, of -2 to 2.
template <DType Type>
uint32_t random_pair(Rng& rng, bool is_whole) {
  const auto word = static_cast<uint32_t>(rng.next());
  if (!is_whole)
    return Type == DType::bf16 ? (word & 0x80ff80ffu) | 0x3f003f00u
                               : (word & 0x87ff87ffu) | 0x38003800u;
  const uint32_t one = Type == DType::bf16 ? 0x3f80u : 0x3c00u;
  const uint32_t two = 0x4000u;
  const auto half = [&](uint32_t bits) {
    const uint32_t size = bits % 3 == 0 ? 0u : bits % 3 == 1 ? one : two;
    return size == 0 ? 0u : size | (bits & 8u) << 12;
  };
  return half(word >> 4) | half(word >> 20) << 16;
}
/// Floats whose exponent is drawn first: all magnitudes, and a share of what is special.
inline uint32_t random_float(Rng& rng) {
  constexpr uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                  0x7f800001, 1,          0x80000001, 0x007fffff, 0x7f7fffff,
                                  0x3f800000, 0xbf800000, 0x43e00000, 0x43e80000, 0x47600000,
                                  0x477fe000, 0x477ff000, 0x33800000, 0x33000000};
  if (rng.chance(0.1)) return special[rng.int_between(0, std::size(special) - 1)];
  return static_cast<uint32_t>(rng.next());
}
/// Of the range that narrow types have, where ties and subnormals are.
inline uint32_t narrow_float(Rng& rng) {
  if (rng.chance(0.2)) return random_float(rng);
  const auto exponent = static_cast<uint32_t>(rng.int_between(100, 145));
  uint32_t mantissa = static_cast<uint32_t>(rng.next()) & 0x7fffffu;
  if (rng.chance(0.5)) mantissa &= 0x7ff000u << rng.int_between(0, 10) & 0x7fffffu;
  return (static_cast<uint32_t>(rng.next()) & 0x80000000u) | exponent << 23 | mantissa;
}

}  // namespace detail

/// ldmatrix.x4: 32 rows of 16 bytes in shared memory, addressed in any order.
template <bool Transposed>
struct LoadMatricesProbe : ProbeBase {
  static constexpr const char* name = Transposed ? "ldmatrix.x4.trans" : "ldmatrix.x4";
  static constexpr int in_words = 128 + 32, out_words = 128;
  static std::vector<uint32_t> input(Rng& rng, int) {
    std::vector<uint32_t> words = detail::random_words(rng, in_words);
    for (uint32_t i = 0; i < 32; ++i) words[128 + i] = i;
    for (int i = 31; i > 0; --i)
      std::swap(words[static_cast<size_t>(128 + i)],
                words[static_cast<size_t>(128 + rng.int_between(0, i))]);
    return words;
  }
  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const ProbeArgs& args) {
    for (int i = t.lane(); i < 128; i += 32)
      t.store_shared(t.shared_base() + 4u * static_cast<uint32_t>(i), t.read(args.in + i));
    t.sync_warp();
    uint32_t out[4];
    t.template load_matrices<Transposed>(out,
                                         t.shared_base() + 16u * t.read(args.in + 128 + t.lane()));
    for (int i = 0; i < 4; ++i) t.store(args.out + 4 * t.lane() + i, out[i]);
  }
};

/// mma.sync.m16n8k16: registers as they come, A four a lane, B two, C four.
template <DType Type, bool IsWhole>
struct MultiplyProbe : ProbeBase {
  static constexpr const char* name = Type == DType::bf16
                                          ? (IsWhole ? "mma.bf16 of whole numbers" : "mma.bf16")
                                          : (IsWhole ? "mma.f16 of whole numbers" : "mma.f16");
  static constexpr int in_words = 320, out_words = 128, cases = 8;
  static constexpr Rule rule = IsWhole ? Rule::floats : Rule::sums;
  static std::vector<uint32_t> input(Rng& rng, int) {
    std::vector<uint32_t> words(in_words);
    for (size_t i = 0; i < 192; ++i) words[i] = detail::random_pair<Type>(rng, IsWhole);
    for (size_t i = 192; i < 320; ++i)
      words[i] = detail::word_of(IsWhole ? static_cast<float>(rng.int_between(-9, 9))
                                         : rng.uniform(-2.0f, 2.0f));
    return words;
  }
  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const ProbeArgs& args) {
    uint32_t a[4], b[2];
    float c[4];
    for (int i = 0; i < 4; ++i) a[i] = t.read(args.in + 4 * t.lane() + i);
    for (int i = 0; i < 2; ++i) b[i] = t.read(args.in + 128 + 2 * t.lane() + i);
    for (int i = 0; i < 4; ++i) c[i] = detail::float_of(t.read(args.in + 192 + 4 * t.lane() + i));
    t.template multiply<Type>(c, a, b[0], b[1]);
    for (int i = 0; i < 4; ++i) t.store(args.out + 4 * t.lane() + i, detail::word_of(c[i]));
  }
};

/// wgmma.m64n64k16 over K = 64 in four steps. Operands are 128-byte swizzled tiles: A [64][64] and
/// B [64][64] along K or, transposed, along N. A in registers: the words of its tile.
template <DType Type, bool TransposedB, bool FromRegisters>
struct GroupMultiplyProbe : ProbeBase {
  static constexpr const char* name =
      Type == DType::bf16
          ? (FromRegisters
                 ? (TransposedB ? "wgmma.bf16 registers, B along N" : "wgmma.bf16 registers")
                 : (TransposedB ? "wgmma.bf16, B along N" : "wgmma.bf16"))
          : (FromRegisters
                 ? (TransposedB ? "wgmma.f16 registers, B along N" : "wgmma.f16 registers")
                 : (TransposedB ? "wgmma.f16, B along N" : "wgmma.f16"));
  static constexpr int threads = 128, cases = 2, shared_bytes = 16384;
  static constexpr int in_words = 4096 + 4, out_words = 4096;
  static constexpr Rule rule = Rule::sums;
  static constexpr Needs needs = Needs::wgmma;
  static std::vector<uint32_t> input(Rng& rng, int) {
    std::vector<uint32_t> words(4096);
    for (uint32_t& word : words) word = detail::random_pair<Type>(rng, false);
    for (const int64_t start : {0, 8192}) {
      const uint64_t bits =
          encode(emulator::WgmmaDescriptor{start, 0, 1024, 0, tma::Swizzle::b128}).value();
      words.push_back(static_cast<uint32_t>(bits));
      words.push_back(static_cast<uint32_t>(bits >> 32));
    }
    return words;
  }
  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const ProbeArgs& args) {
    if constexpr (cuda::GroupMachine<Thread>) {
      for (int i = t.thread(); i < 4096; i += threads)
        t.store_shared(t.shared_base() + 4u * static_cast<uint32_t>(i), t.read(args.in + i));
      t.fence_async();
      t.sync_block();
      const auto descriptor = [&](int operand) {
        return (uint64_t{t.read(args.in + 4097 + 2 * operand)} << 32 |
                t.read(args.in + 4096 + 2 * operand)) +
               (t.shared_base() >> 4);
      };
      const uint64_t a = descriptor(0), b = descriptor(1);
      uint32_t registers[4][4];
      for (int i = 0; i < 16; ++i)
        registers[i / 4][i % 4] = t.read(args.in + i * threads + t.thread());
      float d[32] = {};
      t.warpgroup_arrive();
      FOLIO_UNROLL
      for (int step = 0; step < 4; ++step) {
        // 16 of K: 32 bytes on in a tile along K, 16 rows of 128 bytes in one along N
        const auto next_a = a + static_cast<uint64_t>(step * 32 / 16);
        const auto next_b = b + static_cast<uint64_t>(step * (TransposedB ? 2048 : 32) / 16);
        if constexpr (FromRegisters)
          t.template multiply_group<64, Type, TransposedB>(d, registers[step], next_b, step > 0);
        else
          t.template multiply_group<64, Type, false, TransposedB>(d, next_a, next_b, step > 0);
      }
      t.commit_multiplies();
      t.template wait_multiplies<0>();
      for (int i = 0; i < 32; ++i) t.store(args.out + t.thread() * 32 + i, detail::word_of(d[i]));
    }
  }
};

/// cp.async: a lane copies what it may, and zeros where not; all else keeps its bits.
template <int Bytes>
struct CopyProbe : ProbeBase {
  static constexpr const char* name = Bytes == 16  ? "cp.async 16"
                                      : Bytes == 8 ? "cp.async 8"
                                                   : "cp.async 4";
  static constexpr int in_words = 128 + 32, out_words = 128;
  static std::vector<uint32_t> input(Rng& rng, int) {
    std::vector<uint32_t> words = detail::random_words(rng, in_words);
    for (size_t i = 128; i < words.size(); ++i) words[i] &= 1u;
    return words;
  }
  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const ProbeArgs& args) {
    const uint32_t at = t.shared_base() + 16u * static_cast<uint32_t>(t.lane());
    for (uint32_t i = 0; i < 4; ++i) t.store_shared(at + 4u * i, 0xabcd0000u + i);
    t.template copy_async<Bytes>(at, args.in + 4 * t.lane(), t.read(args.in + 128 + t.lane()) != 0);
    t.commit_copies();
    t.template wait_copies<0>();
    for (uint32_t i = 0; i < 4; ++i)
      t.store(args.out + 4 * t.lane() + i, t.template load_shared<uint32_t>(at + 4u * i));
  }
};

/// cp.async.bulk into shared memory behind an mbarrier, and back from there.
struct BulkCopyProbe : ProbeBase {
  static constexpr const char* name = "cp.async.bulk";
  static constexpr int in_words = 128, out_words = 128;
  static constexpr Needs needs = Needs::bulk_copies;
  static std::vector<uint32_t> input(Rng& rng, int) { return detail::random_words(rng, in_words); }
  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const ProbeArgs& args) {
    if constexpr (cuda::TileMachine<Thread>) {
      const uint32_t barrier = t.shared_base(), tile = barrier + 128u;
      if (t.thread() == 0) {
        t.init_barrier(barrier, 1);
        t.fence_barriers();
        t.arrive_expecting(barrier, 512);
        t.copy_bulk(tile, args.in, 512, barrier);
        t.wait(barrier, 0);
        t.store_bulk(args.out, tile, 512);
        t.commit_stores();
        t.template wait_stores<0>();
      }
    }
  }
};

/// shfl, vote: value, source lane and predicate of each lane.
struct CollectivesProbe : ProbeBase {
  static constexpr const char* name = "shfl and vote";
  static constexpr int in_words = 64, out_words = 96;
  static std::vector<uint32_t> input(Rng& rng, int) {
    std::vector<uint32_t> words = detail::random_words(rng, in_words);
    for (size_t i = 32; i < words.size(); ++i) words[i] &= 31u;
    return words;
  }
  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const ProbeArgs& args) {
    const uint32_t value = t.read(args.in + t.lane()), other = t.read(args.in + 32 + t.lane());
    t.store(args.out + t.lane(), t.shuffle(value, static_cast<int>(other)));
    t.store(args.out + 32 + t.lane(), t.shuffle_xor(value, 5));
    t.store(args.out + 64 + t.lane(), t.ballot((value & 1u) != 0));
  }
};

/// `Each` on every group of `Each::arguments` words; one word out.
template <class Each>
struct EachProbe : ProbeBase {
  static constexpr const char* name = Each::name;
  static constexpr int out_words = 512, in_words = out_words * Each::arguments;
  static constexpr int cases = Each::cases;
  static constexpr Rule rule = Each::rule;
  static std::vector<uint32_t> input(Rng& rng, int number) {
    std::vector<uint32_t> words;
    for (int i = 0; i < in_words; ++i)
      words.push_back(Each::draw(rng, static_cast<uint32_t>(number * in_words + i)));
    return words;
  }
  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const ProbeArgs& args) {
    for (int i = t.lane(); i < out_words; i += 32) {
      uint32_t words[Each::arguments];
      for (int j = 0; j < Each::arguments; ++j)
        words[j] = t.read(args.in + i * Each::arguments + j);
      t.store(args.out + i, Each::of(t, words));
    }
  }
};

template <int Arguments, Rule R = Rule::bits>
struct EachBase {
  static constexpr int arguments = Arguments;
  static constexpr int cases = 4;
  static constexpr Rule rule = R;
  static uint32_t draw(Rng& rng, uint32_t) { return detail::narrow_float(rng); }
};

struct PackBf16 : EachBase<2> {
  static constexpr const char* name = "cvt.bf16x2.f32";
  template <class Thread>
  FOLIO_DEVICE static uint32_t of(Thread& t, const uint32_t (&words)[2]) {
    return t.template pack<DType::bf16>(detail::float_of(words[0]), detail::float_of(words[1]));
  }
};
struct PackF16 : EachBase<2> {
  static constexpr const char* name = "cvt.f16x2.f32";
  template <class Thread>
  FOLIO_DEVICE static uint32_t of(Thread& t, const uint32_t (&words)[2]) {
    return t.template pack<DType::f16>(detail::float_of(words[0]), detail::float_of(words[1]));
  }
};
struct ToE4m3 : EachBase<2> {
  static constexpr const char* name = "cvt.e4m3x2.f32";
  template <class Thread>
  FOLIO_DEVICE static uint32_t of(Thread& t, const uint32_t (&words)[2]) {
    return t.to_e4m3(detail::float_of(words[0]), detail::float_of(words[1]));
  }
};
struct ToE5m2 : EachBase<2> {
  static constexpr const char* name = "cvt.e5m2x2.f32";
  template <class Thread>
  FOLIO_DEVICE static uint32_t of(Thread& t, const uint32_t (&words)[2]) {
    return t.to_e5m2(detail::float_of(words[0]), detail::float_of(words[1]));
  }
};
/// Every code of eight bits, in both halves.
struct EveryCode : EachBase<1> {
  static constexpr int cases = 1;
  static uint32_t draw(Rng&, uint32_t number) {
    return (number & 255u) | ((number * 7u + 3u) & 255u) << 8;
  }
};
struct HalvesOfE4m3 : EveryCode {
  static constexpr const char* name = "cvt.f16x2.e4m3x2";
  template <class Thread>
  FOLIO_DEVICE static uint32_t of(Thread& t, const uint32_t (&words)[1]) {
    return t.half_pair_of_e4m3(static_cast<uint16_t>(words[0]));
  }
};
struct HalvesOfE5m2 : EveryCode {
  static constexpr const char* name = "cvt.f16x2.e5m2x2";
  template <class Thread>
  FOLIO_DEVICE static uint32_t of(Thread& t, const uint32_t (&words)[1]) {
    return t.half_pair_of_e5m2(static_cast<uint16_t>(words[0]));
  }
};
template <DType Type>
struct Unpack : EachBase<1, Rule::floats> {
  static constexpr const char* name = Type == DType::bf16 ? "f32 of bf16" : "cvt.f32.f16";
  static uint32_t draw(Rng& rng, uint32_t) { return static_cast<uint32_t>(rng.next()); }
  template <class Thread>
  FOLIO_DEVICE static uint32_t of(Thread& t, const uint32_t (&words)[1]) {
    const float low = t.template unpack<Type>(words[0], 0);
    const float high = t.template unpack<Type>(words[0], 1);
    return detail::word_of((words[0] & 16u) != 0 ? high : low);
  }
};
struct Exp2 : EachBase<1, Rule::ulps> {
  static constexpr const char* name = "ex2.approx.ftz.f32";
  static constexpr int cases = 16;
  static uint32_t draw(Rng& rng, uint32_t) {
    return rng.chance(0.3) ? detail::random_float(rng) : detail::word_of(rng.uniform(-160, 130));
  }
  template <class Thread>
  FOLIO_DEVICE static uint32_t of(Thread& t, const uint32_t (&words)[1]) {
    return detail::word_of(t.exp2(detail::float_of(words[0])));
  }
};
struct Log2 : EachBase<1, Rule::ulps> {
  static constexpr const char* name = "log2";
  static uint32_t draw(Rng& rng, uint32_t) {
    return rng.chance(0.3) ? detail::random_float(rng) : detail::word_of(rng.uniform(0, 8));
  }
  template <class Thread>
  FOLIO_DEVICE static uint32_t of(Thread& t, const uint32_t (&words)[1]) {
    return detail::word_of(t.log2(detail::float_of(words[0])));
  }
};
struct Tanh : EachBase<1, Rule::ulps> {
  static constexpr const char* name = "tanh";
  template <class Thread>
  FOLIO_DEVICE static uint32_t of(Thread& t, const uint32_t (&words)[1]) {
    return detail::word_of(t.tanh(detail::float_of(words[0])));
  }
};
struct Fma : EachBase<3, Rule::floats> {
  static constexpr const char* name = "fma.rn.f32";
  template <class Thread>
  FOLIO_DEVICE static uint32_t of(Thread& t, const uint32_t (&words)[3]) {
    return detail::word_of(
        t.fma(detail::float_of(words[0]), detail::float_of(words[1]), detail::float_of(words[2])));
  }
};

/// The conversions of public headers, which are these instructions on a GPU and the exact tables on
/// the host: all codes of 8 bits, any of 16; floats there and back.
template <class T>
struct WidenElement : EachBase<1, Rule::floats> {
  static constexpr bool is_byte = sizeof(T) == 1;
  static constexpr int cases = is_byte ? 1 : 4;
  static constexpr const char* name = dtype_of<T> == DType::f8_e4m3   ? "elements of e4m3"
                                      : dtype_of<T> == DType::f8_e5m2 ? "elements of e5m2"
                                      : dtype_of<T> == DType::f16     ? "elements of f16"
                                                                      : "elements of bf16";
  static uint32_t draw(Rng& rng, uint32_t number) {
    return is_byte ? number & 255u : static_cast<uint32_t>(rng.next());
  }
  template <class Thread>
  FOLIO_DEVICE static uint32_t of(Thread&, const uint32_t (&words)[1]) {
    using Bits = decltype(T::bits);
    float values[2];
    folio::detail::floats_of(T{static_cast<Bits>(words[0])}, T{static_cast<Bits>(words[0] + 1u)},
                             values);
    return detail::word_of(values[0]);
  }
};
template <class T>
struct NarrowFloat : EachBase<2, Rule::floats> {
  static constexpr const char* name = dtype_of<T> == DType::f8_e4m3   ? "floats to e4m3"
                                      : dtype_of<T> == DType::f8_e5m2 ? "floats to e5m2"
                                      : dtype_of<T> == DType::f16     ? "floats to f16"
                                                                      : "floats to bf16";
  template <class Thread>
  FOLIO_DEVICE static uint32_t of(Thread&, const uint32_t (&words)[2]) {
    T pair[2];
    folio::detail::elements_of(detail::float_of(words[0]), detail::float_of(words[1]), pair);
    return detail::word_of(to_float((words[0] & 16u) != 0 ? pair[1] : pair[0]));
  }
};

/// Calls visit.operator()<Probe>() for every probe, what is likeliest to hang last.
template <class Visit>
void for_each_probe(Visit&& visit) {
  visit.template operator()<CollectivesProbe>();
  visit.template operator()<LoadMatricesProbe<false>>();
  visit.template operator()<LoadMatricesProbe<true>>();
  visit.template operator()<MultiplyProbe<DType::bf16, true>>();
  visit.template operator()<MultiplyProbe<DType::bf16, false>>();
  visit.template operator()<MultiplyProbe<DType::f16, true>>();
  visit.template operator()<MultiplyProbe<DType::f16, false>>();
  visit.template operator()<EachProbe<PackBf16>>();
  visit.template operator()<EachProbe<PackF16>>();
  visit.template operator()<EachProbe<ToE4m3>>();
  visit.template operator()<EachProbe<ToE5m2>>();
  visit.template operator()<EachProbe<HalvesOfE4m3>>();
  visit.template operator()<EachProbe<HalvesOfE5m2>>();
  visit.template operator()<EachProbe<Unpack<DType::bf16>>>();
  visit.template operator()<EachProbe<Unpack<DType::f16>>>();
  visit.template operator()<EachProbe<WidenElement<f8_e4m3>>>();
  visit.template operator()<EachProbe<WidenElement<f8_e5m2>>>();
  visit.template operator()<EachProbe<WidenElement<f16>>>();
  visit.template operator()<EachProbe<WidenElement<bf16>>>();
  visit.template operator()<EachProbe<NarrowFloat<f8_e4m3>>>();
  visit.template operator()<EachProbe<NarrowFloat<f8_e5m2>>>();
  visit.template operator()<EachProbe<NarrowFloat<f16>>>();
  visit.template operator()<EachProbe<NarrowFloat<bf16>>>();
  visit.template operator()<EachProbe<Exp2>>();
  visit.template operator()<EachProbe<Log2>>();
  visit.template operator()<EachProbe<Tanh>>();
  visit.template operator()<EachProbe<Fma>>();
  visit.template operator()<CopyProbe<4>>();
  visit.template operator()<CopyProbe<8>>();
  visit.template operator()<CopyProbe<16>>();
  visit.template operator()<GroupMultiplyProbe<DType::bf16, false, false>>();
  visit.template operator()<GroupMultiplyProbe<DType::bf16, true, false>>();
  visit.template operator()<GroupMultiplyProbe<DType::bf16, false, true>>();
  visit.template operator()<GroupMultiplyProbe<DType::f16, true, true>>();
  visit.template operator()<BulkCopyProbe>();
}

}  // namespace folio::test
