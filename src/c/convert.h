// SPDX-License-Identifier: Apache-2.0
/// src/c/convert.h: from the structs of the C interface to those of folio, and from Status to code
/// and message.
#pragma once

#include <algorithm>
#include <cstring>

#include "folio/attention/attend.h"
#include "folio/c/folio.h"
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

template <class T>
Status read(const char* function, const char* argument, const T* from, T& whole) noexcept {
  Status s = read_bytes(function, argument, from, &whole, sizeof(T));
  whole.struct_size = sizeof(T);
  return s;
}

/// The other way: fills as much of the caller's struct as its struct_size holds.
Status write_bytes(const char* function, const char* argument, const void* whole, void* to,
                   uint32_t size) noexcept;

template <class T>
Status write(const char* function, const char* argument, T whole, T* to) noexcept {
  return write_bytes(function, argument, &whole, to, sizeof(T));
}

/// Values outside the enumeration become `invalid`, which every check refuses.
[[nodiscard]] DType dtype_of(int32_t value) noexcept;

/// `tensor` null: an empty one.
Status convert(const char* function, const char* argument, const folio_tensor* tensor,
               AnyTensor<3>& to) noexcept;
Status convert(const char* function, const char* argument, const folio_kv_view* view,
               PagedKVView& to) noexcept;
Status convert(const char* function, const folio_batch* batch, Batch& to) noexcept;

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
