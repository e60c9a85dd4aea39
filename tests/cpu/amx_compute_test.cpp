// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_compute_test.cpp: the AMX compute of grouped heads against double, and that rows
/// are independent of all else.
///
/// Everything runs on emulated tiles, and again on tiles in hardware where there are some.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/amx_compute_entries.h"
#include "cpu/features.h"
#include "folio/core/element.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr int rows_total = 32, keys_of_tile = 64;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr uint64_t every_key = ~uint64_t{0};

template <class T>
struct Aligned {
  explicit Aligned(size_t count) : memory(count * sizeof(T) / 64 + 1) {}
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  T* data() { return reinterpret_cast<T*>(memory.data()); }
  std::vector<Line> memory;
};

/// 32 rows over some tiles, in natural order, with what may join the scores.
struct Case {
  Case(Rng& rng, Depths sizes, int tile_count, float spread = 1.0f)
      : depths(sizes),
        tiles(tile_count),
        keys(tile_count * keys_of_tile),
        scale(1.0f / std::sqrt(static_cast<float>(sizes.depth))),
        q(draw(rng, rows_total * sizes.depth, spread)),
        k(draw(rng, keys * sizes.depth, 1.0f)),
        v(draw(rng, keys * sizes.v_depth, 1.0f)),
        seen(static_cast<size_t>(tiles * rows_total), every_key),
        bias(static_cast<size_t>(rows_total * keys)),
        key_scales(static_cast<size_t>(keys), 1.0f),
        value_scales(static_cast<size_t>(keys), 1.0f) {}

  /// Sums of three uniform numbers, rounded to bf16.
  static std::vector<float> draw(Rng& rng, int count, float spread) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& x : values) {
      const float sum =
          rng.uniform(-1.0f, 1.0f) + rng.uniform(-1.0f, 1.0f) + rng.uniform(-1.0f, 1.0f);
      x = to_float(from_float<bf16>(spread * sum));
    }
    return values;
  }

  uint64_t& seen_of(int tile, int row) {
    return seen[static_cast<size_t>(tile * rows_total + row)];
  }
  [[nodiscard]] skeleton::LogitTerms terms_of(int tile, int row) const {
    skeleton::LogitTerms terms;
    terms.softcap = softcap;
    terms.alibi = slope != 0.0f;
    terms.slope = slope;
    terms.distance = static_cast<float>(keys + row - tile * keys_of_tile);
    terms.bias = has_bias ? bias.data() + row * keys + tile * keys_of_tile : nullptr;
    terms.keys = keys_of_tile;
    return terms;
  }

  Depths depths;
  int tiles, keys;
  float scale;
  std::vector<float> q, k, v;
  std::vector<uint64_t> seen;
  float softcap = 0.0f, slope = 0.0f;
  bool has_bias = false, has_key_scales = false, has_value_scales = false;
  bool has_edges = false;  // every tile is an edge, even where all rows see all keys
  std::vector<float> bias, key_scales, value_scales;
};

/// How the work is given to the compute.
struct Cut {
  Vocabulary vocabulary = Vocabulary::emulated;
  int rows = 32;
  int jobs = 1000;       // of one call, at the most
  bool by_tile = false;  // all row tiles of a tile, then the next tile
};

struct State {
  std::vector<float> output, maximum, denominator;
  bool operator==(const State& other) const {
    return is_same(output, other.output) && is_same(maximum, other.maximum) &&
           is_same(denominator, other.denominator);
  }
  static bool is_same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
};

uint16_t bits(float x) { return from_float<bf16>(x).bits; }

State attend(const Case& c, const Cut& cut) {
  const int depth = c.depths.depth, v_depth = c.depths.v_depth;
  Aligned<uint16_t> q(static_cast<size_t>(rows_total * depth)), k(c.k.size()), v(c.v.size());
  for (int r = 0; r < rows_total; ++r)
    for (int d = 0; d < depth; ++d)
      q.data()[r / 16 * 16 * depth + d / 32 * 512 + r % 16 * 32 + d % 32] =
          bits(c.q[static_cast<size_t>(r * depth + d)]);
  for (int key = 0; key < c.keys; ++key) {
    const int tile = key / 64, own = key % 64;
    for (int d = 0; d < depth; ++d)
      k.data()[tile * 64 * depth + own / 16 * 16 * depth + d / 32 * 512 + d % 32 / 2 * 32 +
               own % 16 * 2 + d % 2] = bits(c.k[static_cast<size_t>(key * depth + d)]);
    for (int d = 0; d < v_depth; ++d)  // columns in natural order: the compute does not care
      v.data()[tile * 64 * v_depth + d / 16 * 1024 + own / 32 * 512 + own % 32 / 2 * 32 +
               d % 16 * 2 + own % 2] = bits(c.v[static_cast<size_t>(key * v_depth + d)]);
  }
  Aligned<float> output(static_cast<size_t>(rows_total * v_depth)),
      scales(static_cast<size_t>(2 * c.keys));
  for (int i = 0; i < rows_total * v_depth; ++i)
    output.data()[i] = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(scales.data(), c.key_scales.data(), c.key_scales.size() * sizeof(float));
  std::memcpy(scales.data() + c.keys, c.value_scales.data(), c.value_scales.size() * sizeof(float));
  State state;
  state.maximum.assign(rows_total, -infinity);
  state.denominator.assign(rows_total, 0.0f);

  const int row_tiles = rows_total / cut.rows;
  std::vector<amx::Edge> edges(static_cast<size_t>(row_tiles * c.tiles));
  std::vector<amx::TileJob> jobs;
  for (int i = 0; i < row_tiles * c.tiles; ++i) {
    const int tile = cut.by_tile ? i / row_tiles : i % c.tiles,
              first = (cut.by_tile ? i % row_tiles : i / c.tiles) * cut.rows;
    amx::TileJob job;
    job.rows = {q.data() + first * depth, output.data() + first * v_depth,
                state.maximum.data() + first, state.denominator.data() + first};
    job.tile.keys = k.data() + tile * 64 * depth;
    job.tile.values = v.data() + tile * 64 * v_depth;
    job.is_first = tile == 0;
    if (c.has_key_scales) job.tile.key_scales = scales.data() + tile * 64;
    if (c.has_value_scales) job.tile.value_scales = scales.data() + c.keys + tile * 64;
    amx::Edge& edge = edges[static_cast<size_t>(i)];
    edge.has_terms = c.softcap != 0.0f || c.slope != 0.0f || c.has_bias;
    bool is_edge = c.has_edges || edge.has_terms;
    for (int r = 0; r < cut.rows; ++r) {
      edge.seen[r] = c.seen[static_cast<size_t>(tile * rows_total + first + r)];
      edge.terms[r] = c.terms_of(tile, first + r);
      is_edge |= edge.seen[r] != every_key;
    }
    if (is_edge) job.tile.edge = &edge;
    jobs.push_back(job);
  }
  const float scale_log2 = c.scale * 1.44269504f;
  for (size_t i = 0; i < jobs.size(); i += static_cast<size_t>(cut.jobs)) {
    const size_t left = jobs.size() - i;
    const int count = left < static_cast<size_t>(cut.jobs) ? static_cast<int>(left) : cut.jobs;
    attend_jobs(cut.vocabulary, c.depths, cut.rows, jobs.data() + i, count, scale_log2);
  }
  state.output.assign(output.data(), output.data() + rows_total * v_depth);
  return state;
}

/// Natural logits of a row, -inf where it sees nothing.
std::vector<double> logits_of(const Case& c, int row) {
  std::vector<double> logits(static_cast<size_t>(c.keys), -std::numeric_limits<double>::infinity());
  for (int key = 0; key < c.keys; ++key) {
    if ((c.seen[static_cast<size_t>(key / 64 * rows_total + row)] >> (key % 64) & 1) == 0) continue;
    const skeleton::LogitTerms terms = c.terms_of(key / 64, row);
    double x = 0;
    for (int d = 0; d < c.depths.depth; ++d)
      x += static_cast<double>(c.q[static_cast<size_t>(row * c.depths.depth + d)]) *
           c.k[static_cast<size_t>(key * c.depths.depth + d)];
    x *= static_cast<double>(c.scale) *
         (c.has_key_scales ? c.key_scales[static_cast<size_t>(key)] : 1.0f);
    if (c.softcap != 0.0f) x = c.softcap * std::tanh(x / c.softcap);
    if (terms.alibi)
      x -= static_cast<double>(c.slope) * std::abs(terms.distance - static_cast<float>(key % 64));
    if (c.has_bias) x += c.bias[static_cast<size_t>(row * c.keys + key)];
    logits[static_cast<size_t>(key)] = x;
  }
  return logits;
}

/// Relative RMS error of output / denominator against double, and lse within 1e-3.
void expect_right(const Case& c, const State& state) {
  double error = 0, size = 0;
  for (int row = 0; row < rows_total; ++row) {
    const std::vector<double> logits = logits_of(c, row);
    double maximum = -std::numeric_limits<double>::infinity(), sum = 0;
    for (const double x : logits) maximum = x > maximum ? x : maximum;
    const float denominator = state.denominator[static_cast<size_t>(row)];
    if (std::isinf(maximum)) {
      EXPECT_EQ(denominator, 0.0f) << "row " << row << " sees nothing";
      continue;
    }
    std::vector<double> expected(static_cast<size_t>(c.depths.v_depth));
    for (int key = 0; key < c.keys; ++key) {
      const double p = std::exp(logits[static_cast<size_t>(key)] - maximum);
      sum += p;
      if (p == 0) continue;
      const double weight =
          p * (c.has_value_scales ? c.value_scales[static_cast<size_t>(key)] : 1.0f);
      for (int d = 0; d < c.depths.v_depth; ++d)
        expected[static_cast<size_t>(d)] +=
            weight * c.v[static_cast<size_t>(key * c.depths.v_depth + d)];
    }
    const double lse =
        static_cast<double>(state.maximum[static_cast<size_t>(row)]) * 0.69314718056 +
        std::log(denominator);
    EXPECT_NEAR(lse, maximum + std::log(sum), 1e-3 + 1e-7 * std::abs(maximum)) << "row " << row;
    for (int d = 0; d < c.depths.v_depth; ++d) {
      const double right = expected[static_cast<size_t>(d)] / sum;
      const double difference =
          static_cast<double>(state.output[static_cast<size_t>(row * c.depths.v_depth + d)]) /
              denominator -
          right;
      error += difference * difference;
      size += right * right;
    }
  }
  EXPECT_LE(std::sqrt(error / size), 2.5e-3);
}

void make_causal(Case& c) {
  for (int tile = 0; tile < c.tiles; ++tile)
    for (int row = 0; row < rows_total; ++row) {
      const int last = c.keys - rows_total + row - tile * 64;  // the key of the row's own position
      c.seen_of(tile, row) = last >= 63 ? every_key : last < 0 ? 0 : (uint64_t{2} << last) - 1;
    }
}
void make_ragged(Rng& rng, Case& c) {
  for (uint64_t& seen : c.seen)
    seen = rng.chance(0.3) ? 0 : rng.chance(0.3) ? every_key : rng.next();
}

class AmxCompute : public ::testing::TestWithParam<Depths> {
 protected:
  void SetUp() override {
    if (!machine_has(Capability::avx512_bf16))
      GTEST_SKIP() << "this machine lacks the AVX512-BF16 instructions";
  }
  static std::vector<Vocabulary> vocabularies() {
    if (!machine_has(Capability::amx_bf16)) return {Vocabulary::emulated};
    return {Vocabulary::emulated, Vocabulary::hardware};
  }
  static void expect_right_everywhere(const Case& c) {
    for (const Vocabulary vocabulary : vocabularies())
      for (const int rows : {16, 32})
        expect_right(c, attend(c, {.vocabulary = vocabulary, .rows = rows}));
  }
  /// Whatever the cut, the state is that of the first one, bit for bit.
  static void expect_one_result(const Case& c) {
    const State state = attend(c, {});
    for (const Vocabulary vocabulary : vocabularies())
      for (const int rows : {16, 32})
        for (const int jobs : {1, 2, 3, 1000})
          for (const bool by_tile : {false, true})
            EXPECT_TRUE(attend(c, {vocabulary, rows, jobs, by_tile}) == state)
                << (vocabulary == Vocabulary::hardware ? "hardware, " : "emulated, ") << rows
                << " rows, " << jobs << " jobs a call" << (by_tile ? ", by tile" : "");
  }
};

TEST_P(AmxCompute, whole_tiles_are_right) {
  Rng rng(test_seed());
  expect_right_everywhere(Case(rng, GetParam(), 5));
}

TEST_P(AmxCompute, causal_and_ragged_edges_are_right) {
  Rng rng(test_seed() + 1);
  Case causal(rng, GetParam(), 3);
  make_causal(causal);
  expect_right_everywhere(causal);
  Case ragged(rng, GetParam(), 4);
  make_ragged(rng, ragged);
  expect_right_everywhere(ragged);
}

TEST_P(AmxCompute, scales_softcap_alibi_and_bias_are_right) {
  Rng rng(test_seed() + 2);
  Case c(rng, GetParam(), 3, 3.0f);
  c.has_key_scales = c.has_value_scales = true;
  for (float& x : c.key_scales) x = rng.uniform(0.2f, 3.0f);
  for (float& x : c.value_scales) x = rng.uniform(0.2f, 3.0f);
  expect_right_everywhere(c);
  make_ragged(rng, c);
  c.softcap = 5.0f;
  expect_right_everywhere(c);
  c.slope = 0.05f;
  expect_right_everywhere(c);
  c.has_bias = true;
  for (float& x : c.bias) x = rng.chance(0.1) ? -infinity : rng.uniform(-2.0f, 2.0f);
  expect_right_everywhere(c);
}

TEST_P(AmxCompute, the_bits_of_a_row_depend_on_nothing_but_the_row) {
  Rng rng(test_seed() + 3);
  Case whole(rng, GetParam(), 4);
  expect_one_result(whole);
  const State state = attend(whole, {});
  whole.has_edges = true;
  EXPECT_TRUE(attend(whole, {}) == state) << "an edge that nobody feels";
  whole.has_edges = false;
  whole.has_key_scales = whole.has_value_scales = true;
  EXPECT_TRUE(attend(whole, {}) == state) << "scales of one";
  Case causal(rng, GetParam(), 3);
  make_causal(causal);
  expect_one_result(causal);
  Case ragged(rng, GetParam(), 3, 8.0f);
  make_ragged(rng, ragged);
  expect_one_result(ragged);
}

TEST_P(AmxCompute, a_row_that_sees_nothing_of_a_tile_keeps_its_state) {
  Rng rng(test_seed() + 4);
  Case c(rng, GetParam(), 2);
  Case longer = c;
  longer.tiles = 3;
  longer.keys += 64;
  for (int i = 0; i < 64 * c.depths.depth; ++i) longer.k.push_back(1.0f);
  for (int i = 0; i < 64 * c.depths.v_depth; ++i) longer.v.push_back(1.0f);
  longer.seen.resize(static_cast<size_t>(3 * rows_total), 0);
  longer.bias.resize(static_cast<size_t>(rows_total * longer.keys));
  longer.key_scales.resize(static_cast<size_t>(longer.keys), 1.0f);
  longer.value_scales.resize(static_cast<size_t>(longer.keys), 1.0f);
  longer.seen_of(2, 5) = every_key;  // one row does
  const State before = attend(c, {}), after = attend(longer, {});
  for (int row = 0; row < rows_total; ++row) {
    const auto of_row = [&](const State& s) {
      const auto begin = s.output.begin() + row * c.depths.v_depth;
      return State{{begin, begin + c.depths.v_depth},
                   {s.maximum[static_cast<size_t>(row)]},
                   {s.denominator[static_cast<size_t>(row)]}};
    };
    EXPECT_EQ(of_row(before) == of_row(after), row != 5) << "row " << row;
  }
}

TEST_P(AmxCompute, maxima_may_rise_at_every_tile) {
  Rng rng(test_seed() + 5);
  Case c(rng, GetParam(), 5);
  c.has_bias = true;
  for (int row = 0; row < rows_total; ++row)
    for (int key = 0; key < c.keys; ++key)  // odd rows rise by 20 at each tile, even ones fall
      c.bias[static_cast<size_t>(row * c.keys + key)] =
          static_cast<float>((row % 2 == 0 ? -20 : 20) * (key / 64));
  expect_right_everywhere(c);
  expect_one_result(c);
}

TEST_P(AmxCompute, logits_of_a_hundred_thousand_are_as_good_as_any) {
  Rng rng(test_seed() + 6);
  for (const float offset : {1e5f, -1e5f}) {
    Case c(rng, GetParam(), 2);
    c.has_bias = true;
    for (float& x : c.bias) x = offset;
    const State state = attend(c, {});
    for (int row = 0; row < rows_total; ++row) {
      EXPECT_GT(state.denominator[static_cast<size_t>(row)], 0.9f) << offset;
      EXPECT_NEAR(state.maximum[static_cast<size_t>(row)] * 0.69314718f, offset, 20.0f);
    }
    c.bias.assign(c.bias.size(), 0.0f);
    for (float& x : c.q) x *= 4096.0f;  // products in the tens of thousands, of either sign
    expect_right(c, attend(c, {}));
  }
}

TEST_P(AmxCompute, rows_whose_logits_are_all_minus_infinity_are_empty) {
  Rng rng(test_seed() + 7);
  Case c(rng, GetParam(), 3);
  c.has_bias = true;
  for (int key = 0; key < 2 * 64; ++key)
    c.bias[static_cast<size_t>(3 * c.keys + key)] = -infinity;  // of row 3: the first two tiles
  for (int key = 0; key < c.keys; ++key) c.bias[static_cast<size_t>(4 * c.keys + key)] = -infinity;
  const State state = attend(c, {});
  EXPECT_EQ(state.maximum[4], -infinity);
  EXPECT_EQ(state.denominator[4], 0.0f);
  expect_right(c, state);
  expect_one_result(c);
}

TEST_P(AmxCompute, a_visible_nan_spoils_its_rows_and_no_others) {
  Rng rng(test_seed() + 8);
  Case c(rng, GetParam(), 2);
  const State clean = attend(c, {});
  c.q[static_cast<size_t>(7 * c.depths.depth)] = std::numeric_limits<float>::quiet_NaN();
  const State spoilt = attend(c, {});
  EXPECT_TRUE(std::isnan(spoilt.denominator[7]));
  for (int row = 0; row < rows_total; ++row)
    if (row != 7) {
      EXPECT_EQ(spoilt.denominator[static_cast<size_t>(row)],
                clean.denominator[static_cast<size_t>(row)])
          << row;
    }
}

INSTANTIATE_TEST_SUITE_P(Depths, AmxCompute, ::testing::ValuesIn(compute_depths),
                         [](const auto& depths) {
                           return std::to_string(depths.param.depth) + "_" +
                                  std::to_string(depths.param.v_depth);
                         });

}  // namespace
}  // namespace folio::test
