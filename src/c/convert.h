// SPDX-License-Identifier: Apache-2.0
/// src/c/convert.h: from the structs of the C interface to those of folio, and from Status to code
/// and message.
#pragma once

#include <algorithm>
#include <cstring>

#include "folio/attention/attend.h"
#include "folio/c/folio.h"
#include "folio/cache/page_summaries.h"
#include "folio/core/element.h"
#include "folio/core/execution.h"
#include "folio/core/status.h"

namespace folio::inline v1::c {

/// Leaves the text in `message`, if there is one, and returns the code.
folio_code report(const Status& status, folio_message* message) noexcept;

[[nodiscard]] inline Status null_argument(const char* function, const char* argument) noexcept {
  return fail(Errc::invalid_argument, "{}: {} is null", function, argument);
}

/// The caller's struct, as long as it is; what it lacks keeps the value of `whole`.
/// Errors: invalid_argument for null or a struct_size that cannot be; unsupported if the caller's
/// struct is longer and not zero there.
Status read_bytes(const char* function, const char* argument, const void* from, void* whole,
                  uint32_t size) noexcept;

/// The same; words that are kept for later are 0.
template <class T>
Status read(const char* function, const char* argument, const T* from, T& whole) noexcept {
  Status s = read_bytes(function, argument, from, &whole, sizeof(T));
  whole.struct_size = sizeof(T);
  if constexpr (requires { whole.reserved; }) {
    if (s.is_ok() && whole.reserved != 0)
      return fail(Errc::invalid_argument, "{}: {}->reserved is {}, expected 0", function, argument,
                  whole.reserved);
  }
  return s;
}

/// An array of the caller's: `count_name` says how many elements it has.
/// Errors: invalid_argument for a negative count or one that no memory holds, or null elements.
Status check_array(const char* function, const char* argument, const void* elements,
                   const char* count_name, int64_t count, size_t element_bytes) noexcept;

/// Errors: invalid_argument, "<function>: <field> ...", for what is neither 0 nor 1.
Status read_flag(const char* function, const char* field, int32_t value, bool& to) noexcept;

/// A value of an enumeration that has all from 0 to `last`.
/// Errors: invalid_argument, "<function>: <field> ...", for any other.
template <class Enum>
Status read_choice(const char* function, const char* field, int32_t value, Enum last,
                   Enum& to) noexcept {
  const auto most = static_cast<int32_t>(last);
  if (value < 0 || value > most)
    return fail(Errc::invalid_argument, "{}: {} is {}, expected 0 to {}", function, field, value,
                most);
  to = static_cast<Enum>(value);
  return {};
}

/// The value, or the default where it is zero: what a caller gets who sets a struct's size alone.
template <class T>
T or_default(T value, T default_value) noexcept {
  return value == T{} ? default_value : value;
}

/// The other way: fills as much of the caller's struct as its struct_size holds.
Status write_bytes(const char* function, const char* argument, const void* whole, void* to,
                   uint32_t size) noexcept;

/// Errors: as write_bytes; unsupported if what the caller's struct has no room for is not zero.
Status check_room_bytes(const char* function, const char* argument, const void* whole,
                        const void* to, uint32_t size) noexcept;

template <class T>
Status check_room(const char* function, const char* argument, const T& whole,
                  const T* to) noexcept {
  return check_room_bytes(function, argument, &whole, to, sizeof(T));
}

template <class T>
Status write(const char* function, const char* argument, T whole, T* to) noexcept {
  return write_bytes(function, argument, &whole, to, sizeof(T));
}

/// Values outside the enumeration become `invalid`, which every check refuses.
[[nodiscard]] DType dtype_of(int32_t value) noexcept;

/// `tensor` null: an empty one.
Status convert(const char* function, const char* argument, const folio_tensor* tensor,
               AnyTensor<3>& to) noexcept;
Status convert(const char* function, const char* argument, const folio_tensor* tensor,
               ConstTensor<3>& to) noexcept;
/// `matrix` null: an empty one.
Status convert(const char* function, const char* argument, const folio_matrix* matrix,
               AnyTensor<2>& to) noexcept;
Status convert(const char* function, const char* argument, const folio_matrix* matrix,
               ConstTensor<2>& to) noexcept;
Status convert(const char* function, const char* argument, const folio_kv_view* view,
               PagedKVView& to) noexcept;
/// Errors: invalid_argument for null, of the struct or in it, too.
Status convert(const char* function, const char* argument, const folio_page_summaries* summaries,
               PageSummaries& to) noexcept;
Status convert(const char* function, const folio_batch* batch, Batch& to) noexcept;
/// The other way, whole.
[[nodiscard]] folio_batch to_c(const Batch& batch) noexcept;
[[nodiscard]] folio_tensor to_c(const ConstTensor<3>& tensor) noexcept;
/// Errors: invalid_argument for a kind that is neither FOLIO_CPU nor FOLIO_CUDA.
Result<Device> device_of(const char* function, int32_t kind, int32_t index) noexcept;

/// An Executor over the caller's; the object must outlive its use. Null: serial.
class ExecutorAdapter {
 public:
  Status init(const char* function, const folio_executor* executor) noexcept;
  [[nodiscard]] const Executor& get() const noexcept { return executor_; }

 private:
  folio_executor caller_ = {};
  Executor executor_ = {};
};

}  // namespace folio::inline v1::c
