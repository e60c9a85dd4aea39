// SPDX-License-Identifier: Apache-2.0
/// tests/tier/hostile/refusals.h: what callers should not give, and what they are told then.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "folio/core/status.h"

namespace folio::test {

inline constexpr int64_t least_int64 = std::numeric_limits<int64_t>::min();
inline constexpr int64_t most_int64 = std::numeric_limits<int64_t>::max();
inline constexpr int32_t least_int32 = std::numeric_limits<int32_t>::min();
inline constexpr int32_t most_int32 = std::numeric_limits<int32_t>::max();

/// No memory that has a size.
template <class T>
std::span<T> null_span(size_t size = 3) {
  return {static_cast<T*>(nullptr), size};
}
inline std::string_view null_text(size_t size = 3) {
  return {static_cast<const char*>(nullptr), size};
}
/// Text with a 0 in it.
inline constexpr std::string_view cut_text{"a\0b", 3};

inline void expect_refusal(const Status& status, std::string_view part,
                           Errc code = Errc::invalid_argument) {
  EXPECT_EQ(status.code(), code) << part;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(std::string(part)));
}
template <class T>
void expect_refusal(const Result<T>& result, std::string_view part,
                    Errc code = Errc::invalid_argument) {
  ASSERT_FALSE(result.has_value()) << part;
  expect_refusal(result.error(), part, code);
}

}  // namespace folio::test
