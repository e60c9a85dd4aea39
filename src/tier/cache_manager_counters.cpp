// SPDX-License-Identifier: Apache-2.0
#include "folio/tier/cache_manager.h"

namespace folio::inline v1 {

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
  }
  return "not a refusal";
}

}  // namespace folio::inline v1
