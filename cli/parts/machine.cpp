// SPDX-License-Identifier: Apache-2.0
/// cli/parts/machine.cpp: what the system says about itself.
#include "parts/machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <fstream>
#include <string_view>

#include "parts/numbers.h"

namespace folio::cli {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  utsname names = {};
  return ::uname(&names) == 0 ? names.machine : "unknown processor";
}

/// As it is where a shell reads nothing into it, else between single quotes.
std::string quoted(std::string_view argument) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_./=,:+@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!argument.empty() && std::all_of(argument.begin(), argument.end(), is_plain))
    return std::string(argument);
  std::string text;
  for (const char c : argument) {
    if (c == '\'') text += "'\\'";  // ends the quotes; the next one opens them again
    text += c;
  }
  return fmt::format("'{}'", text);
}

}  // namespace

std::string machine_line() {
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return fmt::format("{}, {} processors, {:.1f} GiB", processor(), sysconf(_SC_NPROCESSORS_ONLN),
                     memory / bytes_per_gib);
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

std::string version() { return FOLIO_VERSION; }

std::string command_line(int count, const char* const* arguments) {
  std::string line = "folio";
  for (int i = 1; i < count; ++i) line.append(1, ' ').append(quoted(arguments[i]));
  return line;
}

}  // namespace folio::cli
