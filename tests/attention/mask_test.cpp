// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mask_test.cpp: every mask against the definition, key by key: the interval
/// arithmetic alone, then each kernel.
#include <gtest/gtest.h>

#include "folio/attention/mask.h"
#include "reference/visibility.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/random.h"

namespace folio::test {
namespace {

bool shows(const Visible& v, int64_t key) {
  return key < v.sinks || (key >= v.keys.begin && key < v.keys.end);
}

void expect_well_formed(const Visible& v, int64_t context) {
  ASSERT_GE(v.sinks, 0);
  ASSERT_LE(v.sinks, context);
  ASSERT_LE(v.keys.begin, v.keys.end);
  ASSERT_GE(v.keys.begin, 0);
  ASSERT_LE(v.keys.end, context);
  ASSERT_TRUE(v.keys.begin == v.keys.end || v.sinks <= v.keys.begin);
}

TEST(Mask, intervals_equal_the_definition_for_all_small_sizes) {
  for (const int32_t left : {-1, 0, 1, 3})
    for (const int32_t right : {-1, 0, 2})
      for (const int32_t chunk : {0, 1, 3, 4})
        for (const int32_t sinks : {0, 1, 2, 5})
          for (int64_t position = -5; position < 13; ++position)
            for (int64_t key_position = 0; key_position < 5; ++key_position)
              for (int64_t context = 0; context < 9; ++context) {
                const Mask mask{left, right, chunk, sinks};
                const Visible v = visible_keys(mask, position, key_position, context);
                expect_well_formed(v, context);
                for (int64_t key = 0; key < context; ++key) {
                  ASSERT_EQ(shows(v, key),
                            reference::mask_shows(mask, position, key_position + key))
                      << "mask {" << left << ", " << right << ", " << chunk << ", " << sinks
                      << "}, query at " << position << ", key at " << key_position + key
                      << ", context " << context;
                }
              }
}

TEST(Mask, explicit_intervals_equal_the_definition_for_all_small_sizes) {
  for (int64_t begin = -2; begin < 9; ++begin)
    for (int64_t end = -2; end < 9; ++end)
      for (int64_t key_position = 0; key_position < 4; ++key_position)
        for (int64_t context = 0; context < 7; ++context) {
          const Visible v = visible_keys(Interval{begin, end}, key_position, context);
          expect_well_formed(v, context);
          for (int64_t key = 0; key < context; ++key) {
            const int64_t position = key_position + key;
            ASSERT_EQ(shows(v, key), position >= begin && position < end);
          }
        }
}

TEST(Mask, named_masks_say_what_they_mean) {
  EXPECT_EQ(visible_keys(Mask::causal(), 5, 0, 10), (Visible{0, {0, 6}}));
  EXPECT_EQ(visible_keys(Mask::full(), 5, 0, 10), (Visible{0, {0, 10}}));
  EXPECT_EQ(visible_keys(Mask::sliding_window(3), 5, 0, 10), (Visible{0, {3, 6}}));
  EXPECT_EQ(visible_keys(Mask::sliding_window(3, 2), 5, 0, 10), (Visible{2, {3, 6}}));
  EXPECT_EQ(visible_keys(Mask::chunked(4), 6, 0, 10), (Visible{0, {4, 7}}));
  EXPECT_EQ(visible_keys(Mask::chunked(4, false), 5, 0, 10), (Visible{0, {4, 8}}));
}

/// Windows and chunks whose edges fall on, before and behind the edges of kernels' tiles.
TEST(Mask, every_mask_is_right_on_every_kernel) {
  const Mask masks[] = {Mask::causal(),
                        Mask::full(),
                        Mask::sliding_window(1),
                        Mask::sliding_window(63),
                        Mask::sliding_window(64),
                        Mask::sliding_window(65),
                        Mask::sliding_window(20, 4),
                        Mask::sliding_window(70, 66),
                        Mask::chunked(1),
                        Mask::chunked(48),
                        Mask::chunked(64),
                        Mask::chunked(50, false),
                        {10, 5, 0, 0},
                        {0, 3, 0, 0},
                        {-1, 100, 0, 0},
                        {30, -1, 0, 2},
                        {20, 0, 33, 3},
                        {5, 0, 0, 1000}};
  uint64_t seed = test_seed();
  for (const Mask& mask : masks) {
    for (const bool given_positions : {false, true}) {
      CaseOptions options;
      options.seed = ++seed;
      options.mask = mask;
      options.query_positions = options.key_positions = given_positions;
      options.page_size = 8;
      options.head_size = 16;
      options.q_heads = 2;
      options.kv_heads = 1;
      options.sequences = {{70, 150}, {1, 129}, {64, 64}, {3, 65}, {1, 1}, {9, 300}};
      expect_every_kernel_right(options);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Mask, explicit_intervals_are_right_on_every_kernel) {
  uint64_t seed = test_seed();
  for (int round = 0; round < 8; ++round) {
    CaseOptions options;
    options.seed = ++seed;
    options.intervals = true;
    options.mask = Mask::sliding_window(3, 7);  // replaced in every field
    options.key_positions = round % 2 == 1;
    options.page_size = 8;
    options.head_size = 16;
    options.sequences = {{40, 150}, {1, 129}, {20, 64}, {3, 300}};
    expect_every_kernel_right(options);
    if (HasFatalFailure()) return;
  }
}

TEST(Mask, queries_may_stand_anywhere_with_given_positions) {
  // More new tokens than context: cross-attention and context-parallel shards; also positions far
  // behind the last key.
  for (const Mask& mask : {Mask::full(), Mask::causal(), Mask::sliding_window(40)}) {
    CaseOptions options;
    options.mask = mask;
    options.query_positions = true;
    options.page_size = 8;
    options.head_size = 16;
    options.sequences = {{30, 10}, {100, 64}, {5, 0}};
    expect_every_kernel_right(options);
  }
}

TEST(Mask, a_context_may_be_shorter_than_its_new_tokens) {
  // The first queries then stand at negative positions: a full mask shows them everything, a causal
  // one nothing.
  for (const Mask& mask : {Mask::full(), Mask::causal(), Mask::chunked(8)}) {
    CaseOptions options;
    options.mask = mask;
    options.head_size = 16;
    options.sequences = {{30, 10}, {100, 64}, {5, 0}};
    expect_every_kernel_right(options);
  }
}

}  // namespace
}  // namespace folio::test
