// SPDX-License-Identifier: Apache-2.0
/// tests/support/forked_pages.cpp: the draws.
#include "support/forked_pages.h"

#include <algorithm>

namespace folio::test {
namespace {

constexpr int64_t no_page_kinds = 3;

/// Runs of rows: who shares one begins where it does, now and then behind that.
ForkedPages fork_runs(const CaseOptions& options, Rng& rng) {
  const size_t count = options.sequences.size();
  std::vector<size_t> run_of(count), order;
  std::vector<int64_t> length(count), first(count);
  for (size_t b = 0; b < count; ++b) {
    const bool is_forked = b > 0 && rng.chance(0.7);
    run_of[b] = is_forked ? run_of[static_cast<size_t>(rng.next() % b)] : b;
    if (!is_forked) order.push_back(b);
    length[run_of[b]] = std::max<int64_t>(length[run_of[b]], options.sequences[b].context);
  }
  rng.shuffle(order);
  ForkedPages forked;
  int64_t row = 1;
  for (const size_t run : order) {
    first[run] = row;
    row += length[run] + rng.between(0, 2);
  }
  for (size_t b = 0; b < count; ++b) {
    const int64_t behind = length[run_of[b]] - options.sequences[b].context;
    forked.pages.push_back({first[run_of[b]] + (rng.chance(0.2) ? rng.between(0, behind) : 0)});
  }
  forked.num_pages = row + 1;
  return forked;
}

/// Pages that a sequence of `keys` has of an earlier one of `other_keys`.
int64_t shared_pages(int64_t keys, int64_t other_keys, int64_t page_size, Rng& rng) {
  const int64_t both = std::min(keys, other_keys);
  int64_t fork = both;
  if (rng.chance(0.3)) {
    fork = rng.between(0, both / 64) * 64;
  } else if (rng.chance(0.5)) {
    fork = rng.between(0, both);
  }
  const bool is_copied = fork < both && rng.chance(0.7);  // the page that the fork lies in
  return is_copied ? fork / page_size : (fork + page_size - 1) / page_size;
}

}  // namespace

ForkedPages fork_pages(const CaseOptions& options, double unassigned, Rng& rng) {
  if (options.page_size == unbounded_page_size) return fork_runs(options, rng);
  ForkedPages forked;
  const auto pages_of = [&](int64_t keys) {
    return (keys + options.page_size - 1) / options.page_size;
  };
  for (const SequenceShape& s : options.sequences) forked.num_pages += pages_of(s.context);
  forked.num_pages += 3;
  std::vector<int64_t> ids(static_cast<size_t>(forked.num_pages));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  rng.shuffle(ids);

  for (const SequenceShape& s : options.sequences) {
    std::vector<int64_t> pages, other;
    if (!forked.pages.empty() && rng.chance(0.85)) {
      const auto from = static_cast<size_t>(rng.between(0, std::ssize(forked.pages) - 1));
      other = forked.pages[from];
      const int64_t shared =
          shared_pages(s.context, options.sequences[from].context, options.page_size, rng);
      pages.assign(other.begin(), other.begin() + shared);
    }
    while (std::ssize(pages) < pages_of(s.context)) {
      if (rng.chance(unassigned)) {
        pages.push_back(-rng.between(1, no_page_kinds));
      } else if (pages.size() < other.size() && rng.chance(0.1)) {
        pages.push_back(other[pages.size()]);
      } else if (!other.empty() && rng.chance(0.1)) {
        pages.push_back(rng.pick(other));
      } else {
        pages.push_back(ids.back());
        ids.pop_back();
      }
    }
    forked.pages.push_back(std::move(pages));
  }
  return forked;
}

uint32_t no_page_entry(int64_t page, int64_t num_pages) {
  const uint32_t entries[no_page_kinds] = {0xffffffffu, static_cast<uint32_t>(num_pages),
                                           0x80000000u};
  return entries[-page - 1];
}

void alias_rows(const std::vector<std::vector<uint32_t>>& rows, std::vector<int64_t>& starts,
                Rng& rng) {
  for (size_t b = 0; b < rows.size(); ++b) {
    for (size_t a = 0; a < rows.size(); ++a) {
      if (a == b || rows[b].size() > rows[a].size() || !rng.chance(0.5)) continue;
      if (std::equal(rows[b].begin(), rows[b].end(), rows[a].begin())) starts[b] = starts[a];
    }
  }
}

}  // namespace folio::test
