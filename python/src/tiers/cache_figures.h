// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/cache_figures.h: figures and counters as dictionaries.
#pragma once

#include <nanobind/nanobind.h>

#include "folio/tier/cache_manager.h"
#include "folio/tier/tier.h"
#include "folio/tier/transfer.h"

namespace folio::python {

namespace nb = nanobind;

/// {name of each of an enumeration's values: count}.
template <class Enum, int N>
nb::dict counts_by_name(const int64_t (&counts)[N]) {
  nb::dict out;
  for (int i = 0; i < N; ++i) out[tier::name(static_cast<Enum>(i))] = counts[i];
  return out;
}

nb::dict figures_of(const tier::TierFigures& figures);
nb::dict figures_of(const tier::CacheManagerFigures& figures);
nb::dict counters_of(const tier::TierCounters& counters);

}  // namespace folio::python
