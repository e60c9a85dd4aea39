// SPDX-License-Identifier: Apache-2.0
/// cli/watch/exposition.h: Prometheus' text format, as servers write it (version 0.0.4), read.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/core/status.h"

namespace folio::cli {

struct MetricSample {
  std::string_view name;
  /// In the order of the line, unescaped; valid during the call that gets the sample.
  std::vector<std::pair<std::string_view, std::string>> labels;
  double value = 0;  ///< also inf and nan

  /// Empty: it has no such label.
  [[nodiscard]] std::string_view label(std::string_view wanted) const {
    for (const auto& [label, text] : labels)
      if (label == wanted) return text;
    return {};
  }
};

/// Each sample of the text, in order; comments, timestamps and OpenMetrics' exemplars are passed
/// over. Errors: invalid_argument with the line that is no exposition, and what was expected there
Status read_exposition(std::string_view text,
                       const std::function<void(const MetricSample&)>& function);

}  // namespace folio::cli
