// SPDX-License-Identifier: Apache-2.0
/// tests/attention/rotate_test.cpp: rotate against the words of its header, bit for bit, and
/// against the reference in double.
#include "folio/attention/rotate.h"

#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "attention/append_parts.h"
#include "attention/rope_parts.h"
#include "reference/hadamard.h"
#include "reference/rotate.h"
#include "support/allocations.h"

namespace folio::test {
namespace {

constexpr DType activations[] = {DType::f32, DType::bf16, DType::f16};

/// A step of up to four sequences and what rotates its queries.
struct Case {
  std::vector<int32_t> offsets{0}, contexts, query_positions, key_positions, positions;
  Batch batch;
  int32_t head_size;
  RandomRope table;
  Source q, out;
  std::vector<float> channel_scales;
  PagedKVView key;
  RotateArgs args;

  static constexpr int32_t rows = 40;

  explicit Case(Rng& rng)
      : head_size(rng.chance(0.3) ? 16 * rng.int_between(1, 10) : rng.int_between(2, 90)),
        table(rng, head_size, rows),
        q(rng.pick(activations), tokens_of(rng), rng.between(1, 4), head_size, rng.between(0, 3)),
        out(rng.pick(activations), offsets.back(), q.tensor.extent[1], head_size,
            rng.between(0, 3)) {
    q.randomise(rng, rng.chance(0.2));
    batch.size = static_cast<int32_t>(contexts.size());
    batch.query_offsets = offsets.data();
    batch.context_lengths = contexts.data();
    if (rng.chance(0.3)) batch.query_positions = query_positions.data();
    if (rng.chance(0.3)) batch.key_positions = key_positions.data();
    if (rng.chance(0.3)) table.rope.positions = positions.data();
    args = {q.tensor, out.tensor, &table.rope, table.weights.as<float>(),
            rng.chance(0.5) ? 0.0f : 1e-5f};
    if (rng.chance(0.4)) {
      args.q_norm = nullptr;
    } else if (rng.chance(0.5)) {
      args.q_norm_shift = table.shifts.as<float>();
    }
    if (rng.chance(0.2)) args.rope = nullptr;
    if (rng.chance(0.5)) turn(rng);
  }

 private:
  void turn(Rng& rng) {
    const auto heads = static_cast<int32_t>(q.tensor.extent[1]);
    key.head_size = head_size;
    key.num_heads = heads % 2 == 0 && rng.chance(0.5) ? heads / 2 : rng.chance(0.5) ? heads : 1;
    const int32_t largest = head_size & -head_size;
    if (largest >= 16)
      key.hadamard = {rng.chance(0.5) ? 16 : largest, rng.chance(0.5) ? 0x9e3779b9u : 0u};
    if (rng.chance(0.5)) {
      for (int i = 0; i < key.num_heads * head_size; ++i)
        channel_scales.push_back(rng.uniform(0.1f, 4.0f));
      key.has_channel_scales = true;
      key.channel_scales = channel_scales.data();
    }
    args.key = &key;
  }
  int64_t tokens_of(Rng& rng) {
    const int64_t size = rng.between(1, 4);
    for (int64_t b = 0; b < size; ++b) {
      const int32_t fresh = rng.chance(0.2) ? 0 : rng.int_between(1, 9);
      contexts.push_back(fresh + rng.int_between(0, 15));
      query_positions.push_back(rng.int_between(0, rows - fresh));
      key_positions.push_back(rng.int_between(0, rows - contexts.back()));
      for (int32_t t = 0; t < fresh; ++t) positions.push_back(rng.int_between(0, rows - 1));
      offsets.push_back(offsets.back() + fresh);
    }
    return offsets.back();
  }
};

std::vector<float> row_of(const Source& source, int64_t t, int64_t h) {
  std::vector<float> x(static_cast<size_t>(source.tensor.extent[2]));
  for (size_t d = 0; d < x.size(); ++d) x[d] = source.get(t, h, static_cast<int64_t>(d));
  return x;
}

void turn_by_definition(std::vector<float>& x, const PagedKVView& key, int64_t head,
                        int64_t heads) {
  const float* scales = key.channel_scales;
  if (scales != nullptr) scales += head / (heads / key.num_heads) * key.head_size;
  for (size_t d = 0; d < x.size() && scales != nullptr; ++d) x[d] *= scales[d];
  reference::turn(x, key.hadamard);
}

TEST(Rotate, every_bit_follows_from_the_words_of_the_header) {
  Rng rng(test_seed());
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    const Case c(rng);
    const Status status = rotate(c.batch, c.args, default_executor(2));
    ASSERT_TRUE(status.is_ok()) << status.message();
    for (int64_t t = 0; t < c.q.tensor.extent[0]; ++t) {
      for (int64_t h = 0; h < c.q.tensor.extent[1]; ++h) {
        std::vector<float> x = row_of(c.q, t, h);
        if (c.args.q_norm != nullptr)
          normalise_by_definition(x, c.args.q_norm, c.args.q_norm_shift, c.args.norm_eps);
        if (c.args.rope != nullptr)
          rotate_by_definition(x, *c.args.rope, reference::position_of(c.batch, *c.args.rope, t));
        if (c.args.key != nullptr) turn_by_definition(x, *c.args.key, h, c.q.tensor.extent[1]);
        for (int64_t d = 0; d < c.head_size; ++d) {
          float expected = x[static_cast<size_t>(d)];
          reference::store(&expected, c.out.tensor.dtype, static_cast<double>(expected));
          const auto wanted = static_cast<float>(reference::load(&expected, c.out.tensor.dtype));
          const float actual = c.out.get(t, h, d);
          if (std::isnan(wanted) && std::isnan(actual)) continue;
          ASSERT_EQ(std::bit_cast<uint32_t>(actual), std::bit_cast<uint32_t>(wanted))
              << t << ' ' << h << ' ' << d;
        }
      }
    }
  }
}

/// What rounding of x - mean becomes at the most behind a LayerNorm, a rotation and a turn: sums of
/// two products of weights below 2, angles below 8 and channel scales below 4.
double enlarged(const Case& c) {
  double largest = 0.0;
  for (int64_t t = 0; t < c.q.tensor.extent[0]; ++t) {
    for (int64_t h = 0; h < c.q.tensor.extent[1]; ++h)
      largest = std::max(largest, enlargement_of_norm(row_of(c.q, t, h), c.args.norm_eps));
  }
  return 2.0 * 2.0 * 8.0 * 4.0 * largest;
}

TEST(Rotate, agrees_with_the_reference_in_double) {
  Rng rng(test_seed());
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    Case c(rng);
    c.q.randomise(rng, false);
    ASSERT_TRUE(rotate(c.batch, c.args, serial_executor()).is_ok());
    const std::vector<double> exact = reference::rotated(c.batch, c.args);
    double largest = c.args.q_norm_shift != nullptr ? enlarged(c) : 0.0;
    for (const double x : exact)
      if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
    // Norm: a chain of head_size / 16 additions, a root, a quotient, three products; rotation: two
    // products and a sum; turn: two products, sums of all elements of a block.
    const double float_error = (static_cast<double>(c.head_size) / 16.0 + 16.0) * 0x1p-24 * 4.0 *
                               largest *
                               std::sqrt(std::max(1.0, static_cast<double>(c.key.hadamard.block)));
    size_t i = 0;
    for (int64_t t = 0; t < c.q.tensor.extent[0]; ++t) {
      for (int64_t h = 0; h < c.q.tensor.extent[1]; ++h) {
        for (int64_t d = 0; d < c.head_size; ++d, ++i) {
          if (!std::isfinite(exact[i])) continue;  // a row without variance, and no eps
          if (c.out.tensor.dtype == DType::f16 && std::fabs(exact[i]) > 65000.0) continue;
          const double bound = float_error +
                               reference::unit_roundoff(c.out.tensor.dtype) * std::fabs(exact[i]) +
                               0x1p-24;
          ASSERT_NEAR(static_cast<double>(c.out.get(t, h, d)), exact[i], bound);
        }
      }
    }
  }
}

TEST(Rotate, in_place_gives_the_same_as_elsewhere) {
  Rng rng(test_seed());
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(round);
    Case c(rng);
    const Source elsewhere(c.q.tensor.dtype, c.q.tensor.extent[0], c.q.tensor.extent[1],
                           c.head_size, 1);
    c.args.out = elsewhere.tensor;
    ASSERT_TRUE(rotate(c.batch, c.args, serial_executor()).is_ok());
    c.args.out = c.q.tensor;
    ASSERT_TRUE(rotate(c.batch, c.args, default_executor(2)).is_ok());
    for (int64_t t = 0; t < c.q.tensor.extent[0]; ++t) {
      for (int64_t h = 0; h < c.q.tensor.extent[1]; ++h) {
        for (int64_t d = 0; d < c.head_size; ++d) {
          const float a = c.q.get(t, h, d), b = elsewhere.get(t, h, d);
          if (std::isnan(a) && std::isnan(b)) continue;
          ASSERT_EQ(std::bit_cast<uint32_t>(a), std::bit_cast<uint32_t>(b));
        }
      }
    }
  }
}

TEST(Rotate, the_quarter_turn_swaps_a_pair) {
  const float quarter[] = {0.0f, 0.0f, 1.0f, 1.0f};  // two cosines, two sines
  for (const bool interleaved : {false, true}) {
    std::vector<float> x{1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
    Rope rope{quarter, 1, 4, interleaved, 1, nullptr};
    const int32_t position[] = {0};
    rope.positions = position;
    RotateArgs args;
    args.q = args.out = dense_tensor<3>(x.data(), DType::f32, {1, 1, 6});
    args.rope = &rope;
    ASSERT_EQ(rotate({}, args, serial_executor()).message(), "");
    const std::vector<float> expected =
        interleaved ? std::vector<float>{1.0f, -3.0f, 2.0f, -5.0f, 4.0f, 6.0f}
                    : std::vector<float>{1.0f, -4.0f, -5.0f, 2.0f, 3.0f, 6.0f};
    EXPECT_EQ(x, expected);
  }
}

TEST(Rotate, a_chunk_is_rotated_as_the_whole_is) {
  Rng rng(test_seed());
  RandomRope table(rng, 64, 40);
  const Source q(DType::bf16, 40, 2, 64, 0), whole(DType::bf16, 40, 2, 64, 0),
      parts(DType::bf16, 40, 2, 64, 0);
  q.randomise(rng, false);
  const int32_t all[] = {0, 40}, contexts[] = {40};
  RotateArgs args{q.tensor, whole.tensor, &table.rope, table.weights.as<float>()};
  ASSERT_TRUE(rotate({1, all, contexts}, args, default_executor(2)).is_ok());
  for (int32_t begin = 0; begin < 40; begin += 8) {
    const int32_t some[] = {0, 8}, context[] = {begin + 8};
    args.q.data = static_cast<std::byte*>(q.tensor.data) + begin * q.tensor.stride_bytes[0];
    args.out.data =
        static_cast<std::byte*>(parts.tensor.data) + begin * parts.tensor.stride_bytes[0];
    args.q.extent[0] = args.out.extent[0] = 8;
    ASSERT_TRUE(rotate({1, some, context}, args, serial_executor()).is_ok());
  }
  EXPECT_EQ(std::memcmp(whole.tensor.data, parts.tensor.data, 40 * 2 * 64 * 2), 0);
}

TEST(Rotate, a_table_is_reached_beyond_2_to_the_32_bytes) {
  constexpr int64_t dims = 64, rows = 20'000'000;
  void* map = mmap(nullptr, rows * dims * 4, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) GTEST_SKIP() << "no 5 GB of address space here";
  auto* table = static_cast<float*>(map);
  for (int64_t i = 0; i < dims / 2; ++i) {
    table[(rows - 1) * dims + i] = 0.0f;
    table[(rows - 1) * dims + dims / 2 + i] = 2.0f;
  }
  std::vector<float> x(static_cast<size_t>(dims), 3.0f);
  const int32_t position[] = {rows - 1};
  const Rope rope{table, rows, dims, false, 0, position};
  RotateArgs args;
  args.q = args.out = dense_tensor<3>(x.data(), DType::f32, {1, 1, dims});
  args.rope = &rope;
  EXPECT_TRUE(rotate({}, args, serial_executor()).is_ok());
  EXPECT_EQ(x.front(), -6.0f);
  EXPECT_EQ(x.back(), 6.0f);
  munmap(map, rows * dims * 4);
}

TEST(Rotate, a_NaN_spoils_its_pair_and_with_a_norm_its_row_but_no_other) {
  Rng rng(test_seed());
  const RandomRope table(rng, 32, 4);
  const int32_t positions[] = {3};
  Rope rope{table.rope.cos_sin, 4, table.rope.dims, false, 0, positions};
  for (const bool with_norm : {false, true}) {
    std::vector<float> x(2 * 32, 1.0f);
    x[5] = not_a_number;
    RotateArgs args;
    args.q = args.out = dense_tensor<3>(x.data(), DType::f32, {1, 2, 32});
    args.rope = &rope;
    if (with_norm) args.q_norm = table.weights.as<float>();
    ASSERT_TRUE(rotate({}, args, serial_executor()).is_ok());
    const auto is_nan = [](float value) { return std::isnan(value); };
    const auto spoilt = std::count_if(x.begin(), x.begin() + 32, is_nan);
    EXPECT_EQ(spoilt, with_norm ? 32 : 5 < table.rope.dims ? 2 : 1);
    EXPECT_EQ(std::count_if(x.begin() + 32, x.end(), is_nan), 0);
  }
}

TEST(Rotate, no_tokens_is_success) { EXPECT_TRUE(rotate({}, {}, serial_executor()).is_ok()); }

TEST(Rotate, rotating_allocates_nothing) {
  Rng rng(test_seed());
  const Case c(rng);
  const int64_t before = allocations();
  const Status status = rotate(c.batch, c.args, serial_executor());
  EXPECT_EQ(allocations(), before);
  EXPECT_TRUE(status.is_ok());
}

}  // namespace
}  // namespace folio::test
