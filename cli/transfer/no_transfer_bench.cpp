// SPDX-License-Identifier: Apache-2.0
/// cli/transfer/no_transfer_bench.cpp: in a build without tiers.
#include "transfer/transfer_bench.h"

namespace folio::cli {

Status transfer_bench(const TransferBenchOptions&) {
  return fail(Errc::unsupported, "this build has no tiers (Debian: libisal-dev)");
}

}  // namespace folio::cli
