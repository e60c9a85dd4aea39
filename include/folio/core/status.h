// SPDX-License-Identifier: Apache-2.0
/// folio/core/status.h: folio's one error channel: `Status` and `Result<T>`.
///
/// Every function that can fail returns one of the two and is `noexcept`. Success is a null
/// pointer; a message is allocated only on failure, out of line. `value()` and `or_throw()` turn a
/// failure into `folio::Error` for those who like exceptions. Thread safety: distinct objects are
/// independent; one object is externally synchronised.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "folio/core/dtype.h"
#include "folio/core/export.h"

namespace folio::inline v1 {

/// Fixed values: they are part of the C ABI.
enum class Errc : uint8_t {
  ok = 0,
  invalid_argument = 1,  ///< the caller broke the contract: shape, dtype, stride, alignment, null
  unsupported = 2,       ///< understood, but no kernel does it; the message says why
  out_of_pages = 3,      ///< the pool has too few free pages; nothing has changed
  out_of_memory = 4,     ///< an allocation failed; nothing has changed
  busy = 5,              ///< still in use by an unfinished step or transfer
  io = 6,                ///< reading or writing outside memory failed
  device = 7,            ///< a CUDA or driver call failed
  internal = 8,          ///< an executor threw or left out tasks (the message says so), or an
                         ///< invariant of folio itself is broken: please report
};

FOLIO_EXPORT const char* name(Errc code) noexcept;

namespace detail {

/// One value of a message: plain data, so that callers need neither allocator nor iostream.
struct MessageArg {
  enum class Kind : uint8_t { text, integer, real } kind = Kind::text;
  const char* text = "";
  int64_t text_bytes = 0;
  int64_t integer = 0;
  double real = 0.0;

  // NOLINTBEGIN(google-explicit-constructor): `fail` takes values as they are
  MessageArg(const char* s) noexcept : text(s), text_bytes(-1) {}
  MessageArg(std::string_view s) noexcept
      : text(s.data()), text_bytes(static_cast<int64_t>(s.size())) {}
  MessageArg(DType dtype) noexcept : text(name(dtype)), text_bytes(-1) {}
  template <class I>
    requires std::is_integral_v<I>
  MessageArg(I i) noexcept : kind(Kind::integer), integer(static_cast<int64_t>(i)) {}
  MessageArg(double r) noexcept : kind(Kind::real), real(r) {}
  // NOLINTEND(google-explicit-constructor)
};

}  // namespace detail

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  /// `message` is copied. If that fails for want of memory, the status is out_of_memory with a
  /// fixed message.
  Status(Errc code, std::string_view message) noexcept : rep_(make(code, message)) {}
  Status(Status&& other) noexcept : rep_(std::exchange(other.rep_, nullptr)) {}
  Status(const Status& other) noexcept : rep_(other.rep_ == nullptr ? nullptr : copy(other.rep_)) {}
  Status& operator=(Status other) noexcept {
    std::swap(rep_, other.rep_);
    return *this;
  }
  ~Status() {
    if (rep_ != nullptr) destroy(rep_);
  }

  [[nodiscard]] bool is_ok() const noexcept { return rep_ == nullptr; }
  [[nodiscard]] explicit operator bool() const noexcept { return rep_ == nullptr; }
  [[nodiscard]] Errc code() const noexcept { return rep_ == nullptr ? Errc::ok : code_of(rep_); }
  [[nodiscard]] std::string_view message() const noexcept {
    return rep_ == nullptr ? std::string_view() : message_of(rep_);
  }
  /// Throws folio::Error if this is a failure.
  void or_throw() const {
    if (rep_ != nullptr) throw_error(*this);
  }

  /// A failure whose message is `format` with each `{}` replaced by the next argument.
  FOLIO_EXPORT static Status format(Errc code, const char* format, const detail::MessageArg* args,
                                    int count) noexcept;
  [[noreturn]] FOLIO_EXPORT static void throw_error(const Status& status);
  /// What a Result holds that was made from an ok status.
  FOLIO_EXPORT static Status no_reason() noexcept;

 private:
  FOLIO_EXPORT static void* make(Errc code, std::string_view message) noexcept;
  FOLIO_EXPORT static void* copy(const void* rep) noexcept;
  FOLIO_EXPORT static void destroy(void* rep) noexcept;
  FOLIO_EXPORT static Errc code_of(const void* rep) noexcept;
  FOLIO_EXPORT static std::string_view message_of(const void* rep) noexcept;

  void* rep_ = nullptr;
};

/// `return fail(Errc::invalid_argument, "append: k has {} heads, expected {} (from key)",
/// k.extent[1], key.num_heads);`
template <class... Args>
[[nodiscard]] Status fail(Errc code, const char* format, const Args&... args) noexcept {
  if constexpr (sizeof...(Args) == 0) {
    return Status::format(code, format, nullptr, 0);
  } else {
    const detail::MessageArg list[] = {detail::MessageArg(args)...};
    return Status::format(code, format, list, static_cast<int>(sizeof...(Args)));
  }
}

/// What `or_throw()` and `Result::value()` throw.
class FOLIO_EXPORT Error : public std::exception {
 public:
  explicit Error(Status status) noexcept : status_(std::move(status)) {}
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;
  ~Error() override;
  [[nodiscard]] const char* what() const noexcept override;
  [[nodiscard]] Errc code() const noexcept { return status_.code(); }
  [[nodiscard]] const Status& status() const noexcept { return status_; }

 private:
  Status status_;
};

/// A value or the reason why there is none: the interface of std::expected<T, Status>.
template <class T>
class [[nodiscard]] Result {
  static_assert(std::is_nothrow_move_constructible_v<T>, "Result: T moves without throwing");

 public:
  using value_type = T;
  using error_type = Status;

  // NOLINTNEXTLINE(google-explicit-constructor): so that `return value;` works
  Result(T value) noexcept : has_value_(true) { std::construct_at(&value_, std::move(value)); }
  /// `error` must be a failure; an ok status becomes Errc::internal, so that a result without a
  /// value always has a reason.
  // NOLINTNEXTLINE(google-explicit-constructor): so that `return fail(...);` works
  Result(Status error) noexcept : has_value_(false) {
    std::construct_at(&error_, error.is_ok() ? Status::no_reason() : std::move(error));
  }
  Result(Result&& other) noexcept : has_value_(other.has_value_) { take(std::move(other)); }
  Result(const Result& other)
    requires std::is_copy_constructible_v<T>
      : has_value_(other.has_value_) {
    if (has_value_) {
      std::construct_at(&value_, other.value_);
    } else {
      std::construct_at(&error_, other.error_);
    }
  }
  Result& operator=(Result other) noexcept {
    clear();
    has_value_ = other.has_value_;
    take(std::move(other));
    return *this;
  }
  ~Result() { clear(); }

  [[nodiscard]] bool has_value() const noexcept { return has_value_; }
  [[nodiscard]] explicit operator bool() const noexcept { return has_value_; }
  /// Throws folio::Error when there is no value.
  T& value() & {
    if (!has_value_) error_.or_throw();
    return value_;
  }
  const T& value() const& {
    if (!has_value_) error_.or_throw();
    return value_;
  }
  T&& value() && {
    if (!has_value_) error_.or_throw();
    return std::move(value_);
  }
  /// These four require a value.
  T& operator*() & noexcept { return value_; }
  const T& operator*() const& noexcept { return value_; }
  T&& operator*() && noexcept { return std::move(value_); }
  T* operator->() noexcept { return &value_; }
  const T* operator->() const noexcept { return &value_; }
  /// The failure; an ok status when there is a value.
  [[nodiscard]] Status error() const& noexcept { return has_value_ ? Status() : error_; }
  [[nodiscard]] Status error() && noexcept { return has_value_ ? Status() : std::move(error_); }
  template <class U>
  [[nodiscard]] T value_or(U&& other) const& {
    return has_value_ ? value_ : static_cast<T>(std::forward<U>(other));
  }
  template <class U>
  [[nodiscard]] T value_or(U&& other) && {
    return has_value_ ? std::move(value_) : static_cast<T>(std::forward<U>(other));
  }
  /// f(value) -> Result<U>, or this failure.
  template <class F>
  auto and_then(F&& f) && -> std::invoke_result_t<F, T&&> {
    if (!has_value_) return std::move(error_);
    return std::forward<F>(f)(std::move(value_));
  }
  /// f(value) -> U wrapped, or this failure.
  template <class F>
  auto transform(F&& f) && -> Result<std::invoke_result_t<F, T&&>> {
    if (!has_value_) return std::move(error_);
    return std::forward<F>(f)(std::move(value_));
  }
  void or_throw() const {
    if (!has_value_) error_.or_throw();
  }

 private:
  void take(Result&& other) noexcept {
    if (has_value_) {
      std::construct_at(&value_, std::move(other.value_));
    } else {
      std::construct_at(&error_, std::move(other.error_));
    }
  }
  void clear() noexcept {
    if (has_value_) {
      std::destroy_at(&value_);
    } else {
      std::destroy_at(&error_);
    }
  }

  bool has_value_;
  union {
    T value_;
    Status error_;
  };
};

}  // namespace folio::inline v1
