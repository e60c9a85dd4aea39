// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/observers.h: functions of an EventPublisher that pools and tiers call without
/// Python.
#pragma once

#include <memory>

#include "../errors.h"
#include "folio/pool/events.h"
#include "folio/tier/tier.h"

namespace folio::python {

/// A function of a publisher's, and what keeps that alive.
template <class Function>
struct ObserverOf {
  Function function;
  nb::object publisher;
  std::weak_ptr<const void> user = {};

  /// What its user holds as long as it may call the function. Throws Error while there is another.
  [[nodiscard]] std::shared_ptr<const void> take(const char* argument) {
    if (!user.expired())
      throw Error(fail(Errc::busy, "{}: another has it, expected one of its own", argument));
    auto use = std::make_shared<const char>();
    user = use;
    return use;
  }
};
/// Of EventPublisher.add_pool and add_tier.
struct PoolObserver : ObserverOf<EventFunction> {};
struct TierObserver : ObserverOf<tier::TierObserver> {};

}  // namespace folio::python
