// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/tier_options.h: what tiers, servers and peers are told in common.
#pragma once

#include <nanobind/nanobind.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../errors.h"
#include "folio/pool/name.h"
#include "folio/tier/tier.h"
#include "observers.h"

namespace folio::python {

/// 0 to 32 bytes; fewer stand in front of zeros.
Digest256 digest_of(const nb::bytes& given, const char* argument);
/// Names of 1 to 32 bytes each; fewer stand in front of zeros.
std::vector<PageName> names_of(nb::handle given, const char* argument);
nb::bytes bytes_of_name(const PageName& name);
/// "" where it is ok.
std::string fault_text(const Status& status);

/// The value of a word; throws Error that lists them for another one.
template <class Enum>
Enum word_of(const std::string& word, const char* argument,
             std::initializer_list<std::pair<const char*, Enum>> words) {
  std::string expected;
  for (const auto& [text, value] : words) {
    if (word == text) return value;
    expected += (expected.empty() ? "\"" : ", \"") + std::string(text) + '"';
  }
  refuse_argument("{}: expected one of {}, got \"{}\"", argument, expected, word);
}

/// The arguments that all tiers have.
struct CommonOptions {
  const nb::bytes& fingerprint;
  uint32_t threads;
  int64_t max_queued_bytes;
  uint32_t max_queued_pages;
  nb::handle on_change;
  std::shared_ptr<const void> observer_use = {};

  /// Takes `on_change` for this one.
  [[nodiscard]] tier::TierOptions read(int64_t max_bytes);
};

void bind_transports(nb::module_& m);
void bind_tier(nb::module_& m);
void bind_tier_kinds(nb::module_& m);
void bind_page_servers(nb::module_& m);
void bind_cache_manager(nb::module_& m);
void bind_handovers(nb::module_& m);
void bind_event_publisher(nb::module_& m);
void bind_event_index(nb::module_& m);
void bind_lmcache(nb::module_& m);

}  // namespace folio::python
