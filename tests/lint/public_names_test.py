#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/lint/public_names_test.py: every kind of declaration is found by its name, and inner namespaces are not."""
import unittest

import public_names

HEADER = """
#pragma once
#include <map>  // struct NotThis {
#define NOR_THIS(x) \\
  struct x##_t {};
namespace folio::inline v1 {
/// struct InAComment;
enum class Colour : uint8_t { red, green };
struct FOLIO_EXPORT Plain { int member = 0; void method() {} };
class [[nodiscard]] Marked;
struct alignas(64) Aligned { const char* brace = "}"; char c = '{'; };
template <class T, int N = 2 * (3 + 1)>
  requires(N > 0)
struct Constrained { T data[N]; };
template <> struct Constrained<int, 1> {};
template <DType D> concept is_something = bit_width(D) > 8;
template <class C> concept HasMore = requires(const C c) { c.more(); } && (C::none || seen(C::more) && !C::few);
using Alias = int32_t;
inline constexpr int64_t value = std::numeric_limits<int64_t>::max();
template <class T> inline constexpr bool flag = false;
FOLIO_EXPORT Result<std::vector<int>> declared(const Batch& batch, int64_t (&extent)[3] = {}) noexcept;
[[nodiscard]] FOLIO_HOST_DEVICE constexpr int defined(int a) { return a; }
template <class T>
  requires std::is_const_v<T>
constexpr Tensor<3> constrained_function(T* data) { return {}; }
constexpr bool operator==(const Plain&, const Plain&) { return true; }
static_assert(sizeof(int) == 4);
namespace detail {
struct Hidden { int a; };
inline void hidden() {}
}  // namespace detail
struct After {};
}  // namespace folio::inline v1
namespace folio::inline v1::tma {
struct Tile {};
}  // namespace folio::inline v1::tma
"""


class Names(unittest.TestCase):
    def test_declarations_of_folio_itself_are_found(self):
        self.assertEqual(public_names.names_of(HEADER), {
            "Colour", "Plain", "Marked", "Aligned", "Constrained", "is_something", "HasMore", "Alias", "value", "flag", "declared", "defined",
            "constrained_function", "After"})


if __name__ == "__main__":
    unittest.main()
