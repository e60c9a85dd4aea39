// SPDX-License-Identifier: Apache-2.0
/// tests/mask/expect_same.cpp: a batch is expanded to what each query sees, and compared with the
/// matrix that it was read from.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "folio/core/element.h"
#include "mask/mask_case.h"

namespace folio::test {
namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

struct SeenKey {
  int64_t index = 0;     // of the sequence's keys
  int64_t distance = 0;  // with ALiBi
};

/// The keys that a token sees, by their rows of the plane.
std::map<int64_t, SeenKey> seen_by(const MaskedBatch& masked, int32_t b, int32_t token) {
  const Batch& batch = masked.batch;
  const int64_t start = batch.table.row_starts[b];
  const int64_t begin = batch.visible_begin[token], end = batch.visible_end[token];
  EXPECT_TRUE(0 <= begin && begin <= end && end <= batch.context_lengths[b]);
  std::map<int64_t, SeenKey> seen;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = masked.form == MaskForm::cells ? int64_t{batch.table.entries[start + i]}
                                                       : batch.table.entries[start] + i;
    SeenKey key{i, 0};
    if (masked.alibi) {
      const int64_t position =
          masked.alibi_positions ? batch.alibi_positions[b * batch.alibi_positions_stride + i] : i;
      key.distance =
          std::abs(batch.query_positions[b] + (token - batch.query_offsets[b]) - position);
    }
    EXPECT_TRUE(seen.emplace(row, key).second) << "row " << row << " is listed twice";
  }
  return seen;
}

float bias_at(const MaskedBatch& masked, int64_t head, int64_t stream, int64_t query,
              int64_t queries, int64_t key) {
  const ConstTensor<3>& bias = masked.bias;
  const int64_t row = masked.bias_per_sequence ? query : stream * queries + query;
  const auto* const at =
      static_cast<const std::byte*>(bias.data) +
      (bias.extent[0] > 1 ? head : 0) * bias.stride_bytes[0] + row * bias.stride_bytes[1] +
      key * bias.stride_bytes[2] +
      (masked.bias_per_sequence ? stream * masked.bias_sequence_stride_bytes : 0);
  float number = 0.0f;
  detail::visit_dtype(bias.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (Element<T>) {
      T element;
      std::memcpy(&element, at, sizeof element);
      number = to_float(element);
    }
  });
  return number;
}

void expect_bias(const MaskedBatch& masked, const MaskCase& mask, const MaskOptions& options,
                 int64_t stream, int64_t query, int64_t key, bool is_in_interval) {
  const MaskSpec& spec = mask.spec();
  const int64_t heads = options.slopes != nullptr ? options.q_heads : spec.heads;
  EXPECT_EQ(masked.bias.extent[0], heads);
  for (int64_t h = 0; h < heads; ++h) {
    const float x = mask.number(stream, spec.heads > 1 ? h : 0, query, key);
    if (x == hidden && !is_in_interval) continue;
    const float expected = options.slopes == nullptr || x == hidden ? x : x * options.slopes[h];
    const float given = bias_at(masked, h, stream, query, spec.queries, key);
    EXPECT_TRUE(given == expected || (std::isnan(given) && std::isnan(expected)))
        << given << ", expected " << expected << ", head " << h;
  }
}

void expect_same_query(const MaskedBatch& masked, const MaskCase& mask, const MaskOptions& options,
                       int32_t b, int32_t token) {
  const MaskSpec& spec = mask.spec();
  const int64_t stream = token / spec.queries, query = token % spec.queries;
  SCOPED_TRACE("stream " + std::to_string(stream) + ", query " + std::to_string(query));
  const auto seen = seen_by(masked, b, token);
  size_t found = 0;
  for (int64_t j = 0; j < spec.keys; ++j) {
    const auto at = seen.find(mask.first_row(stream) + j);
    found += at != seen.end() ? 1 : 0;
    if (masked.form == MaskForm::bias) {
      if (at != seen.end()) {
        EXPECT_EQ(at->second.index, j) << "an index of the bias";
      } else {
        EXPECT_FALSE(mask.is_seen(stream, query, j)) << "key " << j;
      }
      expect_bias(masked, mask, options, stream, query, j, at != seen.end());
      continue;
    }
    const float x = mask.number(stream, 0, query, j);
    ASSERT_EQ(at != seen.end(), x != hidden) << "key " << j;
    if (x == hidden) continue;
    const float rounded = masked.alibi ? -static_cast<float>(at->second.distance) : 0.0f;
    EXPECT_EQ(bits_of(spec.dtype, rounded), bits_of(spec.dtype, x)) << "key " << j << ": " << x;
  }
  EXPECT_EQ(found, seen.size()) << "keys of another stream";
}

}  // namespace

void expect_same(const MaskedBatch& masked, const MaskCase& mask, const MaskOptions& options) {
  const MaskSpec& spec = mask.spec();
  const Batch& batch = masked.batch;
  ASSERT_EQ(masked.tokens, spec.streams * spec.queries);
  ASSERT_EQ(masked.page_size, masked.form == MaskForm::cells ? 1 : unbounded_page_size);
  ASSERT_EQ(batch.query_offsets[0], 0);
  ASSERT_EQ(batch.query_offsets[batch.size], masked.tokens);
  EXPECT_EQ(masked.alibi, batch.query_positions != nullptr);
  EXPECT_EQ(masked.alibi_positions, batch.alibi_positions != nullptr);
  int32_t longest = 0;
  for (int32_t b = 0; b < batch.size; ++b) {
    longest = std::max(longest, batch.context_lengths[b]);
    ASSERT_LT(batch.query_offsets[b], batch.query_offsets[b + 1]);
    for (int32_t token = batch.query_offsets[b]; token < batch.query_offsets[b + 1]; ++token)
      expect_same_query(masked, mask, options, b, token);
  }
  EXPECT_EQ(masked.context, longest);
}

}  // namespace folio::test
