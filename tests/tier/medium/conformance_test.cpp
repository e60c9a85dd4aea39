// SPDX-License-Identifier: Apache-2.0
/// tests/tier/medium/conformance_test.cpp: check_medium passes what is right, and finds what breaks
/// each of its rules.
#include "folio/testing/medium_conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "tier/medium/faulty_medium.h"

namespace folio::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using tier::check_medium;
using tier::MediumReport;
using tier::MediumSubject;

MediumReport report_of(MediumFault fault) {
  MediumPlace place;
  const auto make = [&](const TierOptions& options) -> Result<std::unique_ptr<tier::Medium>> {
    return std::unique_ptr<tier::Medium>(std::make_unique<FaultyMedium>(place, options, fault));
  };
  return check_medium(
      {.make = make,
       .options = {.max_bytes = 200'000},
       .page_bytes = 10'000,
       .keeps = true,
       .tells = true,
       .too_many_pages = 40,
       .damage = [&](const PageName& name) { place.find(name)->bytes[7] ^= std::byte{1}; }});
}

/// The first rule that it breaks; others may follow from it.
const std::map<MediumFault, std::string> broken_by = {
    {MediumFault::hopes, "nothing_is_found_that_was_never_stored"},
    {MediumFault::swaps_bytes, "what_is_stored_is_found_and_loaded_exactly"},
    {MediumFault::writes_beyond, "what_is_stored_is_found_and_loaded_exactly"},
    {MediumFault::throws, "what_is_stored_is_found_and_loaded_exactly"},
    {MediumFault::counts_all, "names_are_counted_from_the_first_on"},
    {MediumFault::first_job_alone, "each_job_ends_by_itself"},
    {MediumFault::expects_alike, "pages_of_one_run_may_differ"},
    {MediumFault::overwrites, "a_name_that_is_there_stays_as_it_is"},
    {MediumFault::keeps_dropped, "what_is_dropped_is_gone_until_it_is_stored_anew"},
    {MediumFault::loads_any_size, "a_load_of_another_size_is_no_page"},
    {MediumFault::lands_early, "what_has_landed_is_there"},
    {MediumFault::mixes_threads, "threads_do_not_meet"},
    {MediumFault::counts_stores, "what_is_there_is_counted"},
    {MediumFault::counts_negative, "what_is_there_is_counted"},
    {MediumFault::tells_again, "changes_are_told_once"},
    {MediumFault::forgets, "what_is_kept_is_there_for_the_next_one"},
    {MediumFault::ignores_model, "pages_of_another_model_are_none"},
    {MediumFault::ignores_damage, "damage_is_seen"},
    {MediumFault::grows, "what_it_has_no_room_for_goes_or_is_refused"},
};

TEST(MediumConformance, passes_a_medium_that_keeps_every_rule) {
  const MediumReport report = report_of(MediumFault::none);
  EXPECT_TRUE(report.is_ok()) << report.text();
  EXPECT_THAT(report.left_out, IsEmpty());
}

TEST(MediumConformance, names_the_rule_that_a_medium_breaks) {
  std::set<std::string> found;
  for (const auto& [fault, rule] : broken_by) {
    const MediumReport report = report_of(fault);
    ASSERT_FALSE(report.is_ok()) << "nothing found of " << rule;
    EXPECT_EQ(report.breaches.front().rule, rule) << report.text();
    EXPECT_NE(report.breaches.front().expected, report.breaches.front().came);
    found.insert(rule);
  }
  for (const std::string& rule : report_of(MediumFault::none).checked)
    EXPECT_TRUE(found.contains(rule)) << "no medium here breaks " << rule;
}

TEST(MediumConformance, leaves_out_what_a_medium_does_not_say_of_itself) {
  MediumPlace place;
  const MediumReport report = check_medium(
      {.make = [&](const TierOptions& options) -> Result<std::unique_ptr<tier::Medium>> {
         return std::unique_ptr<tier::Medium>(
             std::make_unique<FaultyMedium>(place, options, MediumFault::forgets));
       },
       .options = {.max_bytes = 200'000}});
  EXPECT_TRUE(report.is_ok()) << report.text();
  EXPECT_THAT(report.left_out,
              ElementsAre("changes_are_told_once", "what_is_kept_is_there_for_the_next_one",
                          "pages_of_another_model_are_none", "damage_is_seen",
                          "what_it_has_no_room_for_goes_or_is_refused"));
}

TEST(MediumConformance, says_why_there_is_no_medium) {
  const MediumReport none =
      check_medium({.make = [](const TierOptions&) -> Result<std::unique_ptr<tier::Medium>> {
        return fail(Errc::io, "no such bucket");
      }});
  ASSERT_EQ(none.breaches.size(), 1U);
  EXPECT_EQ(none.text(),
            "nothing_is_found_that_was_never_stored: expected a medium to be made, got no such "
            "bucket\n");
  const MediumReport null = check_medium(
      {.make = [](const TierOptions&) { return Result(std::unique_ptr<tier::Medium>()); }});
  ASSERT_EQ(null.breaches.size(), 1U);
  EXPECT_EQ(null.breaches.front().came, "null");
}

}  // namespace
}  // namespace folio::test
