// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/version.cpp: the comparison with the range.
#include "version.h"

#include <charconv>
#include <compare>
#include <optional>
#include <string_view>

namespace ggml_folio {
namespace {

/// Three numbers with dots between, then nothing or a suffix.
std::optional<GgmlVersion> parse(const char* version) {
  const std::string_view text = version != nullptr ? version : "";
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

std::string name_of_ggml(const char* version) {
  if (!parse(version)) return "this ggml does not say its version";
  return std::string("this is ggml ") + version;
}

std::string tested_range() { return text_of(oldest_ggml) + " to " + text_of(newest_ggml); }

std::string refuse_version(const char* version) {
  const std::optional<GgmlVersion> found = parse(version);
  if (!found || *found >= oldest_ggml) return {};
  return name_of_ggml(version) + "; the device serves ggml " + text_of(oldest_ggml) +
         " and later ones";
}

std::string warn_of_version(const char* version) {
  const std::optional<GgmlVersion> found = parse(version);
  if (found && *found <= newest_ggml) return {};
  return name_of_ggml(version) + ", and the device is tested in ggml " + tested_range() +
         "; it is served, since the probe found all that the device needs";
}

}  // namespace ggml_folio
