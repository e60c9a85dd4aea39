// SPDX-License-Identifier: Apache-2.0
/// cli/directory/cache_options.cpp: the command line of `folio cache`.
#include <CLI/CLI.hpp>

#include "directory/cache.h"
#include "parts/values.h"

namespace folio::cli {
namespace {

CLI::App& add(CLI::App& app, CacheOptions& options, CacheOptions::Command command, const char* name,
              const char* description) {
  CLI::App& added = *app.add_subcommand(name, description);
  added
      .add_option("directory", options.directory, "A disk tier's directory, which nobody uses now")
      ->transform(word("the name of a directory"))
      ->required();
  added.add_option("--json", options.json, "Write the figures to this file")
      ->transform(word("the name of a file"));
  added.callback([&options, command] { options.command = command; });
  return added;
}

}  // namespace

void add_cache_options(CLI::App& app, CacheOptions& options) {
  using Command = CacheOptions::Command;
  constexpr int64_t most_mib = 1 << 20;
  app.require_subcommand(1);
  add(app, options, Command::ls, "ls", "Pages, bytes, segments and ages, by the records' headers")
      .add_flag("--names", options.names, "A line for each page, too")
      ->disable_flag_override();
  add(app, options, Command::check, "check",
      "Read everything and verify checksums; exit status 1 where something is damaged");
  add(app, options, Command::compact, "compact",
      "Copy what lives into new segments and remove the old ones")
      .add_option("--segment-mib", options.segment_mib, "Size of new segments")
      ->transform(integer_from(1, most_mib))
      ->capture_default_str();
}

}  // namespace folio::cli
