// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_planes_test.cpp: planes of groups whose pages the pool has padded, over one
/// arena of more than 4 GiB.
///
/// The arena is reserved, not committed: only what is touched costs memory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "folio/cache/planes.h"
#include "pool/group_layer.h"
#include "reference/elements.h"
#include "support/sanitized.h"

namespace folio::test {
namespace {

constexpr int32_t page_size = 16;
constexpr int64_t limits[] = {int64_t{1} << 31, int64_t{1} << 32};

class SparseArena {
 public:
  explicit SparseArena(int64_t bytes) : bytes_(bytes) {
    void* map = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = map == MAP_FAILED ? nullptr : static_cast<std::byte*>(map);
  }
  ~SparseArena() {
    if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
  }
  SparseArena(const SparseArena&) = delete;
  SparseArena& operator=(const SparseArena&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_;
};

/// Full attention in bf16, and chunks of one page in 8 bits with scales: the least common multiple
/// of their pages is longer than a slab may be.
constexpr KVShape shapes[] = {{.num_layers = 11,
                               .num_heads = 3,
                               .head_size = 104,
                               .page_size = page_size,
                               .dtype = DType::bf16},
                              {.num_layers = 7,
                               .num_heads = 5,
                               .head_size = 136,
                               .page_size = page_size,
                               .dtype = DType::i8,
                               .scale_dtype = DType::f32}};

/// Bytes of a page and of its scales, which stand behind it.
int64_t bytes_of(const KVShape& shape) {
  return page_bytes(shape).value() + scale_page_bytes(shape).value();
}

std::vector<KVPlanes> planes_of(KVShape shape, const GroupFigures& group,
                                const SparseArena& arena) {
  shape.page_stride_bytes = group.page_bytes;
  MemorySpan scales;
  if (shape.scale_dtype != DType::invalid) {
    shape.scale_page_stride_bytes = group.page_bytes;
    const int64_t page = page_bytes(shape).value();
    scales = {arena.data() + page, arena.bytes() - page};
  }
  return make_planes(shape, group.num_pages, {arena.data(), arena.bytes()}, scales).value();
}

bool is_zero(const std::byte* data, int64_t bytes) {
  return std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{0}; });
}

/// A sequence that has the arena's pages, most of them never written.
class PaddedGroups : public ::testing::Test {
 protected:
  void SetUp() override {
    if (is_sanitized) GTEST_SKIP() << "5 GiB of address space do not fit beside shadow memory";
    if (arena.data() == nullptr) GTEST_SKIP() << "no 5 GiB of address space here";
    const GroupOptions groups[] = {
        {.page_bytes = bytes_of(shapes[0])},
        {.rule = GroupRule::chunked, .page_bytes = bytes_of(shapes[1]), .chunk = page_size}};
    pool = std::make_unique<PagePool>(make_pool({.page_size = page_size,
                                                 .max_sequences = 1,
                                                 .groups = groups,
                                                 .arena_bytes = arena.bytes()}));
    for (uint32_t g = 0; g < 2; ++g) {
      figures[g] = pool->group(g).value();
      ASSERT_GT(figures[g].page_bytes, bytes_of(shapes[g])) << "the pages are to be padded";
      int32_t number = 0;
      for (const KVPlanes& planes : planes_of(shapes[g], figures[g], arena))
        layers[g].emplace_back(planes, g, static_cast<int32_t>(100 * g) + number++,
                               Mask::chunked(page_size));
    }
    const int64_t both = figures[0].page_bytes + figures[1].page_bytes;
    pages = static_cast<int32_t>((limits[1] + limits[1] / 16) / both);
    tokens = count_from(0, pages * page_size);
    id = pool->admit(tokens).value().id;
    for (int32_t part = 1; part <= 32; ++part)  // so that each group has slabs everywhere
      pool->reserve(id, pages * part / 32 * page_size).or_throw();
  }

  [[nodiscard]] uint32_t page(uint32_t group, int32_t position) const {
    return pool->table(group).entries[pool->row_start(id, group).value() + position];
  }
  [[nodiscard]] int64_t offset(uint32_t group, int32_t position) const {
    return page(group, position) * figures[group].page_bytes;
  }
  /// The first and the last, and those of each group around the limits of 32 bits.
  [[nodiscard]] std::set<int32_t> critical_positions() const {
    std::set<int32_t> chosen{0, pages - 1};
    for (uint32_t g = 0; g < 2; ++g) {
      for (const int64_t limit : limits) {
        int32_t below = -1, above = -1;
        for (int32_t p = 0; p < pages; ++p) {
          int32_t& best = offset(g, p) < limit ? below : above;
          const bool is_nearer =
              best == -1 || std::abs(offset(g, p) - limit) < std::abs(offset(g, best) - limit);
          if (is_nearer) best = p;
        }
        EXPECT_TRUE(below != -1 && above != -1)
            << "group " << g << " lies on one side of " << limit;
        chosen.insert({below, above});
      }
    }
    return chosen;
  }
  [[nodiscard]] StepRow step(int32_t position) const {
    return {id, &tokens, position * page_size, (position + 1) * page_size};
  }

  /// The tokens of these pages, in all layers of both groups.
  void append(const std::set<int32_t>& positions) const {
    for (const int32_t p : positions) {
      const StepRow row = step(p);
      for (const auto& group : layers)
        for (const GroupLayer& layer : group) layer.append(*pool, {&row, 1});
    }
  }

  SparseArena arena{int64_t{5} << 30};
  std::unique_ptr<PagePool> pool;
  GroupFigures figures[2];
  std::vector<GroupLayer> layers[2];
  int32_t pages = 0;
  Tokens tokens;
  SequenceId id;
};

TEST_F(PaddedGroups, used_pages_of_two_groups_lie_apart_in_one_arena) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (uint32_t g = 0; g < 2; ++g)
    for (int32_t p = 0; p < pages; ++p)
      runs.emplace_back(offset(g, p), offset(g, p) + figures[g].page_bytes);
  std::sort(runs.begin(), runs.end());
  for (size_t i = 1; i < runs.size(); ++i) ASSERT_LE(runs[i - 1].second, runs[i].first);
  EXPECT_LE(runs.back().second, arena.bytes());
  EXPECT_GT(runs.back().first, limits[1]);
}

TEST_F(PaddedGroups, what_two_groups_append_they_read_beyond_two_to_the_32) {
  const std::set<int32_t> chosen = critical_positions();
  EXPECT_GE(chosen.size(), 6U);
  append(chosen);
  for (const int32_t p : chosen) {
    const StepRow row = step(p);
    for (const auto& group : layers)
      for (const GroupLayer* layer : {&group.front(), &group.back()})
        layer->expect_right(*pool, {&row, 1});
  }
}

// [page, kv, layer, slot, head, dim], pages the padded bytes apart.
TEST_F(PaddedGroups, elements_lie_where_the_padded_bytes_of_a_page_say) {
  const std::set<int32_t> chosen = critical_positions();
  append(chosen);
  const KVShape& shape = shapes[0];
  for (const int32_t p : chosen) {
    const std::byte* element = arena.data() + offset(0, p);
    for (int32_t plane = 0; plane < 2; ++plane)
      for (const GroupLayer& layer : layers[0])
        for (int32_t i = p * page_size; i < (p + 1) * page_size; ++i)
          for (int32_t head = 0; head < shape.num_heads; ++head)
            for (int32_t d = 0; d < shape.head_size; ++d, element += 2)
              ASSERT_EQ(reference::load(element, shape.dtype),
                        double{layer.element(plane, i, i, head, d)})
                  << "page " << p << ", token " << i;
  }
}

TEST_F(PaddedGroups, what_lies_between_the_pages_is_not_written) {
  const std::set<int32_t> chosen = critical_positions();
  append(chosen);
  std::vector<std::pair<int64_t, int64_t>> written{{0, 0}};
  for (uint32_t g = 0; g < 2; ++g)
    for (const int32_t p : chosen)
      written.emplace_back(offset(g, p), offset(g, p) + bytes_of(shapes[g]));
  written.emplace_back(arena.bytes(), arena.bytes());
  std::sort(written.begin(), written.end());
  for (size_t i = 1; i < written.size(); ++i) {
    const int64_t begin = written[i - 1].second, end = written[i].first;
    const int64_t looked_at = std::min(end - begin, int64_t{1} << 20);  // at each end of the gap
    EXPECT_TRUE(is_zero(arena.data() + begin, looked_at)) << "behind " << begin;
    EXPECT_TRUE(is_zero(arena.data() + end - looked_at, looked_at)) << "before " << end;
  }
}

}  // namespace
}  // namespace folio::test
