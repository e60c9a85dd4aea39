// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/bank_conflicts.h: how often ordinary accesses to shared memory go over the
/// banks, of which there are 32, four bytes wide.
///
/// Emulated lanes do not run together, so the accesses of a warp are put together afterwards: the
/// i-th of each lane since the last collective, where it stands at the same place of the source.
/// Accesses of 8 bytes go in two halves of the warp, of 16 bytes in quarters. Lanes that read the
/// same word share it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "folio/testing/cta/world.h"

namespace folio::inline v1::emulator::cta {

/// Passes over the banks that `count` lanes need for `bytes` bytes each, at these addresses.
[[nodiscard]] inline int bank_passes(const uint32_t* addresses, int count, int bytes) {
  std::array<std::array<uint32_t, 32>, 32> words;  // [bank]: different words
  std::array<int, 32> used{};
  int passes = 1;
  for (int i = 0; i < count; ++i) {
    for (uint32_t at = addresses[i] & ~3u; at < addresses[i] + static_cast<uint32_t>(bytes);
         at += 4) {
      const size_t bank = at / 4 % 32;
      auto& there = words[bank];
      const auto end = there.begin() + used[bank];
      if (std::find(there.begin(), end, at) != end) continue;
      there[static_cast<size_t>(used[bank]++)] = at;
      passes = std::max(passes, used[bank]);
    }
  }
  return passes;
}

/// Counts the accesses of a warp since its last collective, and forgets them.
inline void count_bank_conflicts(GridCounts& counts, ThreadState* lanes) {
  size_t most = 0;
  for (int i = 0; i < 32; ++i) most = std::max(most, lanes[i].bank_accesses.size());
  for (size_t n = 0; n < most; ++n) {
    uint32_t left = ~0u;  // lanes not yet counted
    for (int first = 0; first < 32; ++first) {
      if ((left >> first & 1u) == 0 || lanes[first].bank_accesses.size() <= n) continue;
      const BankAccess& access = lanes[first].bank_accesses[n];
      const int together = access.bytes == 16 ? 8 : access.bytes == 8 ? 16 : 32;
      for (int begin = 0; begin < 32; begin += together) {
        std::array<uint32_t, 32> addresses;
        int count = 0;
        for (int i = std::max(begin, first); i < begin + together; ++i) {
          if ((left >> i & 1u) == 0 || lanes[i].bank_accesses.size() <= n ||
              !lanes[i].bank_accesses[n].is_together(access))
            continue;
          addresses[static_cast<size_t>(count++)] = lanes[i].bank_accesses[n].at;
          left &= ~(1u << i);
        }
        if (count > 0)
          counts.shared_extra_passes += bank_passes(addresses.data(), count, access.bytes) - 1;
      }
      ++counts.shared_accesses;
    }
  }
  for (int i = 0; i < 32; ++i) lanes[i].bank_accesses.clear();
}

}  // namespace folio::inline v1::emulator::cta
