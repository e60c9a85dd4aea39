// SPDX-License-Identifier: Apache-2.0
/// cli/main.cpp: the command `folio`. Exit status: 0 success, 1 a verification failed, 2 anything
/// else that went wrong, output that is lost included.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <sstream>

#include "capacity/capacity.h"
#include "directory/cache.h"
#include "load/options.h"
#include "parts/machine.h"
#include "parts/streams.h"
#include "replay_command.h"
#include "transfer/transfer_bench.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app{"Tools around folio, a paged KV cache and attention over it", "folio"};
  app.require_subcommand(1);
  folio::cli::ReplayOptions options;
  CLI::App* const replay =
      app.add_subcommand("replay", "Replay a request trace through pool, append and attention");
  folio::cli::add_replay_options(*replay, options);
  folio::cli::CapacityOptions plan;
  CLI::App* const capacity =
      app.add_subcommand("plan-capacity", "Hit rate and memory against the size of the pool");
  folio::cli::add_capacity_options(*capacity, plan);
  folio::cli::CacheOptions cache;
  CLI::App* const directory =
      app.add_subcommand("cache", "Look at a disk tier's directory, check it or compact it");
  folio::cli::add_cache_options(*directory, cache);
  folio::cli::TransferBenchOptions transfer;
  CLI::App* const bench =
      app.add_subcommand("transfer-bench", "Pages from one process to another, and how fast");
  folio::cli::add_transfer_bench_options(*bench, transfer);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream help, mistake;
    const int status = app.exit(error, help, mistake);
    folio::cli::show(help.str());
    folio::cli::tell(mistake.str());
    return status == 0 ? 0 : 2;
  }
  options.output.command = plan.output.command = folio::cli::command_line(argc, argv);
  const char* command = "replay";
  folio::Status status;
  if (capacity->parsed()) {
    command = "plan-capacity";
    status = folio::cli::plan_capacity(plan);
  } else if (directory->parsed()) {
    command = "cache";
    status = folio::cli::run_cache(cache);
  } else if (bench->parsed()) {
    command = "transfer-bench";
    status = folio::cli::transfer_bench(transfer);
  } else {
    status = folio::cli::replay(options);
  }
  if (status.is_ok()) return 0;
  folio::cli::tell(fmt::format("folio {}: {}\n", command, status.message()));
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
