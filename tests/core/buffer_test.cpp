// SPDX-License-Identifier: Apache-2.0
/// tests/core/buffer_test.cpp: memory is aligned, owned once, and refused where there is none.
#include "folio/core/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

namespace folio::test {
namespace {

static_assert(!std::is_copy_constructible_v<Buffer> && !std::is_copy_assignable_v<Buffer>);
static_assert(std::is_nothrow_move_constructible_v<Buffer>);
static_assert(std::is_nothrow_move_assignable_v<Buffer>);

TEST(Buffer, memory_is_aligned_and_as_long_as_asked_for) {
  for (const int64_t bytes : {1, 63, 64, 65, 4096, 100001}) {
    const Buffer buffer = Buffer::allocate(bytes).value();
    ASSERT_NE(buffer.data(), nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u) << bytes;
    EXPECT_EQ(buffer.bytes(), bytes);
    std::memset(buffer.data(), 0x5a, static_cast<size_t>(bytes));  // a sanitizer knows whether all
    EXPECT_EQ(buffer.span().data, buffer.data());
    EXPECT_EQ(buffer.span().bytes, bytes);
  }
}

TEST(Buffer, nothing_is_an_empty_buffer) {
  for (const Buffer& buffer : {Buffer(), Buffer::allocate(0).value()}) {
    EXPECT_EQ(buffer.data(), nullptr);
    EXPECT_EQ(buffer.span().data, nullptr);
    EXPECT_EQ(buffer.bytes(), 0);
    EXPECT_EQ(buffer.span().bytes, 0);
  }
}

TEST(Buffer, a_negative_size_is_refused) {
  for (const int64_t bytes : {int64_t{-1}, int64_t{-64}, std::numeric_limits<int64_t>::min()}) {
    const Status refused = Buffer::allocate(bytes).error();
    EXPECT_EQ(refused.code(), Errc::invalid_argument) << bytes;
    EXPECT_EQ(refused.message(),
              "Buffer::allocate: bytes is " + std::to_string(bytes) + ", expected at least 0");
  }
}

TEST(Buffer, a_size_beyond_memory_is_refused) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  for (const int64_t bytes : {most, most - 62, most - 63, most / 2 + 1, (int64_t{1} << 56) + 1}) {
    const Status refused = Buffer::allocate(bytes).error();
    EXPECT_EQ(refused.code(), Errc::out_of_memory) << bytes;
    EXPECT_EQ(refused.message(),
              "Buffer::allocate: no memory for " + std::to_string(bytes) + " bytes");
  }
}

TEST(Buffer, moving_leaves_an_empty_buffer) {
  Buffer first = Buffer::allocate(100).value();
  std::byte* const memory = first.data();
  Buffer second = std::move(first);
  // NOLINTBEGIN(bugprone-use-after-move): this is what the test is about
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_EQ(first.bytes(), 0);
  EXPECT_EQ(second.data(), memory);
  EXPECT_EQ(second.bytes(), 100);
  first = std::move(second);
  EXPECT_EQ(second.data(), nullptr);
  EXPECT_EQ(first.data(), memory);
  // NOLINTEND(bugprone-use-after-move)
  first = Buffer::allocate(8).value();  // frees what it held
  EXPECT_EQ(first.bytes(), 8);
  first = Buffer();
  EXPECT_EQ(first.data(), nullptr);
}

}  // namespace
}  // namespace folio::test
