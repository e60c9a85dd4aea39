// SPDX-License-Identifier: Apache-2.0
/// pool/eviction/policies.h: the policies of eviction: a row each.
///
/// A policy has a class, a number (`Eviction`), a name (`eviction_names`) and its row here; what
/// lacks one of these does not compile, nor does the C interface without its number.
#pragma once

#include <cstddef>
#include <iterator>
#include <variant>

#include "folio/pool/page_pool.h"
#include "pool/eviction/cost_eviction.h"
#include "pool/eviction/eviction.h"

namespace folio::inline v1::pool {

/// The policy of a pool.
using AnyPolicy = std::variant<Lru, S3Fifo, AgedLfu, AgedCost>;

struct PolicyRow {
  Eviction eviction;
  EvictionPolicy* (*make)(AnyPolicy& into, const PolicyMemory& memory) noexcept;
  bool has_ghosts = false;
};

template <class Policy>
EvictionPolicy* make_policy(AnyPolicy& into, const PolicyMemory& memory) noexcept {
  Policy& policy = into.emplace<Policy>();
  policy.attach(memory);
  return &policy;
}

/// By number.
inline constexpr PolicyRow policies[] = {
    {Eviction::lru, make_policy<Lru>},
    {.eviction = Eviction::s3_fifo, .make = make_policy<S3Fifo>, .has_ghosts = true},
    {Eviction::lfu, make_policy<AgedLfu>},
    {Eviction::cost, make_policy<AgedCost>},
};

/// Whether every number has a row and a name, and no row is another's.
constexpr bool policies_are_whole() noexcept {
  for (size_t i = 0; i < std::size(policies); ++i) {
    if (static_cast<size_t>(policies[i].eviction) != i || eviction_names[i].empty()) return false;
  }
  return std::size(policies) == std::size(eviction_names) &&
         std::size(policies) == std::variant_size_v<AnyPolicy>;
}
static_assert(policies_are_whole());

[[nodiscard]] constexpr const PolicyRow& policy_of(Eviction eviction) noexcept {
  return policies[static_cast<size_t>(eviction)];
}

}  // namespace folio::inline v1::pool
