// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_calls.h: bytes, of RapidCheck or of a fuzzer, as calls for the hybrid pool and
/// its arena.
#pragma once

#include <array>
#include <cstdint>

#include "pool/group_model.h"

namespace folio::test {

using GroupCall = std::array<uint8_t, 6>;

/// Whatever the bytes are, a call that the model can judge.
void apply(GroupModel& model, const GroupCall& call);

}  // namespace folio::test
