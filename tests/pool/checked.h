// SPDX-License-Identifier: Apache-2.0
/// tests/pool/checked.h: calls that a property takes for successes.
#pragma once

#include <string_view>
#include <utility>

#include <rapidcheck.h>

#include "folio/core/status.h"

namespace folio::test {

/// The value; an error fails the property with its message.
template <class T>
T checked(Result<T> result) {
  RC_ASSERT(result.error().message() == std::string_view());
  return std::move(*result);
}

inline void checked(const Status& status) { RC_ASSERT(status.message() == std::string_view()); }

}  // namespace folio::test
