// SPDX-License-Identifier: Apache-2.0
/// tier/manager/counters.cpp: names of reasons, and times in buckets.
#include <algorithm>
#include <limits>

#include "tier/manager/state.h"

namespace folio::inline v1::tier {

const char* name(LoadRefusal refusal) noexcept {
  switch (refusal) {
    case LoadRefusal::resting: return "resting";
    case LoadRefusal::few_pages: return "few_pages";
    case LoadRefusal::no_room: return "no_room";
    case LoadRefusal::no_pin: return "no_pin";
    case LoadRefusal::busy: return "busy";
    case LoadRefusal::failed: return "failed";
  }
  return "not a refusal";
}

const char* name(StoreRefusal refusal) noexcept {
  switch (refusal) {
    case StoreRefusal::resting: return "resting";
    case StoreRefusal::budget: return "budget";
    case StoreRefusal::no_pin: return "no_pin";
    case StoreRefusal::failed: return "failed";
    case StoreRefusal::given_up: return "given_up";
    case StoreRefusal::no_memory: return "no_memory";
    case StoreRefusal::no_spare: return "no_spare";
  }
  return "not a refusal";
}

const char* name(RestReason reason) noexcept {
  switch (reason) {
    case RestReason::failed: return "failed";
    case RestReason::late: return "late";
    case RestReason::refused: return "refused";
  }
  return "not a reason";
}

void add(LatencyHistogram& histogram, int64_t us) noexcept {
  int bucket = 0;
  while (bucket + 1 < LatencyHistogram::num_buckets && us > LatencyHistogram::bound_us(bucket))
    ++bucket;
  ++histogram.counts[bucket];
  ++histogram.count;
  histogram.sum_us +=
      std::clamp<int64_t>(us, 0, std::numeric_limits<int64_t>::max() - histogram.sum_us);
}

}  // namespace folio::inline v1::tier
