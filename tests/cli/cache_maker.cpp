// SPDX-License-Identifier: Apache-2.0
/// tests/cli/cache_maker.cpp: DIRECTORY store|drop|expect FIRST END ..., or DIRECTORY hold: a disk
/// tier for cache_test.py. `hold` has it open until its input ends.
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string_view>

#include "folio/tier/disk_tier.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

int run(int argc, char** argv) {
  constexpr int64_t mib = 1 << 20;
  constexpr uint32_t most_names = 1000;
  const auto tier =
      make_disk_tier(argv[1], {.max_bytes = 64 * mib}, {.segment_bytes = mib}).value();
  const std::string_view what = argv[2];
  std::set<uint32_t> numbers;
  for (int i = 3; i + 1 < argc; i += 2)
    for (int number = std::atoi(argv[i]); number < std::atoi(argv[i + 1]); ++number)
      numbers.insert(static_cast<uint32_t>(number));
  PageMemory page({60'000}), back({60'000});
  if (what == "hold") {
    std::puts("held");
    std::fflush(stdout);
    while (std::getchar() != EOF) continue;
  }
  for (const uint32_t number : numbers) {
    page.fill(number);
    const PageName name = name_of(number);
    if (what == "store" && store(*tier, name, page) != TierOutcome::done) return 1;
    if (what == "drop" && !tier->drop({&name, 1}).is_ok()) return 1;
  }
  if (what != "expect") return 0;
  for (uint32_t number = 0; number < most_names; ++number) {
    const bool is_there = load(*tier, name_of(number), back) == TierOutcome::done;
    page.fill(number);
    if (is_there != numbers.contains(number)) return 1;
    if (is_there && back.memory() != page.memory()) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace folio::test

int main(int argc, char** argv) { return argc < 3 ? 2 : folio::test::run(argc, argv); }
