// SPDX-License-Identifier: Apache-2.0
/// pool/outside/shared_word.h: words that the scheduler writes and that readers read meanwhile.
///
/// One thread writes, with release; others read, with acquire; the writer itself reads plainly.
/// On x86 these are plain moves, on aarch64 stlr and ldar. So what a reader sees in a word makes it
/// see everything that was written before that word, and a word that is read later is at least as
/// new: orders of reading and writing are all that the protocols on top need, and no fences.
#pragma once

#include <atomic>

namespace folio::inline v1::pool {

template <class T>
void publish(T& word, std::type_identity_t<T> value) noexcept {
  std::atomic_ref<T>(word).store(value, std::memory_order_release);
}

template <class T>
[[nodiscard]] T observe(const T& word) noexcept {
  return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_acquire);
}

}  // namespace folio::inline v1::pool
