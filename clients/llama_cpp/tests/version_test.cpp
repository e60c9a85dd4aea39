// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/tests/version_test.cpp: what is said of a ggml's version.
#include "version.h"

#include <gmock/gmock.h>

namespace ggml_folio {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string text(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

TEST(Version, nothing_is_said_of_tested_ones) {
  for (const GgmlVersion& v : {oldest_ggml, newest_ggml})
    for (const char* suffix : {"", "-dirty", "+1.gabc", "-dev"}) {
      const std::string version = text(v.major, v.minor, v.patch) + suffix;
      EXPECT_THAT(refuse_version(version.c_str()), IsEmpty()) << version;
      EXPECT_THAT(warn_of_version(version.c_str()), IsEmpty()) << version;
    }
}

TEST(Version, older_ones_are_refused_by_their_name) {
  const GgmlVersion& o = oldest_ggml;
  for (const std::string& version : {text(o.major, o.minor - 1, 999), text(0, 0, 0)}) {
    const std::string reason = refuse_version(version.c_str());
    EXPECT_THAT(reason, HasSubstr("this is ggml " + version + ";")) << version;
    EXPECT_THAT(reason, HasSubstr("0.15.1 and later")) << version;
  }
}

TEST(Version, later_ones_are_served_with_a_warning) {
  const GgmlVersion& n = newest_ggml;
  for (const std::string& version : {text(n.major, n.minor, n.patch + 1),
                                     text(n.major, n.minor + 1, 0), text(n.major + 1, 0, 0)}) {
    EXPECT_THAT(refuse_version(version.c_str()), IsEmpty()) << version;
    EXPECT_THAT(warn_of_version(version.c_str()), HasSubstr("this is ggml " + version)) << version;
    EXPECT_THAT(warn_of_version(version.c_str()), HasSubstr("tested in ggml " + tested_range()));
  }
}

TEST(Version, what_is_no_version_is_served_with_a_warning) {
  for (const char* version :
       {static_cast<const char*>(nullptr), "", "0.25", "0.25.", ".25.3", "0..3", "a.b.c", "0.25.3x",
        "0.25.3.1", "-0.25.3", " 0.25.3", "99999999999999999999.25.3"}) {
    EXPECT_THAT(refuse_version(version), IsEmpty());
    EXPECT_THAT(warn_of_version(version), HasSubstr("does not say its version"));
  }
}

}  // namespace
}  // namespace ggml_folio
