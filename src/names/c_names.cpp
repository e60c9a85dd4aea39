// SPDX-License-Identifier: Apache-2.0
/// names/c_names.cpp: SHA-256 names through the C interface.
///
/// The library stands beside `folio`, whose own conversions (src/c) it cannot see.
#include "folio/names/c_names.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "folio/names/sha256_names.h"

struct folio_sha256_names {
  folio::Sha256Names names;
};

namespace folio::inline v1::names {
namespace {

constexpr int64_t count_max = 0x7fffffff;  // of anything in a page

static_assert(sizeof(folio_content_span) == sizeof(ContentSpan) &&
              alignof(folio_content_span) == alignof(ContentSpan) &&
              offsetof(folio_content_span, hash) == offsetof(ContentSpan, hash));

/// The caller's struct, as long as it is. Errors: as those of every struct of the C interface.
template <class T>
Status read(const char* function, const char* argument, const T* from, T& whole) noexcept {
  constexpr uint32_t size = sizeof(T), size_max = 1U << 16;
  const uint32_t given = from == nullptr ? 0 : from->struct_size;
  if (from == nullptr) return fail(Errc::invalid_argument, "{}: {} is null", function, argument);
  if (given < sizeof given || given > size_max)
    return fail(Errc::invalid_argument, "{}: {}->struct_size is {}, expected sizeof of the struct",
                function, argument, given);
  std::memcpy(&whole, from, std::min(given, size));
  if constexpr (requires { whole.reserved; }) {
    if (whole.reserved != 0)
      return fail(Errc::invalid_argument, "{}: {}->reserved is {}, expected 0", function, argument,
                  whole.reserved);
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  if (given <= size || std::all_of(bytes + size, bytes + given, [](auto b) { return b == 0; }))
    return {};
  return fail(Errc::unsupported,
              "{}: {}->struct_size is {}, {} are known here, and the rest is not zero", function,
              argument, given, size);
}

folio_code report(const Status& status, folio_message* message) noexcept {
  if (message != nullptr) {
    const std::string_view text = status.message();
    const size_t length = std::min(text.size(), sizeof message->text - 1);
    std::copy_n(text.data(), length, message->text);  // no text has no data
    message->text[length] = '\0';
  }
  return static_cast<folio_code>(status.code());
}

Status create(const folio_sha256_names_options* options, folio_sha256_names** names) noexcept {
  constexpr auto function = "folio_create_sha256_names";
  folio_sha256_names_options given = {};
  if (options != nullptr) {
    if (Status s = read(function, "options", options, given); !s.is_ok()) return s;
  }
  Sha256NamesOptions o;
  std::copy_n(given.fingerprint, o.fingerprint.bytes.size(), o.fingerprint.bytes.begin());
  o.header = {given.header, given.header_bytes};
  Result<Sha256Names> made = Sha256Names::create(o);
  if (!made) return made.error();
  *names = new (std::nothrow) folio_sha256_names{std::move(*made)};
  return *names != nullptr ? Status()
                           : fail(Errc::out_of_memory, "{}: no memory for the handle", function);
}

Status name_page(folio_sha256_names* names, const folio_page_content* page, folio_page_name* name) {
  constexpr auto function = "folio_name_page_by_sha256";
  if (names == nullptr || name == nullptr)
    return fail(Errc::invalid_argument, "{}: {} is null", function,
                names == nullptr ? "names" : "name");
  folio_page_content c = {};
  if (Status s = read(function, "page", page, c); !s.is_ok()) return s;
  if (std::min(c.num_tokens, c.num_spans) < 0 || std::max(c.num_tokens, c.num_spans) > count_max)
    return fail(Errc::invalid_argument,
                "{}: page->num_tokens is {}, num_spans {}, expected 0 .. {}", function,
                c.num_tokens, c.num_spans, count_max);
  PageName parent;
  if (c.parent != nullptr) std::memcpy(parent.bytes.data(), c.parent->bytes, sizeof parent.bytes);
  const PageContent content = {
      .parent = c.parent == nullptr ? nullptr : &parent,
      .tokens = {c.tokens, static_cast<size_t>(c.num_tokens)},
      .spans = {reinterpret_cast<const ContentSpan*>(c.spans), static_cast<size_t>(c.num_spans)},
      .salt = {c.salt, c.salt_bytes},
      .adapter = c.adapter};
  PageName made;
  const NameFunction own = names->names.function();
  if (Status s = own.function(own.context, content, &made); !s.is_ok()) return s;
  std::memcpy(name->bytes, made.bytes.data(), sizeof name->bytes);
  return {};
}

Status name_companion(folio_sha256_names* names, const folio_companion_content* companion,
                      folio_page_name* name) {
  constexpr auto function = "folio_name_companion_by_sha256";
  constexpr auto last_rule = static_cast<int32_t>(GroupRule::state);
  if (names == nullptr || name == nullptr)
    return fail(Errc::invalid_argument, "{}: {} is null", function,
                names == nullptr ? "names" : "name");
  folio_companion_content c = {};
  if (Status s = read(function, "companion", companion, c); !s.is_ok()) return s;
  if (c.rule < 0 || c.rule > last_rule)
    return fail(Errc::invalid_argument, "{}: companion->rule is {}, expected 0 .. {}", function,
                c.rule, last_rule);
  PageName leading;
  std::memcpy(leading.bytes.data(), c.leading.bytes, sizeof c.leading.bytes);
  const Result<PageName> made = names->names.companion(leading, c.group,
                                                       {.rule = static_cast<GroupRule>(c.rule),
                                                        .window = c.window,
                                                        .sinks = c.sinks,
                                                        .chunk = c.chunk,
                                                        .checkpoint = c.checkpoint});
  if (!made) return made.error();
  std::memcpy(name->bytes, made->bytes.data(), sizeof name->bytes);
  return {};
}

}  // namespace
}  // namespace folio::inline v1::names

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

folio_code folio_create_sha256_names(const folio_sha256_names_options* options,
                                     folio_sha256_names** names, folio_message* message) {
  if (names == nullptr)
    return names::report(fail(Errc::invalid_argument, "folio_create_sha256_names: names is null"),
                         message);
  *names = nullptr;
  return names::report(names::create(options, names), message);
}

void folio_destroy_sha256_names(folio_sha256_names* names) { delete names; }

folio_code folio_name_page_by_sha256(void* names, const folio_page_content* page,
                                     folio_page_name* name) {
  return static_cast<folio_code>(
      names::name_page(static_cast<folio_sha256_names*>(names), page, name).code());
}

folio_code folio_name_companion_by_sha256(void* names, const folio_companion_content* companion,
                                          folio_page_name* name) {
  return static_cast<folio_code>(
      names::name_companion(static_cast<folio_sha256_names*>(names), companion, name).code());
}
