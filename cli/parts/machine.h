// SPDX-License-Identifier: Apache-2.0
/// cli/parts/machine.h: where and when a report was made.
#pragma once

#include <string>

namespace folio::cli {

/// "AMD EPYC 9454, 2 processors, 15.6 GiB": processor, how many of it, memory.
std::string machine_line();
/// "2026-11-21 07:53:17 UTC"
std::string date_now();
/// Of folio: "0.1.0".
std::string version();
/// The arguments as a shell would take them; `arguments` of main.
std::string command_line(int count, const char* const* arguments);

}  // namespace folio::cli
