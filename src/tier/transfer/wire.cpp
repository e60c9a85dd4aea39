// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/wire.cpp: bytes of messages.
#include "tier/transfer/wire.h"

namespace folio::inline v1::tier {

void Encoder::add(const void* from, size_t count) {
  if (count == 0) return;
  const size_t before = bytes.size();
  bytes.resize(before + count);
  std::memcpy(bytes.data() + before, from, count);
}

}  // namespace folio::inline v1::tier
