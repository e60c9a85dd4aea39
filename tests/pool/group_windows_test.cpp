// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_windows_test.cpp: sliding windows with sinks, through pool, append and attend,
/// against a dense reference; whatever no page in use or in the cache has is NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "folio/cache/copy.h"
#include "folio/cache/planes.h"
#include "folio/core/buffer.h"
#include "pool/group_layer.h"
#include "pool/inspection.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

/// The leading group, then windows and sinks of other managers' tests (MLC); a layer each, of
/// different pages.
struct GroupShape {
  int32_t num_heads, head_size, window, sinks;
};
constexpr GroupShape shapes[] = {{2, 32, 0, 0},  {1, 32, 20, 6}, {1, 16, 25, 4},
                                 {2, 24, 30, 8}, {3, 16, 35, 3}, {1, 40, 40, 7}};
constexpr uint32_t num_groups = std::size(shapes);
constexpr int64_t slab_bytes_per_token = 3840;  // the least common multiple of the pages

struct Setting {
  int32_t page_size;
  bool prefix_reuse;
  int64_t slabs;  ///< a few more than the sequences need
};

/// A sequence and all its tokens, which the cache has.
struct Living {
  SequenceId id;
  Tokens tokens;
  [[nodiscard]] int32_t length() const { return static_cast<int32_t>(tokens.size()); }
};

class Windows : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    arena_ = Buffer::allocate(GetParam().slabs * slab_bytes_per_token * page_size()).value();
    std::vector<GroupOptions> groups;
    for (const GroupShape& shape : shapes) {
      const bool leads = shape.window == 0;
      groups.push_back({.rule = leads ? GroupRule::full : GroupRule::window,
                        .page_bytes = page_bytes(kv_shape(shape)).value(),
                        .window = shape.window,
                        .sinks = shape.sinks});
    }
    pool = std::make_unique<PagePool>(make_pool({.page_size = page_size(),
                                                 .max_sequences = 8,
                                                 .prefix_reuse = GetParam().prefix_reuse,
                                                 .groups = groups,
                                                 .arena_bytes = arena_.bytes()}));
    for (uint32_t g = 0; g < num_groups; ++g) {
      const GroupFigures figures = pool->group(g).value();
      ASSERT_EQ(figures.page_bytes, groups[g].page_bytes);
      const KVPlanes planes =
          make_planes(kv_shape(shapes[g]), figures.num_pages, arena_.span()).value().front();
      layers_.emplace_back(
          planes, g, static_cast<int32_t>(g),
          g == 0 ? Mask::causal() : Mask::sliding_window(shapes[g].window, shapes[g].sinks));
    }
    poison_the_rest();
  }

  [[nodiscard]] int32_t page_size() const { return GetParam().page_size; }
  [[nodiscard]] KVShape kv_shape(const GroupShape& shape) const {
    return {.num_layers = 1,
            .num_heads = shape.num_heads,
            .head_size = shape.head_size,
            .page_size = page_size(),
            .dtype = DType::bf16};
  }
  [[nodiscard]] uint32_t page(SequenceId id, uint32_t group, int32_t position) const {
    return pool->table(group).entries[pool->row_start(id, group).value() + position];
  }
  [[nodiscard]] int32_t pages_of(int32_t tokens) const {
    return (tokens + page_size() - 1) / page_size();
  }
  [[nodiscard]] std::byte* memory(uint32_t group, uint32_t page) const {
    return arena_.data() + page * layers_[group].planes().key.page_stride_bytes;
  }
  [[nodiscard]] size_t bytes(uint32_t group) const {
    return static_cast<size_t>(layers_[group].planes().key.page_stride_bytes);
  }
  void poison(uint32_t group, uint32_t page) const {
    std::memset(memory(group, page), 0xff, bytes(group));
  }
  /// Makes NaN of all that no page has that is used or cached.
  void poison_the_rest() const {
    const std::vector<std::byte> before(arena_.data(), arena_.data() + arena_.bytes());
    std::memset(arena_.data(), 0xff, before.size());
    const pool::Slabs& slabs = pool::PoolInspection::groups(*pool).slabs;
    for (uint32_t g = 0; g < num_groups; ++g) {
      for (uint32_t p = 0; p < slabs.num_pages(g); ++p) {
        const pool::PageUse use = slabs.use_of(g, p);
        if (use != pool::PageUse::used && use != pool::PageUse::cached) continue;
        const int64_t at = memory(g, p) - arena_.data();
        std::copy_n(before.begin() + at, bytes(g), memory(g, p));
      }
    }
  }

  void open(int32_t length) {
    living.push_back({});
    Living& s = living.back();
    s.id = pool->admit(count_from(next_token_, length)).value().id;
    compute({{&s, length}});
  }
  /// A step of these sequences, each with so many new tokens, which are like none before.
  void compute(const std::vector<std::pair<Living*, int32_t>>& work) {
    std::vector<StepRow> rows;
    std::vector<SequenceId> ids;
    for (const auto& [s, count] : work) {
      const int32_t length = s->length();
      pool->reserve(s->id, count).or_throw();
      for (uint32_t g = 0; g < num_groups; ++g)
        for (int32_t p = pages_of(length); p < pages_of(length + count); ++p)
          poison(g, page(s->id, g, p));
      s->tokens = std::move(s->tokens) + count_from(next_token_, count);
      next_token_ += count;
      rows.push_back({s->id, &s->tokens, length, length + count});
      ids.push_back(s->id);
    }
    run_copies();
    const StepTicket ticket = pool->begin_step(ids).value();
    for (const GroupLayer& layer : layers_) {
      layer.append(*pool, rows);
      layer.expect_right(*pool, rows);
    }
    for (const StepRow& row : rows) commit(row);
    pool->end_step(ticket).or_throw();
    poison_the_rest();
    expect_sound(*pool);
  }
  void decode_all(int32_t steps) {
    std::vector<std::pair<Living*, int32_t>> work;
    work.reserve(living.size());
    for (Living& s : living) work.emplace_back(&s, 1);
    for (int32_t i = 0; i < steps && !HasFailure(); ++i) {
      compute(work);
      take_the_rest();
    }
  }
  /// Somebody else fills as many pages as there are, with NaN, and gives them up.
  void take_the_rest() {
    const SequenceId id = pool->admit(count_from(next_token_, 4096)).value().id;
    int32_t count = 0;
    for (int32_t more = 2048; more > 0; more /= 2)
      count += pool->reserve(id, count + more).is_ok() ? more : 0;
    for (uint32_t g = 0; g < num_groups; ++g) {
      for (int32_t p = 0; p < pages_of(count); ++p) {
        poison(g, page(id, g, p));
        reused += given_up_.erase({g, page(id, g, p)});
      }
    }
    pool->commit(id, count_from(next_token_, count)).or_throw();
    next_token_ += 4096;
    pool->release(id).or_throw();
    poison_the_rest();
  }
  Result<SequenceId> fork(const Living& parent, int32_t length) {
    Result<SequenceId> child = pool->fork(parent.id, length);
    run_copies();
    return child;
  }

  std::deque<Living> living;
  std::unique_ptr<PagePool> pool;
  size_t reused = 0;  ///< pages that windows have left and somebody else has had since

 private:
  void commit(const StepRow& row) {
    const auto entries = [&](uint32_t g) {
      std::set<uint32_t> pages;
      for (int32_t p = 0; p < pages_of(row.end); ++p) pages.insert(page(row.id, g, p));
      return pages;
    };
    std::set<uint32_t> held[num_groups];
    for (uint32_t g = 0; g < num_groups; ++g) held[g] = entries(g);
    pool->commit(row.id, std::span(*row.tokens).subspan(static_cast<size_t>(row.begin))).or_throw();
    for (uint32_t g = 0; g < num_groups; ++g) {
      const std::set<uint32_t> now = entries(g);
      for (const uint32_t p : held[g])
        if (!now.contains(p)) given_up_.insert({g, p});
    }
  }
  void run_copies() {
    for (uint32_t g = 0; g < num_groups; ++g) {
      const std::span<const PageCopy> copies = pool->take_copies(g);
      for (const PageCopy& copy : copies) poison(g, copy.to);
      const KVPlanes& planes = layers_[g].planes();
      copy_pages({&planes, 1}, {&planes, 1}, copies, serial_executor()).or_throw();
    }
  }

  Buffer arena_;
  std::vector<GroupLayer> layers_;
  std::set<std::pair<uint32_t, uint32_t>> given_up_;  // group, page
  TokenId next_token_ = 0;
};

TEST_P(Windows, twenty_decodes_behind_a_prefill_are_those_of_a_masked_dense_reference) {
  for (const int32_t length : {70, 5, 33, 52, 21}) open(length);
  decode_all(20);
  EXPECT_GT(reused, 10U) << "pages that the windows have left are others' meanwhile";
  for (const Living& s : living) pool->release(s.id).or_throw();
  for (uint32_t g = 0; g < num_groups; ++g) EXPECT_EQ(pool->group(g)->used_pages, 0);
  expect_sound(*pool);
}

/// Whether the row still has what the token behind the first `length` sees, in all groups.
bool row_has_all(int32_t length, int32_t row_length, int32_t page_size) {
  for (const GroupShape& shape : shapes) {
    if (shape.window == 0) continue;
    const int32_t left = std::max(0, row_length - shape.window + 1) / page_size * page_size;
    const int32_t sinks_end = (shape.sinks + page_size - 1) / page_size * page_size;
    for (int32_t i = 0; i < length; ++i) {
      const bool is_needed = i < shape.sinks || i > length - shape.window;
      if (is_needed && i >= sinks_end && i < left) return false;
    }
  }
  return true;
}

using WindowsWithoutReuse = Windows;

TEST_P(WindowsWithoutReuse, a_fork_inside_the_sinks_or_near_the_end_goes_on_right_any_other_fails) {
  open(70);
  decode_all(5);
  int32_t made = 0, refused = 0;
  const int32_t length = living.front().length();
  for (int32_t at = 1; at <= length; ++at) {
    SCOPED_TRACE(at);
    const Result<SequenceId> child = fork(living.front(), at);
    ASSERT_EQ(child.has_value(), row_has_all(at, length, page_size())) << child.error().message();
    if (!child) {
      EXPECT_EQ(child.error().code(), Errc::invalid_argument);
      EXPECT_THAT(std::string(child.error().message()), HasSubstr("has given up"));
      ++refused;
      continue;
    }
    const Tokens& all = living.front().tokens;
    Living forked{*child, {all.begin(), all.begin() + at}};
    for (int32_t i = 0; i < 2; ++i) compute({{&forked, 1}});
    pool->release(forked.id).or_throw();
    ++made;
  }
  EXPECT_GE(made, 4) << "within 3 sinks, and at the end";
  EXPECT_GE(refused, 1);
  decode_all(1);
}

using WindowsWithReuse = Windows;

TEST_P(WindowsWithReuse, a_fork_behind_the_window_goes_on_right_while_pages_are_cached) {
  open(70);
  for (int32_t i = 0; i < 5; ++i) compute({{&living.front(), 1}});
  const Tokens all = living.front().tokens;
  const auto fork_everywhere = [&] {
    int32_t refused = 0;
    for (int32_t at = 1; at <= living.front().length(); at += 3) {
      SCOPED_TRACE(at);
      const Result<SequenceId> child = fork(living.front(), at);
      if (!child) {
        EXPECT_EQ(child.error().code(), Errc::invalid_argument);
        EXPECT_THAT(std::string(child.error().message()), HasSubstr("has given up"));
        EXPECT_FALSE(row_has_all(at, living.front().length(), page_size()));
        ++refused;
        continue;
      }
      Living forked{*child, {all.begin(), all.begin() + at}};
      for (int32_t i = 0; i < 2; ++i) compute({{&forked, 1}});
      pool->release(forked.id).or_throw();
    }
    return refused;
  };
  EXPECT_EQ(fork_everywhere(), 0);
  for (int32_t i = 0; i < 3; ++i) take_the_rest();
  EXPECT_GT(fork_everywhere(), 0) << "what others have taken is not found";
  decode_all(1);
}

constexpr Setting without_reuse[] = {
    {1, false, 140}, {3, false, 60}, {4, false, 48}, {16, false, 24}};
constexpr Setting with_reuse[] = {{1, true, 140}, {3, true, 60}, {4, true, 48}, {16, true, 24}};

std::string name_of(const ::testing::TestParamInfo<Setting>& info) {
  return "pages_of_" + std::to_string(info.param.page_size);
}

INSTANTIATE_TEST_SUITE_P(WithoutReuse, Windows, ::testing::ValuesIn(without_reuse), name_of);
INSTANTIATE_TEST_SUITE_P(WithReuse, Windows, ::testing::ValuesIn(with_reuse), name_of);
INSTANTIATE_TEST_SUITE_P(Forks, WindowsWithoutReuse, ::testing::ValuesIn(without_reuse), name_of);
INSTANTIATE_TEST_SUITE_P(Forks, WindowsWithReuse, ::testing::ValuesIn(with_reuse), name_of);

}  // namespace
}  // namespace folio::test
