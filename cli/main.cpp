// SPDX-License-Identifier: Apache-2.0
/// cli/main.cpp: the command `folio`. Exit status: 0 success, 1 a verification failed, 2 anything
/// else that went wrong, output that is lost included.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <functional>
#include <sstream>
#include <utility>
#include <vector>

#include "capacity/capacity.h"
#include "directory/cache.h"
#include "load/options.h"
#include "parts/machine.h"
#include "parts/streams.h"
#include "replay_command.h"
#include "transfer/transfer_bench.h"
#include "watch/watch.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app{"Tools around folio, a paged KV cache and attention over it", "folio"};
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, std::function<folio::Status()>>> commands;
  const auto add = [&](const char* name, const char* description, auto add_options, auto& options,
                       auto command) {
    CLI::App* const added = app.add_subcommand(name, description);
    add_options(*added, options);
    commands.emplace_back(added, [&options, command] { return command(options); });
  };
  using namespace folio::cli;
  ReplayOptions options;
  add("replay", "Replay a request trace through pool, append and attention", add_replay_options,
      options, replay);
  CapacityOptions plan;
  add("plan-capacity", "Hit rate and memory against the size of the pool", add_capacity_options,
      plan, plan_capacity);
  CacheOptions cache;
  add("cache", "Look at a disk tier's directory, check it or compact it", add_cache_options, cache,
      run_cache);
  TransferBenchOptions transfer;
  add("transfer-bench", "Pages from one process to another, and how fast",
      add_transfer_bench_options, transfer, transfer_bench);
  WatchOptions watched;
  add("watch", "Follow an engine: prefixes, media and hits, in the terminal and as a page",
      add_watch_options, watched, watch);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream help, mistake;
    const int status = app.exit(error, help, mistake);
    show(help.str());
    tell(mistake.str());
    return status == 0 ? 0 : 2;
  }
  options.output.command = plan.output.command = command_line(argc, argv);
  const auto& [app_of_command, run_command] = *std::find_if(
      commands.begin(), commands.end(), [](const auto& c) { return c.first->parsed(); });
  const folio::Status status = run_command();
  if (status.is_ok()) return 0;
  tell(fmt::format("folio {}: {}\n", app_of_command->get_name(), status.message()));
  return status.code() == folio::Errc::internal ? 1 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  folio::cli::prepare_streams();
  int exit_status = 2;
  try {
    exit_status = run(argc, argv);
  } catch (const std::exception& error) {  // no memory, or a library that throws
    folio::cli::tell("folio: ");
    folio::cli::tell(error.what());
    folio::cli::tell("\n");
  }
  const folio::Status status = folio::cli::finish_output();
  if (status.is_ok()) return exit_status;
  folio::cli::tell(fmt::format("folio: {}\n", status.message()));
  return exit_status == 0 ? 2 : exit_status;
}
