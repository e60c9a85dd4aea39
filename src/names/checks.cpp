// SPDX-License-Identifier: Apache-2.0
/// names/checks.cpp: the sentences of refusals.
#include "names/checks.h"

#include <cstdint>
#include <limits>

namespace folio::inline v1::names {
namespace {

constexpr size_t max_count = std::numeric_limits<int32_t>::max();

Status null_memory(const char* call, const char* argument, size_t size) {
  return fail(Errc::invalid_argument, "Sha256Names::{}: {} is null, expected memory of size {}",
              call, argument, size);
}

Status check_span(std::span<const ContentSpan> spans, size_t i, int64_t num_tokens) {
  const ContentSpan& span = spans[i];
  const int64_t end = int64_t{span.offset} + span.length;
  if (span.length < 1) {
    return fail(Errc::invalid_argument,
                "Sha256Names::page: spans[{}] has length {}, expected at least 1", i, span.length);
  }
  if (end <= 0 || span.offset >= num_tokens) {
    return fail(Errc::invalid_argument,
                "Sha256Names::page: spans[{}] is [{}, {}), expected a token of the page's [0, {})",
                i, span.offset, end, num_tokens);
  }
  if (i == 0) return {};
  const int64_t before = int64_t{spans[i - 1].offset} + spans[i - 1].length;
  if (span.offset >= before) return {};
  return fail(Errc::invalid_argument,
              "Sha256Names::page: spans[{}] begins at {}, expected {} or more (the end of the one "
              "before)",
              i, span.offset, before);
}

}  // namespace

Status moved_from(const char* call) noexcept {
  return fail(Errc::invalid_argument,
              "Sha256Names::{}: the object is moved from, expected one that hashes", call);
}

Status check_header(std::span<const uint8_t> header) noexcept {
  if (header.size() > Sha256Names::max_header_bytes) {
    return fail(Errc::invalid_argument,
                "Sha256Names::create: header has {} bytes, expected at most {}", header.size(),
                Sha256Names::max_header_bytes);
  }
  if (header.data() != nullptr || header.empty()) return {};
  return null_memory("create", "header", header.size());
}

Status check_salt(std::string_view salt) noexcept {
  if (salt.size() > max_count) {
    return fail(Errc::invalid_argument, "Sha256Names::root: salt has {} bytes, expected at most {}",
                salt.size(), max_count);
  }
  if (salt.data() != nullptr || salt.empty()) return {};
  return null_memory("root", "salt", salt.size());
}

Status check_page(std::span<const TokenId> tokens, std::span<const ContentSpan> spans) noexcept {
  if (tokens.empty() || tokens.size() > max_count) {
    return fail(Errc::invalid_argument,
                "Sha256Names::page: tokens has {} elements, expected 1 .. {}", tokens.size(),
                max_count);
  }
  if (tokens.data() == nullptr) return null_memory("page", "tokens", tokens.size());
  if (spans.size() > tokens.size()) {
    return fail(Errc::invalid_argument,
                "Sha256Names::page: spans has {} elements, expected at most {} (the tokens)",
                spans.size(), tokens.size());
  }
  if (spans.data() == nullptr && !spans.empty()) return null_memory("page", "spans", spans.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    if (Status s = check_span(spans, i, static_cast<int64_t>(tokens.size())); !s.is_ok()) return s;
  }
  return {};
}

Status check_companion(const pool::CompanionContent& page) noexcept {
  if (page.group < 1 || page.group > 255) {
    return fail(Errc::invalid_argument,
                "Sha256Names::companion: group is {}, expected 1 .. 255 (the leading group's pages "
                "have names of their own)",
                page.group);
  }
  if (page.options.rule <= GroupRule::state) return {};
  return fail(Errc::invalid_argument,
              "Sha256Names::companion: options.rule is {}, expected full, window, chunked or state "
              "(0 .. 3)",
              static_cast<int>(page.options.rule));
}

}  // namespace folio::inline v1::names
