// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_supervise_test.cpp: cases that hang or die take their process along, and nothing
/// else.
#include "cuda/gpu_supervise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Runs six cases; `fault` says what the third does. Names of those that ended, and of the lost.
struct Ran {
  std::vector<std::string> ended, lost;
  int status = 0;
};
template <class Fault>
Ran run_cases(Fault fault, int most = 5, int seconds = 600) {
  const TemporaryFolder folder;
  const std::string path = folder.path("ended");
  Ran ran;
  ran.status = supervise(
      seconds, most,
      [&](Cases& cases) {
        std::ofstream file(path, std::ios::app);
        for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
          if (!cases.begin(name)) continue;
          if (*name == 'c')
            if (const int status = fault(file); status != 0) return status;
          file << name << std::endl;
        }
        return 0;
      },
      [&](const std::string& name, const std::string& reason) {
        ran.lost.push_back(name + " " + reason);
      });
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) ran.ended.push_back(line);
  return ran;
}

TEST(Supervise, all_cases_run_in_one_child_if_nothing_happens) {
  const Ran ran = run_cases([](auto&) { return 0; });
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.ended, ElementsAre("a", "b", "c", "d", "e", "f"));
  EXPECT_THAT(ran.lost, IsEmpty());
}

TEST(Supervise, cases_behind_one_that_dies_run_in_another_child) {
  const Ran ran = run_cases([](auto&) { return raise(SIGKILL); });
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.ended, ElementsAre("a", "b", "d", "e", "f"));
  EXPECT_THAT(ran.lost, ElementsAre("c dies with signal 9"));
}

TEST(Supervise, cases_behind_one_that_hangs_run_in_another_child) {
  const Ran ran = run_cases(
      [](auto&) {
        for (;;) pause();
        return 0;
      },
      5, 10);
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.ended, ElementsAre("a", "b", "d", "e", "f"));
  EXPECT_THAT(ran.lost, ElementsAre("c hangs: nothing for 10 s"));
}

TEST(Supervise, a_case_that_spoils_its_process_has_recorded_that_itself) {
  const Ran ran = run_cases([](auto&) { return spoiled; });
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.ended, ElementsAre("a", "b", "d", "e", "f"));
  EXPECT_THAT(ran.lost, IsEmpty());
}

TEST(Supervise, the_exit_status_of_the_last_child_counts_too) {
  EXPECT_EQ(run_cases([](auto&) { return 77; }).status, 77);
}

TEST(Supervise, no_more_children_are_started_than_may_be_lost) {
  const Ran ran = run_cases([](auto&) { return raise(SIGKILL); }, 1);
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.ended, ElementsAre("a", "b"));
  EXPECT_THAT(ran.lost, ElementsAre("c dies with signal 9", HasSubstr("the rest not run")));
}

TEST(Supervise, a_child_that_dies_before_its_first_case_ends_the_stage) {
  std::vector<std::string> lost;
  const int status = supervise(
      600, 5, [](Cases&) { return raise(SIGKILL); },
      [&](const std::string& name, const std::string&) { lost.push_back(name); });
  EXPECT_EQ(status, 1);
  EXPECT_THAT(lost, ElementsAre("the beginning", "the rest"));
}

}  // namespace
}  // namespace folio::test
