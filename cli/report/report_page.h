// SPDX-License-Identifier: Apache-2.0
/// cli/report/report_page.h: the page of `folio replay --report`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "replay/recorder.h"
#include "report/report.h"

namespace folio::cli {

/// One replay.
std::string page_of(const ReplayOptions& options, const ReplayFigures& figures,
                    const PageRecorder& recorder);

// What other pages of replays show alike.

/// "folio replay: trace.jsonl"
std::string title_of(std::string_view command, const TraceOptions& trace);
/// "12.34 %"; "none" without a whole.
std::string share(int64_t part, int64_t whole);
std::string duration(double seconds);
nlohmann::ordered_json tile(const std::string& label, const std::string& value,
                            const std::string& note);
/// Pairs of name and text.
using Facts = std::vector<std::pair<std::string, std::string>>;
/// Command, machine, date, version, trace, and those that follow.
nlohmann::ordered_json facts_of_run(const TraceOptions& trace, const OutputOptions& output,
                                    const Facts& more);
/// "up to 16 sequences and 512 tokens a step"
std::string order_of(const StepOptions& options);

}  // namespace folio::cli
