// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/tests/version_test.cpp: which ggml's may load the device.
#include "version.h"

#include <gmock/gmock.h>

namespace ggml_folio {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int api_version = 2;

std::string text(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

TEST(Version, BothEndsOfTheRangeAreAccepted) {
  for (const GgmlVersion& v : {oldest_ggml, newest_ggml})
    EXPECT_THAT(refuse_version(text(v.major, v.minor, v.patch).c_str(), api_version), IsEmpty());
}

TEST(Version, SuffixesAreNotCompared) {
  const GgmlVersion& v = newest_ggml;
  for (const char* suffix : {"-dirty", "+1.gabc", "-dev"})
    EXPECT_THAT(refuse_version((text(v.major, v.minor, v.patch) + suffix).c_str(), api_version),
                IsEmpty());
}

TEST(Version, OthersAreRefusedByTheirName) {
  const GgmlVersion& o = oldest_ggml;
  const GgmlVersion& n = newest_ggml;
  for (const std::string& version :
       {text(o.major, o.minor - 1, 999), text(n.major, n.minor, n.patch + 1),
        text(n.major, n.minor + 1, 0), text(n.major + 1, 0, 0), text(0, 0, 0)}) {
    const std::string reason = refuse_version(version.c_str(), api_version);
    EXPECT_THAT(reason, HasSubstr("ggml " + version)) << version;
    EXPECT_THAT(reason, HasSubstr(text(o.major, o.minor, o.patch))) << version;
  }
}

TEST(Version, WhatIsNoVersionIsRefused) {
  EXPECT_THAT(refuse_version(nullptr, api_version), HasSubstr("does not say"));
  EXPECT_THAT(refuse_version("", api_version), HasSubstr("does not say"));
  for (const char* version : {"0.25", "0.25.", ".25.3", "0..3", "a.b.c", "0.25.3x", "0.25.3.1",
                              "-0.25.3", " 0.25.3", "99999999999999999999.25.3"})
    EXPECT_THAT(refuse_version(version, api_version), HasSubstr("device knows")) << version;
}

TEST(Version, AnotherApiVersionIsRefused) {
  const std::string version = text(newest_ggml.major, newest_ggml.minor, newest_ggml.patch);
  for (const int api : {1, 3, 0, -1})
    EXPECT_THAT(refuse_version(version.c_str(), api), HasSubstr("API version")) << api;
}

}  // namespace
}  // namespace ggml_folio
