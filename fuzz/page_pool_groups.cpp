// SPDX-License-Identifier: Apache-2.0
/// fuzz/page_pool_groups.cpp: whatever is asked of a hybrid pool, in whatever order, every group
/// has what its rule lets the next query see, behind the right items (tests/pool/group_model.h);
/// what goes first goes first; and all invariants hold after every call.
///
/// Input: 8 bytes of options, 9 of groups, 6 of each call.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

#include "operations.h"
#include "pool/group_calls.h"

namespace {

using namespace folio;

constexpr size_t option_bytes = 8, group_bytes = 3, most_groups = 3;

/// `b`: 3 bytes. Few sizes, so that slabs stay small.
GroupOptions group_of(const uint8_t* b, int32_t page_size) {
  GroupOptions g{.rule = static_cast<GroupRule>(b[0] % 4)};
  int32_t size = page_size;
  if (g.rule == GroupRule::window) {
    g.window = 1 + b[1] % 13;
    g.sinks = b[1] / 13 % g.window;
  }
  if (g.rule == GroupRule::chunked) g.chunk = 1 + b[1] % 11;
  if (g.rule == GroupRule::state) g.checkpoint = size = page_size * (1 + b[1] % 3);
  g.page_bytes = int64_t{size} * (1 + b[2] % 3);
  return g;
}

std::vector<GroupOptions> groups_of(const uint8_t* b, int32_t page_size) {
  std::vector<GroupOptions> groups(1);
  if (b[6] % 5 != 0) groups[0].page_bytes = int64_t{page_size} * (1 + b[6] / 5 % 3);
  for (size_t more = 0; more < 1 + b[7] % most_groups; ++more)
    groups.push_back(group_of(b + option_bytes + more * group_bytes, page_size));
  return groups;
}

/// `groups` outlive the options.
PoolOptions options_of(const uint8_t* b, const std::vector<GroupOptions>& groups) {
  int64_t slab = 1;
  for (const GroupOptions& g : groups) slab = std::lcm(slab, std::max<int64_t>(1, g.page_bytes));
  return {.num_pages = groups[0].page_bytes == 0 ? 1 + b[7] / 3 % 19U : 0,
          .page_size = 1 + b[0] % 4,
          .max_sequences = 1 + b[1] % 5U,
          .max_pages_per_sequence = 1 + b[2] % 11U,
          .prefix_reuse = b[3] % 8 != 7,
          .hash_seed = 1,  // what was found once is found again
          .eviction = static_cast<Eviction>(b[3] / 8 % std::size(pool::eviction_names)),
          .groups = groups,
          .arena_bytes = slab * (1 + b[5] % 11),
          .max_retention_ms = b[3] % 8 != 7 && b[1] / 5 % 2 == 0 ? 100 : 0,
          .watermark_pages = b[4] % 4 == 0 ? 1U : 0U,
          .lookahead_tokens = b[4] / 4 % 4 == 0 ? b[4] / 16 % 4 : 0,
          .min_partial_tokens = b[3] % 8 != 7 ? b[0] / 4 % (1 + b[0] % 4) : 0,
          .max_spans = b[3] % 8 != 7 ? b[2] / 11 % 4U : 0,
          .max_io_pins = b[5] / 11 % 4U};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  size_t at = option_bytes + most_groups * group_bytes;
  if (size < at) return 0;
  const std::vector<GroupOptions> groups = groups_of(data, 1 + data[0] % 4);
  test::GroupModel model(options_of(data, groups));
  test::GroupCall call;
  for (; at + call.size() <= size; at += call.size()) {
    std::copy_n(data + at, call.size(), call.begin());
    test::apply(model, call);
    fuzz::Operations::of_this_program().add_one();
  }
  model.finish();
  fuzz::Operations::of_this_program().end_if_all_are_done();
  return 0;
}
