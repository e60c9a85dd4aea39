// SPDX-License-Identifier: Apache-2.0
/// cli/transfer/transfer_bench_options.cpp: what `folio transfer-bench` may be told.
#include "transfer/transfer_bench.h"

namespace folio::cli {

void add_transfer_bench_options(CLI::App& app, TransferBenchOptions& options) {
  constexpr int64_t most = int64_t{1} << 32;
  app.add_option("--transport", options.transport, "shared-memory, ucx or nixl")
      ->capture_default_str();
  app.add_option("--ucx-transports", options.ucx_transports, "As UCX_TLS; empty: UCX chooses")
      ->capture_default_str();
  app.add_option("--nixl-library", options.nixl_library, "Path of libnixl_capi.so");
  app.add_option("--page-bytes", options.page_bytes)
      ->check(CLI::Range(int64_t{8}, most))
      ->capture_default_str();
  app.add_option("--pages", options.pages, "Of a transfer")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Transfers, one after another")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--json", options.json, "Write the figures to this file");
}

}  // namespace folio::cli
