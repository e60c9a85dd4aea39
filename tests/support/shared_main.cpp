// SPDX-License-Identifier: Apache-2.0
/// tests/support/shared_main.cpp: a program that several tests share. `--tests_of=/A.cpp,/B.cpp`
/// runs those that stand in these sources, whose paths are whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace {

/// FOLDER/FILE: compilers are given paths from different places.
std::string end_of(const std::filesystem::path& path) {
  return path.parent_path().filename() / path.filename();
}

/// Of paths with a comma between two.
std::set<std::string> ends_of(std::string_view paths) {
  std::set<std::string> ends;
  std::istringstream rest{std::string(paths)};
  for (std::string path; std::getline(rest, path, ',');) ends.insert(end_of(path));
  return ends;
}

/// The --gtest_filter that lets tests of `sources` pass. A test in a header ends the program: it
/// belongs to no source, and none would run it.
std::string filter_of(const std::set<std::string>& sources) {
  std::string filter;
  const ::testing::UnitTest& program = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *program.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const ::testing::TestInfo& test = *suite.GetTestInfo(j);
      const std::string file = end_of(test.file());
      if (file.ends_with(".h")) {
        std::fprintf(stderr,
                     "%s.%s: expected in a source, stands in %s; give its tests programs of "
                     "their own (ALONE)\n",
                     suite.name(), test.name(), file.c_str());
        std::exit(2);
      }
      if (sources.contains(file)) filter += std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  if (argc == 1) return RUN_ALL_TESTS();
  constexpr std::string_view option = "--tests_of=";
  const std::string_view given = argv[1];
  const std::string filter =
      given.starts_with(option) ? filter_of(ends_of(given.substr(option.size()))) : "";
  if (argc > 2 || filter.empty()) {
    std::fprintf(stderr, "%s: expected %sSOURCE,... of sources with tests, got %s\n", argv[0],
                 option.data(), argv[argc - 1]);
    return 2;
  }
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, filter);
  return RUN_ALL_TESTS();
}
