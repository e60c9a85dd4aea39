// SPDX-License-Identifier: Apache-2.0
/// tests/core/visit_dtype_test.cpp: folio/core/visit_dtype.h as a caller has it who knows this
/// header alone: the type of each dtype, what comes back, and what is refused.
#include "folio/core/visit_dtype.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace stranger {
namespace {

using folio::DType;
using folio::Errc;
using folio::Result;
using folio::Status;
using folio::visit_dtype;

constexpr DType with_elements[] = {DType::f32,     DType::f16,     DType::bf16, DType::f8_e4m3,
                                   DType::f8_e5m2, DType::f8_e8m0, DType::i8};
/// As a file or a socket may bring it.
constexpr DType hostile(int value) { return static_cast<DType>(value); }

template <class T>
void fill(void* data, int count, float value) {
  for (int i = 0; i < count; ++i) static_cast<T*>(data)[i] = folio::from_float<T>(value);
}

TEST(VisitDtype, gives_each_dtype_its_element_type) {
  for (const DType dtype : with_elements) {
    int calls = 0;
    const Status status = visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
      ++calls;
      EXPECT_EQ(folio::dtype_of<T>, dtype);
      EXPECT_EQ(sizeof(T) * 8, static_cast<size_t>(folio::bit_width(dtype)));
    });
    EXPECT_TRUE(status.is_ok()) << status.message();
    EXPECT_EQ(calls, 1) << name(dtype);
  }
}

TEST(VisitDtype, serves_an_array_whose_type_is_known_at_run_time) {
  for (const DType dtype : with_elements) {
    std::vector<float> memory(8, -1.0f);
    ASSERT_TRUE(visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
                  fill<T>(memory.data(), 8, 2.0f);
                }).is_ok());
    const Result<float> sum = visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
      float s = 0.0f;
      for (int i = 0; i < 8; ++i)
        s += folio::to_float(reinterpret_cast<const T*>(memory.data())[i]);
      return s;
    });
    EXPECT_EQ(sum.value(), 16.0f) << name(dtype);
  }
}

TEST(VisitDtype, hands_on_what_f_returns_or_throws) {
  const auto failing = [](auto) { return fail(Errc::io, "disk {} is full", 3); };
  const Status failed = visit_dtype(DType::i8, failing);
  EXPECT_EQ(failed.code(), Errc::io);
  EXPECT_EQ(failed.message(), "disk 3 is full");
  const Result<int> joined =
      visit_dtype(DType::bf16, [](auto) { return Result<int>(7); });  // not Result<Result<int>>
  EXPECT_EQ(joined.value(), 7);
  auto moved = visit_dtype(DType::f32, [](auto) { return std::make_unique<int>(5); });
  EXPECT_EQ(**moved, 5);
  EXPECT_THROW(
      static_cast<void>(visit_dtype(DType::f32, [](auto) { throw std::out_of_range("f"); })),
      std::out_of_range);
}

TEST(VisitDtype, refuses_what_is_no_dtype_and_what_has_no_element_type) {
  const auto refusal = [](DType dtype) {
    return visit_dtype(dtype, [](auto) { ADD_FAILURE() << "called"; });
  };
  constexpr const char* expected = ", expected f32, f16, bf16, f8_e4m3, f8_e5m2, f8_e8m0 or i8";
  for (int value = 0; value < 256; ++value) {
    if (value >= static_cast<int>(DType::f32) && value <= static_cast<int>(DType::i8)) continue;
    const Status status = refusal(hostile(value));
    const bool is_dtype = value != 0 && value < folio::detail::num_dtypes;
    EXPECT_EQ(status.code(), is_dtype ? Errc::unsupported : Errc::invalid_argument) << value;
    const std::string what =
        is_dtype ? std::string(name(hostile(value))) + ", whose elements have no C++ type"
                 : std::to_string(value) + ", which is none";
    EXPECT_EQ(status.message(), "visit_dtype: dtype is " + what + expected);
  }
}

}  // namespace
}  // namespace stranger
