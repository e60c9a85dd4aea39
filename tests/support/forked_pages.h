// SPDX-License-Identifier: Apache-2.0
/// tests/support/forked_pages.h: pages of sequences that have forked from one another, anywhere,
/// and of what else makes rows of a table alike.
#pragma once

#include <cstdint>
#include <vector>

#include "support/attention_case.h"
#include "support/random.h"

namespace folio::test {

struct ForkedPages {
  /// [sequence][logical page] as AttentionCase has them; below 0: an entry that is no page
  std::vector<std::vector<int64_t>> pages;
  int64_t num_pages = 0;
};

/// Most sequences go on where they leave an earlier one: at the end of either, at the end of a page
/// or within it (then on a copy of it, or both on the same). Behind the fork they may meet again,
/// or have pages of other places. Of new pages a share of `unassigned` is none, for all that share
/// it.
ForkedPages fork_pages(const CaseOptions& options, double unassigned, Rng& rng);

/// The entry of a page below 0; of the same page the same.
uint32_t no_page_entry(int64_t page, int64_t num_pages);

/// Lets some rows begin where another does that begins with the same entries.
void alias_rows(const std::vector<std::vector<uint32_t>>& rows, std::vector<int64_t>& starts,
                Rng& rng);

}  // namespace folio::test
