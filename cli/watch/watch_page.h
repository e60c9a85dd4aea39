// SPDX-License-Identifier: Apache-2.0
/// cli/watch/watch_page.h: the page of `folio watch --page`, which asks its server for the figures.
#pragma once

#include <string>

#include "watch/watch.h"

namespace folio::cli {

std::string watch_page(const WatchOptions& options);

}  // namespace folio::cli
