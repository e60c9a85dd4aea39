// SPDX-License-Identifier: Apache-2.0
/// pool/outside/shared_ring.h: the last few of a row of numbered values: one thread writes, without
/// waiting for anybody, and any number of others read.
///
/// A slot has a stamp: the number of its value, or 0 while it is written. A reader takes a value
/// only if the stamp is the number that it wants before and after. It cannot take a mixture: the
/// writer clears the stamp before it writes any word, so whoever sees a new word sees the cleared
/// stamp, or a later one, behind it.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "pool/outside/shared_word.h"

namespace folio::inline v1::pool {

/// What a reader of a ring finds.
enum class Found : uint8_t { value, not_yet, overwritten };

template <class T>
class SharedRing {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);
  static constexpr size_t num_words = sizeof(T) / sizeof(uint64_t);

 public:
  struct Slot {
    uint64_t stamp = 0;
    uint64_t words[num_words] = {};
  };

  void attach(Slot* slots, uint32_t capacity) noexcept {
    slots_ = slots;
    capacity_ = capacity;
  }
  [[nodiscard]] uint32_t capacity() const noexcept { return capacity_; }

  /// Value number newest() + 1.
  void push(const T& value) noexcept {
    uint64_t words[num_words];
    std::memcpy(words, &value, sizeof value);
    Slot& slot = slots_[place_];
    place_ = place_ + 1 == capacity_ ? 0 : place_ + 1;
    publish(slot.stamp, 0);
    for (size_t i = 0; i < num_words; ++i) publish(slot.words[i], words[i]);
    publish(slot.stamp, newest_ + 1);
    publish(newest_, newest_ + 1);
  }

  /// The number of the last value, 0 without one. Any thread.
  [[nodiscard]] uint64_t newest() const noexcept { return observe(newest_); }

  /// Value `number` >= 1. Any thread.
  [[nodiscard]] Found read(uint64_t number, T& value) const noexcept {
    if (number > newest()) return Found::not_yet;
    const Slot& slot = slots_[(number - 1) % capacity_];
    uint64_t words[num_words];
    if (observe(slot.stamp) != number) return Found::overwritten;
    for (size_t i = 0; i < num_words; ++i) words[i] = observe(slot.words[i]);
    if (observe(slot.stamp) != number) return Found::overwritten;
    std::memcpy(&value, words, sizeof value);
    return Found::value;
  }

 private:
  Slot* slots_ = nullptr;
  uint64_t newest_ = 0;
  uint32_t capacity_ = 0, place_ = 0;
};

}  // namespace folio::inline v1::pool
