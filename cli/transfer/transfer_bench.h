// SPDX-License-Identifier: Apache-2.0
/// cli/transfer/transfer_bench.h: how fast pages go from one process to another, and whether
/// rightly.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "folio/core/status.h"

namespace folio::cli {

struct TransferBenchOptions {
  std::string transport = "shared-memory";
  std::string ucx_transports = "tcp";
  std::string nixl_library = {};
  int64_t page_bytes = 65'536;
  int64_t pages = 1'024;
  int64_t rounds = 16;
  std::string json = {};  ///< file; empty: none
};

void add_transfer_bench_options(CLI::App& app, TransferBenchOptions& options);

/// Prints a line for writes and one for reads. Errors: invalid_argument naming the option;
/// unsupported without the transport; io where a transfer or the file fails; internal for a wrong
/// byte
[[nodiscard]] Status transfer_bench(const TransferBenchOptions& options);

}  // namespace folio::cli
