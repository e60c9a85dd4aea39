// SPDX-License-Identifier: Apache-2.0
/// src/core/status.cpp: where messages are made; nothing here runs on success.
#include "folio/core/status.h"

#include <cstdio>
#include <cstring>
#include <new>

namespace folio::inline v1 {
namespace {

/// One allocation: this header, then the text and a terminating zero (what() needs it).
struct Rep {
  Errc code;
  bool heap;
  int64_t bytes;
  const char* text;
};

constexpr char no_memory_text[] = "out of memory";
const Rep no_memory{Errc::out_of_memory, false, sizeof(no_memory_text) - 1, no_memory_text};

void* new_rep(Errc code, const char* text, size_t bytes) noexcept {
  void* memory = ::operator new(sizeof(Rep) + bytes + 1, std::nothrow);
  if (memory == nullptr) return const_cast<Rep*>(&no_memory);
  char* copy = static_cast<char*>(memory) + sizeof(Rep);
  if (bytes != 0) std::memcpy(copy, text, bytes);
  copy[bytes] = '\0';
  return ::new (memory) Rep{code, true, static_cast<int64_t>(bytes), copy};
}

const Rep& rep_of(const void* rep) { return *static_cast<const Rep*>(rep); }

/// A message under construction; what does not fit is cut off.
class Text {
 public:
  void append(std::string_view s) noexcept {
    const size_t n = s.size() < sizeof(buffer_) - used_ ? s.size() : sizeof(buffer_) - used_;
    if (n != 0) std::memcpy(buffer_ + used_, s.data(), n);
    used_ += n;
  }
  void append_value(const detail::MessageArg& arg) noexcept {
    char digits[40];
    switch (arg.kind) {
      case detail::MessageArg::Kind::text:
        if (arg.text == nullptr) return append("(null)");
        append(arg.text_bytes < 0
                   ? std::string_view(arg.text)
                   : std::string_view(arg.text, static_cast<size_t>(arg.text_bytes)));
        return;
      case detail::MessageArg::Kind::integer:
        std::snprintf(digits, sizeof digits, "%lld", static_cast<long long>(arg.integer));
        break;
      case detail::MessageArg::Kind::real:
        std::snprintf(digits, sizeof digits, "%g", arg.real);
        break;
    }
    append(digits);
  }
  [[nodiscard]] const char* data() const noexcept { return buffer_; }
  [[nodiscard]] size_t size() const noexcept { return used_; }

 private:
  char buffer_[1024];
  size_t used_ = 0;
};

}  // namespace

const char* name(Errc code) noexcept {
  switch (code) {
    case Errc::ok: return "ok";
    case Errc::invalid_argument: return "invalid_argument";
    case Errc::unsupported: return "unsupported";
    case Errc::out_of_pages: return "out_of_pages";
    case Errc::out_of_memory: return "out_of_memory";
    case Errc::busy: return "busy";
    case Errc::io: return "io";
    case Errc::device: return "device";
    case Errc::internal: return "internal";
  }
  return "internal";
}

void* Status::make(Errc code, std::string_view message) noexcept {
  return code == Errc::ok ? nullptr : new_rep(code, message.data(), message.size());
}

void* Status::copy(const void* rep) noexcept {
  const Rep& r = rep_of(rep);
  return r.heap ? new_rep(r.code, r.text, static_cast<size_t>(r.bytes)) : const_cast<void*>(rep);
}

void Status::destroy(void* rep) noexcept {
  if (rep_of(rep).heap) ::operator delete(rep);
}

Errc Status::code_of(const void* rep) noexcept { return rep_of(rep).code; }

std::string_view Status::message_of(const void* rep) noexcept {
  const Rep& r = rep_of(rep);
  return {r.text, static_cast<size_t>(r.bytes)};
}

Status Status::format(Errc code, const char* format, const detail::MessageArg* args,
                      int count) noexcept {
  Text text;
  int next = 0;
  for (const char* p = format; *p != '\0';) {
    if (p[0] == '{' && p[1] == '}' && next < count) {
      text.append_value(args[next++]);
      p += 2;
    } else {
      text.append(std::string_view(p++, 1));
    }
  }
  return {code, std::string_view(text.data(), text.size())};
}

Status Status::no_reason() noexcept {
  return {Errc::internal, "Result: made from a status that is no failure"};
}

void Status::throw_error(const Status& status) { throw Error(status); }

Error::~Error() = default;

const char* Error::what() const noexcept {
  return status_.is_ok() ? "ok" : status_.message().data();
}

}  // namespace folio::inline v1
