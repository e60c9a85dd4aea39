// SPDX-License-Identifier: Apache-2.0
/// cli/watch/exposition.cpp: NAME{LABEL="TEXT",...} VALUE [TIMESTAMP], line by line.
/// Source: prometheus.io, "Exposition formats", text-based format.
#include "watch/exposition.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <system_error>

#include "parts/text.h"

namespace folio::cli {
namespace {

constexpr size_t most_labels = 64;

bool is_first_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
}
bool is_of_name(char c) { return is_first_of_name(c) || (c >= '0' && c <= '9'); }

/// What is left of a line.
class Line {
 public:
  explicit Line(std::string_view text) : rest_(text) {}

  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t'))
      rest_.remove_prefix(1);
  }
  [[nodiscard]] bool is_at_end() const { return rest_.empty(); }
  [[nodiscard]] bool begins_with(char c) const { return rest_.starts_with(c); }
  bool take(char c) {
    skip_blanks();
    if (!begins_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  /// Empty: there is none.
  std::string_view take_name() {
    skip_blanks();
    if (rest_.empty() || !is_first_of_name(rest_.front())) return {};
    const auto* const end = std::find_if_not(rest_.begin(), rest_.end(), is_of_name);
    return take_until(static_cast<size_t>(end - rest_.begin()));
  }
  std::string_view take_word() {
    skip_blanks();
    return take_until(std::min(rest_.find_first_of(" \t"), rest_.size()));
  }
  /// Between quotes, with \\, \" and \n.
  bool take_text(std::string& text) {
    if (!take('"')) return false;
    for (size_t i = 0; i < rest_.size(); ++i) {
      char c = rest_[i];
      if (c == '"') return rest_.remove_prefix(i + 1), true;
      if (c == '\\') {
        if (++i == rest_.size()) return false;
        c = rest_[i] == 'n' ? '\n' : rest_[i];
      }
      text += c;
    }
    return false;
  }

 private:
  std::string_view take_until(size_t end) {
    const std::string_view taken = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return taken;
  }
  std::string_view rest_;
};

/// "1", "+Inf", "NaN", "1.5e9".
bool read_value(std::string_view word, double& value) {
  if (word.starts_with('+')) word.remove_prefix(1);
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error == std::errc::result_out_of_range && stop == end)
    value = std::numeric_limits<double>::quiet_NaN();
  else if (error != std::errc())
    return false;
  return !word.empty() && stop == end;
}

/// What was expected; empty where the labels are whole.
std::string_view read_labels(Line& line, MetricSample& sample) {
  if (!line.take('{')) return {};
  while (!line.take('}')) {
    const std::string_view label = line.take_name();
    if (label.empty()) return "the name of a label or '}'";
    if (!line.take('=')) return "'=' behind the name of a label";
    if (sample.labels.size() == most_labels) return "at most 64 labels";
    if (!line.take_text(sample.labels.emplace_back(label, std::string()).second))
      return "a label's text between '\"'";
    if (!line.take(',') && !line.begins_with('}')) return "',' or '}' behind a label";
  }
  return {};
}

/// What was expected; empty where the line is a sample.
std::string_view read_sample(std::string_view text, MetricSample& sample) {
  Line line(text);
  sample.name = line.take_name();
  if (sample.name.empty()) return "a metric's name";
  sample.labels.clear();
  if (const std::string_view expected = read_labels(line, sample); !expected.empty())
    return expected;
  if (!read_value(line.take_word(), sample.value)) return "a number behind a metric";
  line.skip_blanks();
  if (line.is_at_end() || line.begins_with('#')) return {};
  double timestamp = 0;
  if (!read_value(line.take_word(), timestamp)) return "a timestamp behind a value";
  line.skip_blanks();
  return line.is_at_end() || line.begins_with('#') ? "" : "the line's end behind a timestamp";
}

}  // namespace

Status read_exposition(std::string_view text,
                       const std::function<void(const MetricSample&)>& function) {
  MetricSample sample;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] == '#') continue;
    const std::string_view expected = read_sample(line, sample);
    if (!expected.empty())
      return {Errc::invalid_argument,
              fmt::format("line {} is '{}', expected {}", number, printable(line, 60), expected)};
    function(sample);
  }
  return {};
}

}  // namespace folio::cli
