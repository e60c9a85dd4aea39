// SPDX-License-Identifier: Apache-2.0
/// tests/support/sanitized.h: whether this build runs under a sanitizer that needs the address
/// space for its shadow memory, and whether it is the one that looks at threads.
#pragma once

namespace folio::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#elif defined(__has_feature)
inline constexpr bool is_sanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool is_sanitized = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool is_thread_sanitized = true;
#elif defined(__has_feature)
inline constexpr bool is_thread_sanitized = __has_feature(thread_sanitizer);
#else
inline constexpr bool is_thread_sanitized = false;
#endif

}  // namespace folio::test
