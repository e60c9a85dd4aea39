// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/tier_options.cpp: digests, names and the options of all tiers.
#include "tier_options.h"

#include <algorithm>

#include "../bindings.h"
#include "../pool_functions.h"
#include "page_arrays.h"

namespace folio::python {

Digest256 digest_of(const nb::bytes& given, const char* argument) {
  Digest256 digest;
  if (given.size() > digest.bytes.size())
    refuse_argument("{}: expected at most {} bytes, got {}", argument, digest.bytes.size(),
                    given.size());
  std::copy_n(reinterpret_cast<const uint8_t*>(given.c_str()), given.size(), digest.bytes.begin());
  return digest;
}

std::vector<PageName> names_of(nb::handle given, const char* argument) {
  if (!nb::isinstance<nb::sequence>(given) || nb::isinstance<nb::bytes>(given))
    refuse_argument("{}: expected a sequence of bytes", argument);
  const auto list = nb::borrow<nb::sequence>(given);
  const std::string what = std::string(argument) + ": expected names of";
  std::vector<PageName> names;
  names.reserve(nb::len(list));
  for (const nb::handle name : list) names.push_back(name_of(nb::borrow(name), what.c_str()));
  return names;
}

nb::bytes bytes_of_name(const PageName& name) {
  return nb::bytes(name.bytes.data(), name.bytes.size());
}

std::string fault_text(const Status& status) {
  return status.is_ok() ? std::string() : std::string(status.message());
}

tier::TierOptions CommonOptions::read(int64_t max_bytes) {
  tier::TierOptions options;
  options.max_bytes = max_bytes;
  options.fingerprint = digest_of(fingerprint, "fingerprint");
  options.threads = threads;
  options.max_queued_bytes = max_queued_bytes;
  options.max_queued_pages = max_queued_pages;
  if (!on_change.is_none()) {
    if (!nb::isinstance<TierObserver>(on_change))
      refuse_argument("on_change: expected what EventPublisher.add_tier gives, or None");
    auto& observer = nb::cast<TierObserver&>(on_change);
    observer_use = observer.take("on_change");
    options.on_change = observer.function;
  }
  return options;
}

void bind_tiers(nb::module_& m) {
  bind_page_arrays(m);
  bind_tier(m);
  bind_transports(m);
  bind_tier_kinds(m);
  bind_page_servers(m);
  bind_cache_manager(m);
  bind_handovers(m);
  bind_event_publisher(m);
  bind_event_index(m);
  bind_lmcache(m);
}

}  // namespace folio::python
