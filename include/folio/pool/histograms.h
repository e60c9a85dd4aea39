// SPDX-License-Identifier: Apache-2.0
/// folio/pool/histograms.h: how long cached pages live, and how far apart their uses are.
///
/// The pool has no clock: ages are counted in *pages taken*, the pages that the pool has given out
/// for new content since it was created. They can be compared with `num_pages`: content that is
/// reused after n pages taken would have been kept by a pool of some n pages.
#pragma once

#include <cstdint>

namespace folio::inline v1::pool {

/// Counts of values by their number of bits: bucket 0 has the value 0, bucket b those from
/// 2^(b - 1) to 2^b - 1, and the last one whatever is larger.
struct PoolHistogram {
  static constexpr int num_buckets = 40;
  int64_t counts[num_buckets] = {};
  int64_t sum = 0;  ///< of the values
  bool operator==(const PoolHistogram&) const = default;
};

struct PoolHistograms {
  PoolHistogram lifetime;  ///< of evicted pages: since their content was stored in them
  PoolHistogram idle;      ///< of evicted pages: since a sequence last found or gave them up
  PoolHistogram reuse;     ///< of pages that a prompt found: since the use before
  bool operator==(const PoolHistograms&) const = default;
};

}  // namespace folio::inline v1::pool

namespace folio::inline v1 {  // flat names, for one release
using pool::PoolHistogram;
using pool::PoolHistograms;
}  // namespace folio::inline v1
