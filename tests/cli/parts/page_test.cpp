// SPDX-License-Identifier: Apache-2.0
/// tests/cli/parts/page_test.cpp: foreign text stays text, and a file is there in whole or as it
/// was.
#include "parts/page.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "parts/machine.h"
#include "parts/output_file.h"
#include "report/charts.h"
#include "support/temporary_folder.h"

namespace folio::cli {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* hostile = "</script><!--<script>alert('x')</script>\"&{{data}}{{script}}";

TEST(Page, html_is_escaped) {
  EXPECT_EQ(escape_html("<a href=\"x\" title='y'>&</a>"),
            "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;&lt;/a&gt;");
  EXPECT_EQ(escape_html(std::string_view("a\0b\xff", 4)),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd");
}

TEST(Page, json_in_a_script_cannot_end_it_and_means_the_same) {
  const ordered_json data = {{hostile, hostile}};
  const std::string text = script_json(data);
  EXPECT_THAT(text, Not(HasSubstr("<")));
  EXPECT_THAT(text, Not(HasSubstr(">")));
  EXPECT_EQ(ordered_json::parse(text), data);
  const ordered_json read = ordered_json::parse(script_json({{"name", "\xff"}}));
  EXPECT_EQ(read["name"], "\xef\xbf\xbd") << "no UTF-8: replaced";
}

TEST(Page, what_is_put_in_is_not_read_again) {
  if (!can_make_pages().is_ok()) GTEST_SKIP() << can_make_pages().message();
  const ordered_json data = {{"title", hostile}};
  const std::string page = make_page(hostile, data);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("&amp;{{data}}{{script}}"));
  EXPECT_THAT(page, HasSubstr(script_json(data)));
  EXPECT_THAT(page, HasSubstr("Chart.js v3"));
  EXPECT_THAT(page, HasSubstr("Permission is hereby granted, free of charge"));
  EXPECT_THAT(page, Not(HasSubstr("{{title}}")));
  EXPECT_THAT(page, Not(HasSubstr("{{licences}}")));
  for (const char* outside : {"src=", "@import", "<link rel=\"stylesheet", "url("}) {
    const std::string head = page.substr(0, page.find("<script"));
    EXPECT_THAT(head, Not(HasSubstr(outside)));
  }
}

TEST(Page, shown_values_have_four_digits) {
  EXPECT_EQ(shown(12.3456).dump(), "12.35");
  EXPECT_EQ(shown(0.000123456).dump(), "0.0001235");
  EXPECT_EQ(shown(123456.0).dump(), "123500");
  EXPECT_EQ(shown(0.0).dump(), "0");
  EXPECT_EQ(shown(-2.0).dump(), "-2");
  EXPECT_TRUE(shown(HUGE_VAL).is_null());
  EXPECT_TRUE(shown(std::nan("")).is_null());
  EXPECT_FALSE(shown(5e-324).is_null());
  EXPECT_FALSE(shown(1.7e308).is_null());
  EXPECT_TRUE(percent(0, 0).is_null());
  EXPECT_EQ(percent(1, 3).dump(), "33.33");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(-999), "-999");
  EXPECT_EQ(grouped(-1000), "-1,000");
}

TEST(Page, a_command_can_be_pasted_into_a_shell) {
  const char* const arguments[] = {"/bin/folio", "replay", "it's <a> trace", "", "--json=x.json"};
  EXPECT_EQ(command_line(5, arguments), "folio replay 'it'\\''s <a> trace' '' --json=x.json");
}

class OutputFiles : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] int64_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_.path()), {});
  }

  test::TemporaryFolder folder_;
};

TEST_F(OutputFiles, nothing_is_seen_before_all_is_written) {
  std::ofstream(path("page")) << "older";
  {
    OutputFile file("--report");
    ASSERT_TRUE(file.open(path("page")).is_ok());
    EXPECT_EQ(text_of(path("page")), "older");
    ASSERT_TRUE(file.write("newer").is_ok());
    EXPECT_EQ(text_of(path("page")), "newer");
  }
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFiles, what_is_not_written_leaves_nothing_behind) {
  std::ofstream(path("page")) << "older";
  {
    OutputFile one("--report"), other("--report");
    ASSERT_TRUE(one.open(path("page")).is_ok());
    ASSERT_TRUE(other.open(path("absent")).is_ok());
    EXPECT_EQ(files(), 3);
  }
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(text_of(path("page")), "older");
}

TEST_F(OutputFiles, a_link_keeps_pointing_at_its_file) {
  std::ofstream(path("page")) << "older";
  std::filesystem::create_symlink("page", path("link"));
  OutputFile file("--report");
  ASSERT_TRUE(file.open(path("link")).is_ok());
  ASSERT_TRUE(file.write("newer").is_ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(text_of(path("page")), "newer");
}

TEST_F(OutputFiles, paths_that_cannot_be_written_are_named) {
  for (const std::string& bad : {folder_.path(), path("no/such/folder"), path("page") + "/below"}) {
    std::ofstream(path("page")) << "older";
    OutputFile file("--report");
    const Status status = file.open(bad);
    EXPECT_EQ(status.code(), Errc::io);
    EXPECT_THAT(std::string(status.message()), HasSubstr("--report: cannot write " + bad + ": "));
    EXPECT_FALSE(file.is_open());
    EXPECT_TRUE(file.write("text").is_ok()) << "no file, nothing to do";
  }
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFiles, a_full_device_is_an_error) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  OutputFile file("--report");
  ASSERT_TRUE(file.open("/dev/full").is_ok());
  EXPECT_EQ(file.write("text").code(), Errc::io);
}

TEST_F(OutputFiles, no_path_is_no_file) {
  OutputFile file("--report");
  EXPECT_TRUE(file.open("").is_ok());
  EXPECT_FALSE(file.is_open());
}

}  // namespace
}  // namespace folio::cli
