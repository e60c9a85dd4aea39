// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_calls.h: any bytes as calls of a pool that a naive model watches: for random
/// tests and for the fuzzer.
#pragma once

#include <array>
#include <cstdint>

#include "pool/pool_model.h"

namespace folio::test {

/// One call: the kind and its arguments, interpreted against what exists at that time.
using PoolCall = std::array<uint8_t, 6>;

void apply(PoolModel& model, const PoolCall& call);

/// Ends everything; nothing is held then.
void give_all_back(PoolModel& model);

}  // namespace folio::test
