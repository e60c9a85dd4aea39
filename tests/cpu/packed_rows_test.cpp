// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/packed_rows_test.cpp: the builds of the row kernels on rows of four bits: the bytes of
/// the reference, with the scales that each build makes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cpu/append/rows.h"
#include "cpu/features.h"
#include "reference/elements.h"
#include "reference/quantise.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr DType packed_types[] = {DType::i4, DType::i4_halves, DType::u4, DType::u4_halves,
                                  DType::f4_e2m1};
constexpr DType scale_types[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0,
                                 DType::f8_e4m3};

/// Heads of one token, given side by side, and what becomes of them.
struct Case {
  DType source, target, scale;
  int32_t heads, head_size, granularity;
  float tensor_scale = 1.0f;

  [[nodiscard]] int64_t granules() const { return (head_size + granularity - 1) / granularity; }
  [[nodiscard]] int64_t scale_bytes() const { return heads * granules() * bit_width(scale) / 8; }
  [[nodiscard]] int64_t target_bytes() const { return heads * row_bytes(target, head_size); }

  [[nodiscard]] rows::Conversion conversion() const {
    rows::Conversion job;
    job.heads = heads;
    job.head_size = head_size;
    job.source = {source, row_bytes(source, head_size)};
    job.target.dtype = target;
    job.target.head_stride_bytes = row_bytes(target, head_size);
    job.target.scale_dtype = scale;
    job.target.granularity = granularity;
    job.target.granule_stride_bytes = bit_width(scale) / 8;
    job.target.scale_head_stride_bytes = granules() * job.target.granule_stride_bytes;
    job.target.tensor_scale = tensor_scale;
    job.computes_scales = true;
    return job;
  }
  [[nodiscard]] PagedKVView view(void* values, void* scales) const {
    const rows::Format f = conversion().target;
    PagedKVView v;
    v.data = values;
    v.dtype = target;
    v.num_heads = heads;
    v.head_size = head_size;
    v.page_size = 1;
    v.num_pages = 1;
    v.head_stride_bytes = f.head_stride_bytes;
    v.scales.data = scales;
    v.scales.dtype = scale;
    v.scales.granularity = granularity;
    v.scales.granule_stride_bytes = f.granule_stride_bytes;
    v.scales.head_stride_bytes = f.scale_head_stride_bytes;
    v.scales.slot_stride_bytes = scale_bytes();
    v.scales.tensor_scale = &tensor_scale;
    return v;
  }
};

Case random_case(Rng& rng) {
  constexpr DType sources[] = {DType::f32, DType::bf16, DType::f16};
  constexpr int32_t sizes[] = {32, 64, 96, 128, 192, 256, 576};
  constexpr int32_t granularities[] = {16, 32, 64, 128, 7, 24, 1000};
  return {rng.pick(sources),
          rng.pick(packed_types),
          rng.pick(scale_types),
          rng.int_between(1, 9),
          rng.pick(sizes),
          rng.pick(granularities),
          rng.chance(0.3) ? rng.uniform(0.01f, 10.0f) : 1.0f};
}

/// Magnitudes of many sizes, many of them twice; now and then a special one, or a large one.
std::vector<float> random_rows(Rng& rng, const Case& c) {
  constexpr float specials[] = {0.0f,   -0.0f,  std::numeric_limits<float>::infinity(),
                                1e30f,  -3e38f, -std::numeric_limits<float>::infinity(),
                                1e-30f, 6e4f,   std::numeric_limits<float>::quiet_NaN()};
  const bool has_specials = rng.chance(0.4);
  std::vector<float> x(static_cast<size_t>(c.heads * c.head_size));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = rng.uniform(-1.0f, 1.0f) * std::exp2(rng.uniform(-4.0f, 4.0f));
    if (i > 0 && rng.chance(0.2)) x[i] = -x[i - 1];
    if (has_specials && rng.chance(0.05)) x[i] = rng.pick(specials);
    x[i] = static_cast<float>(reference::round_to(c.source, static_cast<double>(x[i])));
  }
  return x;
}

TEST(PackedRows, of_every_build_are_those_of_the_reference) {
  Rng rng(test_seed());
  for (int round = 0; round < 1500; ++round) {
    const Case c = random_case(rng);
    SCOPED_TRACE(std::string(name(c.source)) + " to " + name(c.target) + ", scales " +
                 name(c.scale) + " of " + std::to_string(c.granularity) + ", heads " +
                 std::to_string(c.heads) + " of " + std::to_string(c.head_size));
    const std::vector<float> x = random_rows(rng, c);
    const GuardedMemory source(c.heads * row_bytes(c.source, c.head_size), bit_width(c.source) / 8);
    for (size_t i = 0; i < x.size(); ++i)
      reference::store(source.data() + static_cast<int64_t>(i) * bit_width(c.source) / 8, c.source,
                       static_cast<double>(x[i]));
    std::vector<std::byte> values(static_cast<size_t>(c.target_bytes())),
        scales(static_cast<size_t>(c.scale_bytes()));
    const PagedKVView view = c.view(values.data(), scales.data());
    for (int32_t head = 0; head < c.heads; ++head)
      for (int32_t dim = 0; dim < c.head_size; dim += c.granularity)
        reference::store_granule(
            view, {0, 0}, head, dim,
            std::span(x).subspan(static_cast<size_t>(head * c.head_size + dim),
                                 static_cast<size_t>(std::min(c.granularity, c.head_size - dim))));
    for (const rows::Kernel* kernel : rows::kernels()) {
      if (!machine_has(kernel->needs)) continue;
      const GuardedMemory target(c.target_bytes(), 1),
          made(c.scale_bytes(), bit_width(c.scale) / 8);
      const rows::Conversion job = c.conversion();
      const rows::TokenRow place{source.data(), target.data(), nullptr, nullptr, made.data()};
      kernel->write(&job, 1, &place, 1);
      ASSERT_EQ(std::vector<std::byte>(made.data(), made.data() + made.bytes()), scales)
          << kernel->name;
      ASSERT_EQ(std::vector<std::byte>(target.data(), target.data() + target.bytes()), values)
          << kernel->name;
    }
  }
}

}  // namespace
}  // namespace folio::test
