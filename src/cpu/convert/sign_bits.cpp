// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/sign_bits.cpp: bit 23 of the outputs of MT19937.
#include "cpu/convert/sign_bits.h"

#include <atomic>
#include <random>

namespace folio::inline v1 {
namespace {

/// Signs that stay: of the first seeds that are asked for.
struct Kept {
  std::atomic<uint32_t> seed = 0;  // 0: of none yet
  std::atomic<bool> is_made = false;
  SignBits bits = {};
};
constinit Kept all_kept[16] = {};

void make(uint32_t seed, SignBits& bits) noexcept {
  std::mt19937 twister(seed);
  for (float& sign : bits.of) sign = (twister() >> 23 & 1u) == 0 ? 1.0f : -1.0f;
}

}  // namespace

const SignBits& sign_bits(uint32_t seed, SignBits& own) noexcept {
  for (Kept& kept : all_kept) {
    uint32_t found = kept.seed.load(std::memory_order_relaxed);
    if (found == 0 && kept.seed.compare_exchange_strong(found, seed, std::memory_order_relaxed)) {
      make(seed, kept.bits);
      kept.is_made.store(true, std::memory_order_release);
      return kept.bits;
    }
    if (found != seed) continue;
    if (kept.is_made.load(std::memory_order_acquire)) return kept.bits;
    break;  // another thread is about to make them
  }
  make(seed, own);
  return own;
}

}  // namespace folio::inline v1
