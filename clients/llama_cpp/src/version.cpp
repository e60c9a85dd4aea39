// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/version.cpp: the comparison with the range.
#include "version.h"

#include <charconv>
#include <compare>
#include <optional>
#include <string_view>

#include "ggml-backend-impl.h"

namespace ggml_folio {
namespace {

/// Three numbers with dots between, then nothing or a suffix.
std::optional<GgmlVersion> parse(std::string_view text) {
  int numbers[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    if (i > 0 && (at == end || *at++ != '.')) return std::nullopt;
    const auto [next, error] = std::from_chars(at, end, numbers[i]);
    if (error != std::errc() || *at == '-') return std::nullopt;
    at = next;
  }
  if (at != end && *at != '-' && *at != '+') return std::nullopt;
  return GgmlVersion{numbers[0], numbers[1], numbers[2]};
}

std::string text_of(const GgmlVersion& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch);
}

}  // namespace

std::string refuse_version(const char* version, int api_version) {
  std::string range = "ggml " + text_of(oldest_ggml);
  if (newest_ggml != oldest_ggml) range += " to " + text_of(newest_ggml);
  const char* const what_to_do =
      "; build the device against this llama.cpp, or take a release that it knows";
  if (version == nullptr || version[0] == '\0')
    return "this ggml does not say its version, the device knows " + range + what_to_do;
  const std::optional<GgmlVersion> found = parse(version);
  if (!found || *found < oldest_ggml || *found > newest_ggml)
    return std::string("this is ggml ") + version + ", the device knows " + range + what_to_do;
  if (api_version != GGML_BACKEND_API_VERSION)
    return "this ggml has the backend API version " + std::to_string(api_version) +
           ", the device knows " + std::to_string(GGML_BACKEND_API_VERSION) + what_to_do;
  return {};
}

}  // namespace ggml_folio
