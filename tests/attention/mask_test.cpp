// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mask_test.cpp: every mask against the definition, key by key: the interval
/// arithmetic alone, then each kernel.
#include <gtest/gtest.h>

#include <limits>

#include "folio/attention/mask.h"
#include "folio/attention/visible_keys.h"
#include "reference/visibility.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/random.h"

namespace folio::test {
namespace {

bool shows(const Visible& v, int64_t key) {
  return (key >= v.sinks.begin && key < v.sinks.end) || (key >= v.keys.begin && key < v.keys.end);
}

void expect_well_formed(const Visible& v, int64_t context) {
  ASSERT_GE(v.sinks.begin, 0);
  ASSERT_LE(v.sinks.begin, v.sinks.end);
  ASSERT_LE(v.sinks.end, context);
  ASSERT_LE(v.keys.begin, v.keys.end);
  ASSERT_GE(v.keys.begin, 0);
  ASSERT_LE(v.keys.end, context);
  ASSERT_TRUE(v.keys.size() == 0 || v.sinks.size() == 0 || v.sinks.end < v.keys.begin);
}

TEST(Mask, intervals_equal_the_definition_for_all_small_sizes) {
  for (const int32_t left : {-1, 0, 1, 3})
    for (const int32_t right : {-1, 0, 2})
      for (const int32_t chunk : {0, 1, 3, 4})
        for (const int32_t sinks : {0, 1, 2, 5})
          for (int64_t position = -9; position < 13; ++position)
            for (int64_t key_position = -7; key_position < 5; ++key_position)
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
  for (int64_t begin = -6; begin < 9; ++begin)
    for (int64_t end = -6; end < 9; ++end)
      for (int64_t key_position = -5; key_position < 4; ++key_position)
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
  EXPECT_EQ(visible_keys(Mask::causal(), 5, 0, 10), (Visible{{}, {0, 6}}));
  EXPECT_EQ(visible_keys(Mask::full(), 5, 0, 10), (Visible{{}, {0, 10}}));
  EXPECT_EQ(visible_keys(Mask::sliding_window(3), 5, 0, 10), (Visible{{}, {3, 6}}));
  EXPECT_EQ(visible_keys(Mask::sliding_window(3, 2), 5, 0, 10), (Visible{{0, 2}, {3, 6}}));
  EXPECT_EQ(visible_keys(Mask::chunked(4), 6, 0, 10), (Visible{{}, {4, 7}}));
  EXPECT_EQ(visible_keys(Mask::chunked(4, false), 5, 0, 10), (Visible{{}, {4, 8}}));
}

TEST(Mask, sinks_are_positions_from_zero_on) {
  const Mask mask = Mask::sliding_window(3, 2);
  // positions -4 ... 15: those before 0 are no sinks, whatever their index
  EXPECT_EQ(visible_keys(mask, 9, -4, 20), (Visible{{4, 6}, {11, 14}}));
  EXPECT_EQ(visible_keys(mask, 3, -4, 20), (Visible{{}, {4, 8}}));
  EXPECT_EQ(visible_keys(mask, 0, -4, 20), (Visible{{}, {2, 5}}));
  EXPECT_EQ(visible_keys(mask, -2, -4, 20), (Visible{{}, {0, 3}}));
  // none of the context is at 0 or 1
  EXPECT_EQ(visible_keys(mask, -9, -20, 20), (Visible{{}, {9, 12}}));
  EXPECT_EQ(visible_keys(mask, 9, 2, 8), (Visible{{}, {5, 8}}));
  EXPECT_EQ(visible_keys(Mask::chunked(4), -2, -10, 20), (Visible{{}, {6, 9}}));
}

TEST(Mask, positions_at_the_ends_of_their_type_do_not_overflow) {
  constexpr int32_t lowest = std::numeric_limits<int32_t>::min(),
                    highest = std::numeric_limits<int32_t>::max();
  const int32_t widths[] = {-1, 0, 1, highest};
  for (const int32_t left : widths)
    for (const int32_t right : widths)
      for (const int32_t chunk : {0, 1, 7, highest})
        for (const int32_t sinks : {0, 3, highest})
          for (const int64_t key_position : {int64_t{lowest}, int64_t{lowest} + 3, int64_t{-4},
                                             int64_t{highest} - 3, int64_t{highest}})
            // new tokens and keys lie behind the first, beyond int32
            for (const int64_t position : {int64_t{lowest}, int64_t{lowest} + 1, int64_t{-1},
                                           int64_t{0}, int64_t{highest}, int64_t{highest} + 5}) {
              const Mask mask{left, right, chunk, sinks};
              const Visible v = visible_keys(mask, position, key_position, 9);
              expect_well_formed(v, 9);
              for (int64_t key = 0; key < 9; ++key)
                ASSERT_EQ(shows(v, key), reference::mask_shows(mask, position, key_position + key))
                    << "mask {" << left << ", " << right << ", " << chunk << ", " << sinks
                    << "}, query at " << position << ", key at " << key_position + key;
              expect_well_formed(visible_keys(mask, position, key_position, highest), highest);
            }
  for (const int64_t begin : {lowest, 0, highest})
    for (const int64_t end : {lowest, 0, highest})
      for (const int64_t key_position : {lowest, -1, highest})
        expect_well_formed(visible_keys(Interval{begin, end}, key_position, highest), highest);
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

/// Contexts in front of position 0 and across it, queries of either sign; what nobody sees is NaN.
TEST(Mask, negative_positions_are_right_on_every_kernel) {
  const Mask masks[] = {Mask::causal(),
                        Mask::full(),
                        Mask::sliding_window(1),
                        Mask::sliding_window(20),
                        Mask::sliding_window(20, 4),
                        Mask::sliding_window(5, 70),
                        Mask::sliding_window(30, 1000),
                        Mask::chunked(48),
                        Mask::chunked(50, false),
                        {10, 5, 0, 0},
                        {20, 0, 33, 3},
                        {20, 200, 0, 2}};
  uint64_t seed = test_seed();
  for (const Mask& mask : masks) {
    CaseOptions options;
    options.seed = ++seed;
    options.mask = mask;
    options.page_size = 8;
    options.head_size = 16;
    options.q_heads = 2;
    options.kv_heads = 1;
    options.sequences = {{70, 150}, {1, 129}, {9, 300}, {3, 65}, {40, 150}, {1, 1}, {6, 200}};
    options.first_key_positions = {-100, -129, -160, -64, -1000, -1, -30};
    expect_every_kernel_right(options);
    if (HasFatalFailure()) return;
    // the last of the keys stands at 20; queries stand in front of all, among and behind them
    options.sequences = {{9, 121}, {9, 121}, {9, 121}};
    options.first_key_positions = {-100, -100, -100};
    options.first_query_positions = {-104, -40, 200};
    expect_every_kernel_right(options);
    if (HasFatalFailure()) return;
  }
}

TEST(Mask, positions_at_the_ends_of_their_type_are_right_on_every_kernel) {
  constexpr int32_t lowest = std::numeric_limits<int32_t>::min(),
                    highest = std::numeric_limits<int32_t>::max();
  for (const Mask& mask :
       {Mask::causal(), Mask::sliding_window(20, 4), Mask::sliding_window(20),
        Mask{highest, highest, 0, highest}, Mask::chunked(highest), Mask::chunked(48)}) {
    CaseOptions options;
    options.mask = mask;
    options.page_size = 8;
    options.head_size = 16;
    options.sequences = {{5, 100}, {5, 100}, {5, 100}, {5, 100}};
    options.first_key_positions = {lowest, lowest + 60, highest - 100, highest - 2};
    options.first_query_positions = {lowest + 90, lowest, highest - 4, highest};
    expect_every_kernel_right(options);
    if (HasFatalFailure()) return;
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
    if (round % 4 == 2) options.first_key_positions = {-150, -60, -64, -1000};
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
