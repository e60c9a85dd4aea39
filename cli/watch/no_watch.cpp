// SPDX-License-Identifier: Apache-2.0
/// cli/watch/no_watch.cpp: watch.h where there is no folio::tier.
#include "watch/watch.h"

namespace folio::cli {

Status watch(const WatchOptions&) {
  return {Errc::unsupported, "this build has no tiers (Debian: libisal-dev)"};
}

}  // namespace folio::cli
