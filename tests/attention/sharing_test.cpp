// SPDX-License-Identifier: Apache-2.0
/// tests/attention/sharing_test.cpp: shared ranges of random table rows are those that comparing
/// every row with every other finds, wherever the rows lie.
#include "attention/sharing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "core/carver.h"
#include "folio/cache/paged_kv_view.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::inline v1 {

void PrintTo(const SharedRange& r, std::ostream* out) {
  *out << "[" << r.key_begin << ", " << r.key_end << ") behind " << r.parent << ", members "
       << r.first_member << " + " << r.members;
}

}  // namespace folio::inline v1

namespace folio::test {
namespace {

/// Rows by themselves, wherever they will lie: as many entries as hold a key of the hull.
struct Rows {
  int32_t page_size = 16;
  int32_t cut = 64;
  std::vector<std::vector<uint32_t>> entries = {};
  std::vector<Hull> hulls = {};

  [[nodiscard]] int32_t size() const { return static_cast<int32_t>(hulls.size()); }
  [[nodiscard]] size_t pages(int32_t keys) const {
    return static_cast<size_t>((int64_t{keys} + page_size - 1) / page_size);
  }
  void add(std::vector<uint32_t> row, int32_t keys) {
    row.resize(pages(keys));
    entries.push_back(std::move(row));
    hulls.push_back({0, keys, true});
  }
};

struct Sharing {
  std::vector<SharedRange> ranges;
  std::vector<int32_t> order;  // of those that share anything, and others that take part
};

/// Keys that two sequences share by the definition, entry for entry.
int32_t shared_keys(const Rows& rows, int32_t a, int32_t b) {
  const Hull &x = rows.hulls[static_cast<size_t>(a)], &y = rows.hulls[static_cast<size_t>(b)];
  if (!x.takes_part || !y.takes_part || x.begin != 0 || y.begin != 0) return 0;
  const int32_t end = std::min(x.end, y.end);
  int32_t keys = 0;
  while (keys < end) {
    const auto page = static_cast<size_t>(keys / rows.page_size);
    if (rows.entries[static_cast<size_t>(a)][page] != rows.entries[static_cast<size_t>(b)][page])
      break;
    ++keys;
  }
  return keys / rows.cut * rows.cut;
}

/// The forest by its definition, from all pairs.
class Pairwise {
 public:
  explicit Pairwise(const Rows& rows) {
    const auto count = static_cast<size_t>(rows.size());
    shared_.assign(count, std::vector<int32_t>(count));
    for (int32_t a = 0; a < rows.size(); ++a)
      for (int32_t b = a; b < rows.size(); ++b)
        shared(a, b) = shared(b, a) = shared_keys(rows, a, b);
    std::vector<int32_t> all;
    for (int32_t b = 0; b < rows.size(); ++b)
      if (shared(b, b) > 0) all.push_back(b);
    lay_out(all, 0, -1);
  }

  [[nodiscard]] const Sharing& found() const { return found_; }

 private:
  int32_t& shared(int32_t a, int32_t b) {
    return shared_[static_cast<size_t>(a)][static_cast<size_t>(b)];
  }

  /// What sequences share behind `key`, which share all before it.
  void lay_out(std::vector<int32_t> members, int32_t key, int32_t parent) {
    while (!members.empty()) {
      const int32_t first = members.front();
      std::vector<int32_t> like_it, others;
      for (const int32_t b : members)
        (b == first || shared(first, b) > key ? like_it : others).push_back(b);
      members = others;
      if (like_it.size() == 1) {
        found_.order.push_back(first);
        continue;
      }
      int32_t end = INT32_MAX;
      for (const int32_t a : like_it)
        for (const int32_t b : like_it) end = std::min(end, shared(a, b));
      const auto number = static_cast<int32_t>(found_.ranges.size());
      found_.ranges.push_back({key, end, parent, static_cast<int32_t>(found_.order.size()),
                               static_cast<int32_t>(like_it.size())});
      lay_out(like_it, end, number);
    }
  }

  std::vector<std::vector<int32_t>> shared_;
  Sharing found_;
};

enum class Place { dense, csr, in_larger, guarded };

/// Rows in a table, which ends with the last entry that holds a key of the last row's hull.
class Table {
 public:
  Table(const Rows& rows, Place place, Rng& rng) {
    if (place == Place::guarded) {
      guard_each(rows);
      return;
    }
    size_t longest = 0;
    for (const auto& row : rows.entries) longest = std::max(longest, row.size());
    std::vector<uint32_t> entries;
    for (const auto& row : rows.entries) {
      if (place == Place::dense) entries.resize(starts_.size() * longest, 7);
      if (place == Place::in_larger)
        entries.insert(entries.end(), static_cast<size_t>(rng.between(0, 5)), 7);
      starts_.push_back(static_cast<int64_t>(entries.size()));
      entries.insert(entries.end(), row.begin(), row.end());
    }
    if (place == Place::in_larger) alias(rows);
    memory_.emplace_back(static_cast<int64_t>(entries.size() * sizeof(uint32_t)), 4);
    std::copy(entries.begin(), entries.end(), memory_[0].as<uint32_t>());
    table_.entries = memory_[0].as<uint32_t>();
    table_.row_stride = static_cast<int64_t>(longest);
    if (place != Place::dense) table_.row_starts = starts_.data();
  }

  [[nodiscard]] const PageTable& get() const { return table_; }

 private:
  /// A row that another begins with needs no memory of its own.
  void alias(const Rows& rows) {
    for (size_t b = 0; b < rows.entries.size(); ++b) {
      for (size_t a = 0; a < rows.entries.size(); ++a) {
        const auto &own = rows.entries[b], &other = rows.entries[a];
        if (a == b || own.size() > other.size()) continue;
        if (std::equal(own.begin(), own.end(), other.begin())) starts_[b] = starts_[a];
      }
    }
  }

  /// Each row in front of memory that nobody may read.
  void guard_each(const Rows& rows) {
    for (const auto& row : rows.entries) {
      memory_.emplace_back(static_cast<int64_t>(row.size() * sizeof(uint32_t)), 4);
      std::copy(row.begin(), row.end(), memory_.back().as<uint32_t>());
    }
    const auto by_place = [](const GuardedMemory& a, const GuardedMemory& b) {
      return a.data() < b.data();
    };
    if (!memory_.empty())
      table_.entries =
          std::min_element(memory_.begin(), memory_.end(), by_place)->template as<uint32_t>();
    for (const GuardedMemory& row : memory_) starts_.push_back(row.as<uint32_t>() - table_.entries);
    table_.row_starts = starts_.data();
  }

  std::vector<GuardedMemory> memory_;
  std::vector<int64_t> starts_;
  PageTable table_;
};

/// In exactly the memory that so many sequences get.
Sharing find(const Rows& rows, const PageTable& table, int32_t batch_limit) {
  Carver size(nullptr);
  take_sharing_memory(size, batch_limit);
  const GuardedMemory memory(size.bytes(), Carver::alignment);
  Carver carver(memory.data());
  const SharingMemory parts = take_sharing_memory(carver, batch_limit);
  const auto ranges = find_shared(table, rows.page_size, rows.hulls, rows.cut, parts);
  Sharing found;
  found.ranges.assign(ranges.begin(), ranges.end());
  const auto takes_part = [&](const Hull& hull) {
    return hull.takes_part && hull.begin == 0 && hull.end >= rows.cut;
  };
  const auto placed = std::count_if(rows.hulls.begin(), rows.hulls.end(), takes_part);
  found.order.assign(parts.order, parts.order + placed);
  return found;
}

std::string describe(const Rows& rows) {
  std::string text = "page size " + std::to_string(rows.page_size) + ", cut " +
                     std::to_string(rows.cut) + ", hulls";
  for (const Hull& hull : rows.hulls)
    text += " " + std::to_string(hull.begin) + "-" + std::to_string(hull.end) +
            (hull.takes_part ? "" : "!");
  return text;
}

void expect_pairwise(const Rows& rows, Rng& rng) {
  const Pairwise expected(rows);
  for (const Place place : {Place::dense, Place::csr, Place::in_larger, Place::guarded}) {
    const Table table(rows, place, rng);
    const Sharing found = find(rows, table.get(), rows.size() + rng.int_between(0, 3));
    EXPECT_EQ(found.ranges, expected.found().ranges) << describe(rows);
    EXPECT_EQ(found.order, expected.found().order) << describe(rows);
  }
}

/// An entry of a new page; of few pages rows agree by chance. Now and then no page.
uint32_t random_entry(Rng& rng, int64_t pages) {
  constexpr uint32_t no_pages[] = {0xffffffffu, 0x80000000u, 1u << 20};
  return rng.chance(0.1) ? rng.pick(no_pages) : static_cast<uint32_t>(rng.between(0, pages - 1));
}

/// Begins as an earlier one, up to anywhere, and goes on by itself, or as it does by and by.
std::vector<uint32_t> random_row(const Rows& rows, size_t count, int64_t pages, Rng& rng) {
  std::vector<uint32_t> row;
  size_t same = 0;
  if (!rows.entries.empty() && rng.chance(0.8)) {
    row = rng.pick(rows.entries);
    same = rng.chance(0.3) ? row.size() : static_cast<size_t>(rng.between(0, std::ssize(row)));
  }
  row.resize(count);
  for (size_t p = same; p < count; ++p)
    if (p == same || rng.chance(0.9)) row[p] = random_entry(rng, pages);
  return row;
}

Rows random_rows(Rng& rng) {
  constexpr int32_t page_sizes[] = {1, 3, 16, 16, 64, 100, 256, unbounded_page_size};
  constexpr int32_t cuts[] = {1, 48, 64, 64, 64, 512};
  Rows rows{.page_size = rng.pick(page_sizes), .cut = rng.pick(cuts)};
  const int32_t count = rng.int_between(0, 24), longest = rng.int_between(1, 1500);
  const int64_t pages = rng.chance(0.5) ? 2 : 100'000;
  for (int32_t b = 0; b < count; ++b) {
    int32_t keys = rng.int_between(0, longest);
    if (b > 0 && rng.chance(0.4)) keys = rng.pick(rows.hulls).end;
    rows.add(random_row(rows, rows.pages(keys), pages, rng), keys);
    Hull& hull = rows.hulls.back();
    if (rng.chance(0.1)) hull.takes_part = false;
    if (rng.chance(0.1)) hull.begin = std::min(hull.end, rng.int_between(1, 100));
  }
  return rows;
}

TEST(Sharing, ranges_are_those_of_comparing_all_pairs) {
  Rng rng(test_seed());
  for (int round = 0; round < 400; ++round) {
    expect_pairwise(random_rows(rng), rng);
    if (HasFailure()) return;
  }
}

TEST(Sharing, prefixes_of_thousands_of_entries_are_found) {
  Rng rng(test_seed());
  Rows rows{.page_size = 1, .cut = 2048};
  for (int b = 0; b < 12; ++b) {
    const int32_t keys = rng.int_between(4000, 9000);
    rows.add(random_row(rows, rows.pages(keys), 100'000, rng), keys);
  }
  expect_pairwise(rows, rng);
}

Sharing find_in_csr(const Rows& rows) {
  Rng rng(1);
  return find(rows, Table(rows, Place::csr, rng).get(), rows.size());
}

TEST(Sharing, a_range_lists_its_members_and_those_behind_it) {
  Rows rows;
  rows.add({1, 2, 3, 4, 5, 6, 7, 8, 9}, 144);
  rows.add({11, 12, 13, 14}, 64);
  rows.add({1, 2, 3, 4, 25, 26, 27, 28, 29}, 144);
  rows.add({1, 2, 3, 4, 5, 6, 7, 8, 39}, 144);
  const Sharing found = find_in_csr(rows);
  EXPECT_EQ(found.ranges, (std::vector<SharedRange>{{0, 64, -1, 0, 3}, {64, 128, 0, 0, 2}}));
  EXPECT_EQ(found.order, (std::vector<int32_t>{0, 3, 2, 1}));
}

TEST(Sharing, a_range_ends_at_the_cut_before_the_first_other_page) {
  Rows rows;
  rows.add({1, 2, 3, 4, 5, 6, 7, 8}, 128);
  rows.add({1, 2, 3, 4, 5, 6, 7, 88}, 128);
  EXPECT_EQ(find_in_csr(rows).ranges, (std::vector<SharedRange>{{0, 64, -1, 0, 2}}));
  rows.cut = 128;
  EXPECT_TRUE(find_in_csr(rows).ranges.empty());
}

TEST(Sharing, a_range_ends_within_the_shortest_of_its_members) {
  Rows rows{.page_size = 256};
  rows.add({1, 2}, 500);
  rows.add({1}, 127);
  rows.add({1}, 200);
  EXPECT_EQ(find_in_csr(rows).ranges,
            (std::vector<SharedRange>{{0, 64, -1, 0, 3}, {64, 192, 0, 0, 2}}));
}

TEST(Sharing, unassigned_entries_are_compared_as_they_stand) {
  Rows rows;
  rows.add({1, 0xffffffffu, 3, 4}, 64);
  rows.add({1, 0xffffffffu, 3, 4}, 64);
  rows.add({1, 0x80000000u, 3, 4}, 64);
  EXPECT_EQ(find_in_csr(rows).ranges, (std::vector<SharedRange>{{0, 64, -1, 0, 2}}));
}

TEST(Sharing, pages_in_other_places_of_a_row_are_not_shared) {
  Rows rows;
  rows.add({1, 1, 1, 1, 2, 3, 4, 5}, 128);
  rows.add({2, 3, 4, 5, 1, 1, 1, 1}, 128);
  EXPECT_TRUE(find_in_csr(rows).ranges.empty());
}

TEST(Sharing, memory_of_a_limit_is_enough_for_every_tree) {
  Rng rng(1);
  constexpr int32_t count = 90;
  Rows nested{.page_size = 64}, alone{.page_size = 64}, alike{.page_size = 64};
  std::vector<uint32_t> pages(count + 2);
  std::iota(pages.begin(), pages.end(), 0u);
  for (int32_t b = 0; b < count; ++b) {
    nested.add(pages, 64 * (b + 1));
    alone.add({static_cast<uint32_t>(b), 1, 2}, 192);
    alike.add(pages, 192);
  }
  Rows comb = nested;  // each goes on by itself where it leaves the others
  for (int32_t b = 0; b < count; ++b) {
    comb.entries[static_cast<size_t>(b)].push_back(1'000'000u + static_cast<uint32_t>(b));
    comb.hulls[static_cast<size_t>(b)].end += 64;
  }
  for (const Rows& rows : {nested, alone, alike, comb}) {
    expect_pairwise(rows, rng);
    Rows backwards = rows;
    std::reverse(backwards.entries.begin(), backwards.entries.end());
    std::reverse(backwards.hulls.begin(), backwards.hulls.end());
    expect_pairwise(backwards, rng);
  }
}

}  // namespace
}  // namespace folio::test
