// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/rows_test.cpp: the builds of the row kernels against core/dtype.h and against one
/// another.
#include "cpu/append/rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/features.h"
#include "cpu/profile.h"
#include "folio/core/element.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr DType stored_types[] = {DType::f32,     DType::bf16,    DType::f16,
                                  DType::f8_e4m3, DType::f8_e5m2, DType::i8};

/// The builds that this machine runs; the others are named.
std::vector<rows::Kernel> runnable() {
  std::vector<rows::Kernel> list;
  for (const rows::Kernel* kernel : rows::kernels()) {
    if (machine_has(kernel->needs)) {
      list.push_back(*kernel);
    } else {
      std::printf("[  SKIPPED ] %s: %s\n", std::string(kernel->name).c_str(),
                  lacks(kernel->needs, machine_capabilities()));
    }
  }
  return list;
}

int64_t bytes_of(DType dtype) { return bit_width(dtype) / 8; }

std::vector<std::byte> written(const rows::Kernel& kernel, const rows::Conversion& job,
                               const void* source, const float* cos_sin = nullptr,
                               std::byte* scales = nullptr) {
  const GuardedMemory target(job.heads * job.target.head_stride_bytes, bytes_of(job.target.dtype));
  const rows::TokenRow place{static_cast<const std::byte*>(source), target.data(), cos_sin, nullptr,
                             scales};
  kernel.write(&job, 1, &place, 1);
  return {target.data(), target.data() + target.bytes()};
}

rows::Conversion conversion(DType from, DType to, int64_t n) {
  rows::Conversion job;
  job.heads = 1;
  job.head_size = n;
  job.source = {from, n * bytes_of(from)};
  job.target = {to, n * bytes_of(to)};
  job.tokens_ahead = machine_profile().append.tokens_ahead;
  return job;
}

template <class T>
std::vector<std::byte> expected_of(const std::vector<float>& x) {
  std::vector<std::byte> all(x.size() * sizeof(T));
  for (size_t i = 0; i < x.size(); ++i) {
    const T element = from_float<T>(x[i]);
    std::memcpy(all.data() + i * sizeof(T), &element, sizeof element);
  }
  return all;
}

std::vector<std::byte> expected_of(DType dtype, const std::vector<float>& x) {
  return detail::visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (Element<T>) {
      return expected_of<T>(x);
    } else {
      return std::vector<std::byte>();
    }
  });
}

/// Floats around every rounding boundary: all exponents, patterns of low bits at and beside ties,
/// specials.
std::vector<float> critical_floats(Rng& rng) {
  std::vector<float> x;
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (int i = 0; i < 300; ++i) {
      const int kept = rng.int_between(0, 12);  // mantissa bits before the tie
      const uint32_t mantissa =
          static_cast<uint32_t>(rng.next()) & 0x7fffffu & ~((1u << (23 - kept)) - 1u);
      const uint32_t tie = kept < 23 ? 1u << (22 - kept) : 0u;
      const auto beside = static_cast<uint32_t>(rng.int_between(-1, 1));
      const uint32_t bits = (exponent << 23 | mantissa | tie) + beside;
      x.push_back(std::bit_cast<float>(bits ^ (rng.chance(0.5) ? 0x80000000u : 0u)));
    }
  }
  for (const uint32_t bits :
       {0u, 0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7f800001u}) {
    x.push_back(std::bit_cast<float>(bits));
  }
  return x;
}

TEST(Rows, narrowing_is_from_float_for_every_type) {
  Rng rng(test_seed());
  const std::vector<float> x = critical_floats(rng);
  for (const rows::Kernel& kernel : runnable()) {
    for (const DType to : stored_types) {
      if (to == DType::f32) continue;
      const rows::Conversion job = conversion(DType::f32, to, static_cast<int64_t>(x.size()));
      const std::vector<std::byte> actual = written(kernel, job, x.data()),
                                   expected = expected_of(to, x);
      for (size_t i = 0; i < x.size(); ++i) {
        const auto size = static_cast<size_t>(bytes_of(to));
        ASSERT_EQ(std::memcmp(actual.data() + i * size, expected.data() + i * size, size), 0)
            << kernel.name << ", " << name(to) << " of " << std::hexfloat << x[i];
      }
    }
  }
}

TEST(Rows, narrowing_is_from_float_of_every_pattern_of_16_bits) {
  constexpr int64_t patterns = 1 << 16;
  std::vector<uint16_t> source(patterns);
  for (int64_t i = 0; i < patterns; ++i) source[static_cast<size_t>(i)] = static_cast<uint16_t>(i);
  for (const DType from : {DType::bf16, DType::f16}) {
    std::vector<float> x;
    for (const uint16_t bits : source) {
      x.push_back(from == DType::bf16 ? to_float(std::bit_cast<bf16>(bits))
                                      : to_float(std::bit_cast<f16>(bits)));
    }
    for (const float divisor : {0.0f, 1.0f, 0.375f, 3.0f, 1.1f, 0x1p-9f}) {  // 0: no scale
      std::vector<float> quotients = x;
      for (float& q : quotients) q = divisor == 0.0f ? q : q / divisor;
      for (const DType to : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
        const std::vector<std::byte> expected = expected_of(to, quotients);
        // heads of 128, that the kernels know, and heads of 32
        for (const int64_t length : {128, 32}) {
          rows::Conversion job = conversion(from, to, length);
          job.heads = static_cast<int32_t>(patterns / length);
          if (divisor != 0.0f) {
            job.target.scale_dtype = DType::f32;
            job.target.granularity = static_cast<int32_t>(length);
          }
          float scale = divisor;
          for (const rows::Kernel& kernel : runnable()) {
            const std::vector<std::byte> actual =
                written(kernel, job, source.data(), nullptr, reinterpret_cast<std::byte*>(&scale));
            for (size_t i = 0; i < x.size(); ++i) {
              ASSERT_EQ(actual[i], expected[i]) << kernel.name << ", " << name(to) << " of "
                                                << name(from) << ' ' << i << " / " << divisor;
            }
          }
        }
      }
    }
  }
}

TEST(Rows, widening_is_to_float_for_every_pattern) {
  for (const rows::Kernel& kernel : runnable()) {
    for (const DType from : stored_types) {
      if (from == DType::f32) continue;
      const int64_t patterns = int64_t{1} << bit_width(from);
      std::vector<std::byte> source(static_cast<size_t>(patterns * bytes_of(from)));
      for (int64_t i = 0; i < patterns; ++i)
        std::memcpy(source.data() + i * bytes_of(from), &i, static_cast<size_t>(bytes_of(from)));
      const std::vector<std::byte> actual =
          written(kernel, conversion(from, DType::f32, patterns), source.data());
      detail::visit_dtype(from, [&]<class T>(std::type_identity<T>) {
        if constexpr (Element<T>) {
          for (int64_t i = 0; i < patterns; ++i) {
            T element;
            std::memcpy(static_cast<void*>(&element), &i, sizeof element);
            float value = 0.0f;
            std::memcpy(&value, actual.data() + i * 4, sizeof value);
            const float expected = to_float(element);
            if (std::isnan(expected) && std::isnan(value)) continue;
            ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(expected))
                << kernel.name << ' ' << name(from) << ' ' << i;
          }
        }
      });
    }
  }
}

TEST(Rows, a_quotient_by_a_scale_is_the_rounded_one) {
  Rng rng(test_seed());
  for (int round = 0; round < 2000; ++round) {
    // Divisors of all sizes, many of them such that quotients fall on ties of the stored type.
    float divisor = std::bit_cast<float>(static_cast<uint32_t>(rng.between(1, 0x7f7fffff)));
    if (rng.chance(0.7)) divisor = std::ldexp(rng.uniform(1.0f, 2.0f), rng.int_between(-30, 30));
    std::vector<float> x(70);
    for (float& value : x) {
      const auto steps = static_cast<float>(rng.int_between(-300, 300));
      value = divisor * steps * 0.5f;
      if (rng.chance(0.5)) value = std::nextafter(value, rng.chance(0.5) ? 1e30f : -1e30f);
      if (rng.chance(0.2)) value = divisor * rng.uniform(-500.0f, 500.0f);
      if (rng.chance(0.05)) value = std::bit_cast<float>(static_cast<uint32_t>(rng.next()));
      if (rng.chance(0.05)) value = rng.chance(0.5) ? 0.0f : -0.0f;
    }
    std::vector<float> quotients(x.size());
    for (size_t i = 0; i < x.size(); ++i) quotients[i] = x[i] / divisor;
    for (const DType to : stored_types) {
      const std::vector<std::byte> expected = expected_of(to, quotients);
      rows::Conversion job = conversion(DType::f32, to, static_cast<int64_t>(x.size()));
      job.target.scale_dtype = DType::f32;
      job.target.granularity = static_cast<int32_t>(x.size());
      for (const rows::Kernel* build : rows::kernels()) {
        const rows::Kernel& kernel = *build;
        if (!machine_has(kernel.needs)) continue;
        const std::vector<std::byte> actual =
            written(kernel, job, x.data(), nullptr, reinterpret_cast<std::byte*>(&divisor));
        for (size_t i = 0; i < x.size(); ++i) {
          const auto size = static_cast<size_t>(bytes_of(to));
          if (to == DType::f32 && std::isnan(quotients[i])) continue;
          ASSERT_EQ(std::memcmp(actual.data() + i * size, expected.data() + i * size, size), 0)
              << kernel.name << ", " << name(to) << " of " << std::hexfloat << x[i] << " / "
              << divisor;
        }
      }
    }
  }
}

/// Everything at random, but no NaN where floats are computed with: the payload of the result is
/// the processor's.
struct RandomJob {
  rows::Conversion job;
  std::vector<std::byte> source;
  std::vector<float> weights, shifts, table;
  std::vector<std::byte> scales;

  explicit RandomJob(Rng& rng) {
    const DType sources[] = {DType::f32, DType::bf16, DType::f16};
    const DType scale_types[] = {DType::f32, DType::bf16, DType::f16, DType::f8_e8m0,
                                 DType::f8_e4m3};
    const int32_t head_size =
        rng.chance(0.5) ? 32 * rng.int_between(1, 6) : rng.int_between(2, 200);
    job = conversion(rng.pick(sources), rng.pick(stored_types), head_size);
    job.heads = rng.chance(0.1) ? 70 : rng.int_between(1, 9);
    job.streams = rng.chance(0.5);
    if (rng.chance(0.4)) job.norm_eps = rng.uniform(0.0f, 0.1f);
    weights.resize(static_cast<size_t>(head_size));
    shifts.resize(static_cast<size_t>(head_size));
    table.resize(static_cast<size_t>(head_size));
    for (float& w : weights) w = rng.uniform(-2.0f, 2.0f);
    for (float& s : shifts) s = rng.uniform(-2.0f, 2.0f);
    for (float& t : table) t = rng.uniform(-1.0f, 1.0f);
    if (rng.chance(0.5)) job.norm = weights.data();
    if (job.norm != nullptr && rng.chance(0.5)) job.norm_shift = shifts.data();
    if (rng.chance(0.7)) {
      job.rope_dims = 2 * rng.int_between(1, head_size / 2);
      job.first_dim = rng.int_between(0, head_size - job.rope_dims);
      job.interleaved = rng.chance(0.5);
    }
    if (rng.chance(0.7) && bit_width(job.target.dtype) == 8) {
      job.target.scale_dtype = rng.pick(scale_types);
      job.target.granularity = rng.int_between(1, head_size);
      const int64_t scale = bytes_of(job.target.scale_dtype),
                    granules = (head_size + job.target.granularity - 1) / job.target.granularity;
      if (rng.chance(0.7)) job.target.granule_stride_bytes = scale;
      if (rng.chance(0.7)) job.target.scale_head_stride_bytes = scale * granules;
      job.computes_scales = true;
      scales.resize(static_cast<size_t>(job.heads * granules * scale));
    }
    source.resize(static_cast<size_t>(job.heads * job.source.head_stride_bytes));
    for (size_t i = 0; i < source.size(); i += static_cast<size_t>(bytes_of(job.source.dtype))) {
      const float x = rng.uniform(-3.0f, 3.0f);
      const std::vector<std::byte> element = expected_of(job.source.dtype, {x});
      std::memcpy(source.data() + i, element.data(), element.size());
    }
  }
};

TEST(Rows, all_builds_write_the_same_bytes) {
  Rng rng(test_seed());
  const std::vector<rows::Kernel> kernels = runnable();
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(round);
    RandomJob random(rng);
    std::vector<std::byte> first, first_scales;
    for (const rows::Kernel& kernel : kernels) {
      std::vector<std::byte> scales = random.scales;
      const std::vector<std::byte> bytes =
          written(kernel, random.job, random.source.data(), random.table.data(), scales.data());
      if (first.empty()) first = bytes, first_scales = scales;
      ASSERT_EQ(bytes == first, true) << kernel.name << ", " << name(random.job.source.dtype)
                                      << " to " << name(random.job.target.dtype);
      ASSERT_EQ(scales == first_scales, true)
          << kernel.name << ", scales in " << name(random.job.target.scale_dtype);
    }
  }
}

TEST(Rows, streaming_changes_no_byte_and_nothing_beside) {
  Rng rng(test_seed());
  for (const rows::Kernel& kernel : runnable()) {
    for (int round = 0; round < 300; ++round) {
      const int64_t bytes = rng.between(0, 1500), offset = rng.between(0, 70),
                    source_offset = rng.between(0, 70);
      std::vector<std::byte> source(static_cast<size_t>(bytes + source_offset)),
          target(static_cast<size_t>(bytes + offset + 64), std::byte{7});
      for (std::byte& b : source) b = static_cast<std::byte>(rng.next());
      std::vector<std::byte> expected = target;
      if (bytes > 0)
        std::memcpy(expected.data() + offset, source.data() + source_offset,
                    static_cast<size_t>(bytes));
      kernel.move(target.data() + offset, source.data() + source_offset, bytes, rng.chance(0.7));
      rows::fence();
      ASSERT_EQ(target == expected, true) << kernel.name << ' ' << bytes << " bytes at " << offset;
    }
  }
}

TEST(Rows, the_best_build_that_runs_here_is_chosen) {
  EXPECT_EQ(rows::kernel().name, runnable().front().name);
  for (size_t i = 1; i < rows::kernels().size(); ++i)
    EXPECT_TRUE(rows::kernels()[i - 1]->needs.has_all(rows::kernels()[i]->needs));
}

}  // namespace
}  // namespace folio::test
