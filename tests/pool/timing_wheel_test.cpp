// SPDX-License-Identifier: Apache-2.0
/// tests/pool/timing_wheel_test.cpp: deadlines, beside a sorted list of them.
#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "pool/eviction/timing_wheel.h"

namespace folio::test {
namespace {

/// Pages by deadline, and of one deadline in the order in which they came.
RC_GTEST_PROP(TimingWheel, tells_of_each_page_when_its_time_comes_in_order, ()) {
  constexpr uint32_t num_pages = 40;
  std::vector<pool::TimingWheel::Entry> entries(num_pages), heads(256);
  pool::TimingWheel wheel;
  wheel.attach(pool::PerPage(entries.data()), heads.data(), num_pages);
  struct Entry {
    uint64_t deadline = 0;
    int order = 0;
    uint32_t page = 0;
  };
  std::vector<Entry> waiting;
  uint64_t now = 0;
  int clock = 0;
  const auto bits = rc::gen::inRange(0, 25);
  for (int i = 0; i < 200; ++i) {
    const uint32_t page = *rc::gen::inRange(0U, num_pages);
    const auto at = std::find_if(waiting.begin(), waiting.end(),
                                 [&](const Entry& e) { return e.page == page; });
    const uint32_t span = 1U << *bits;
    const uint32_t ticks = std::min(span + *rc::gen::inRange(0U, span), pool::TimingWheel::longest);
    if (at != waiting.end()) {
      wheel.remove(page);
      waiting.erase(at);
    } else {
      wheel.insert(page, ticks);
      waiting.push_back({now + ticks, ++clock, page});
    }
    if (i % 5 == 0) {
      const uint64_t passed = i == 100 ? uint64_t{1} << 33 : ticks - 1;
      now += passed;
      std::vector<uint32_t> told, expected;
      wheel.advance(passed, [&](uint32_t due) { told.push_back(due); });
      std::sort(waiting.begin(), waiting.end(), [](const Entry& a, const Entry& b) {
        return std::pair(a.deadline, a.order) < std::pair(b.deadline, b.order);
      });
      while (!waiting.empty() && waiting.front().deadline <= now) {
        expected.push_back(waiting.front().page);
        waiting.erase(waiting.begin());
      }
      RC_ASSERT(told == expected);
    }
    uint32_t count = 0;
    RC_ASSERT(wheel.fault(&count) == nullptr);
    RC_ASSERT(count == waiting.size());
    for (const Entry& e : waiting) RC_ASSERT(wheel.remaining(e.page) == e.deadline - now);
  }
}

}  // namespace
}  // namespace folio::test
