// SPDX-License-Identifier: Apache-2.0
/// cli/parts/values.cpp: strict reading of the words of the command line.
#include "parts/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <system_error>

#include "parts/text.h"

namespace folio::cli {
namespace {

std::string refusal(const std::string& word, const std::string& expected) {
  return fmt::format("got '{}', expected {}", printable(word, 40), expected);
}

/// The whole word as a number of type T in [low, high], rewritten in its shortest form.
template <class T>
CLI::Validator number_in(T low, T high, const std::string& kind) {
  const std::string expected = fmt::format("{} from {} to {}", kind, low, high);
  const auto check = [low, high, expected](std::string& word) {
    T value{};
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, value);
    const bool in_range = value >= low && value <= high;  // false for a nan
    if (error != std::errc() || stop != end || !in_range) return refusal(word, expected);
    word = fmt::format("{}", value);
    return std::string();
  };
  return {check, fmt::format("{} .. {}", low, high)};
}

}  // namespace

CLI::Validator integer_from(int64_t low, int64_t high) {
  return number_in(low, high, "an integer");
}

CLI::Validator unsigned_to(uint64_t high) { return number_in(uint64_t{0}, high, "an integer"); }

CLI::Validator number_from(double low, double high) { return number_in(low, high, "a number"); }

CLI::Validator bytes_from(int64_t low, int64_t high) {
  const std::string expected =
      fmt::format("bytes from {} to {}, as a number, or one with KiB, MiB, GiB or TiB", low, high);
  const auto check = [low, high, expected](std::string& word) {
    int64_t value = 0;
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, value);
    const std::string_view unit(stop, static_cast<size_t>(end - stop));
    constexpr std::string_view units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    const auto* const at = std::find(std::begin(units), std::end(units), unit);
    if (error != std::errc() || at == std::end(units)) return refusal(word, expected);
    const int64_t bytes = int64_t{1} << (10 * (at - std::begin(units)));
    if (value < 0 || value > high / bytes || value * bytes < low) return refusal(word, expected);
    word = fmt::format("{}", value * bytes);
    return std::string();
  };
  return {check, "BYTES"};
}

CLI::Validator word(const std::string& what) {
  const auto check = [what](std::string& word) {
    const bool good = !word.empty() && word.find('\0') == word.npos;
    return good ? std::string() : refusal(word, what);
  };
  return {check, ""};
}

CLI::Validator one_of(std::vector<std::pair<std::string, int64_t>> names) {
  std::string listed;
  for (const auto& [name, value] : names) listed += (listed.empty() ? "" : "|") + name;
  const auto check = [names = std::move(names), listed](std::string& word) {
    for (const auto& [name, value] : names) {
      if (name != word) continue;
      word = fmt::format("{}", value);
      return std::string();
    }
    return refusal(word, listed);
  };
  return {check, listed};
}

}  // namespace folio::cli
