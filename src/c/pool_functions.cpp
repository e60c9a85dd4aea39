// SPDX-License-Identifier: Apache-2.0
/// src/c/pool_functions.cpp: functions of the caller's that a pool calls: names and events.
#include <cstddef>

#include "c/pool.h"

namespace folio::inline v1::c {
namespace {

static_assert(sizeof(folio_page_name) == sizeof(PageName) && alignof(folio_page_name) == 1 &&
              alignof(PageName) == 1);
static_assert(FOLIO_STORED == static_cast<int>(PoolEventKind::stored) &&
              FOLIO_REMOVED == static_cast<int>(PoolEventKind::removed) &&
              FOLIO_CLEARED == static_cast<int>(PoolEventKind::cleared));

/// What is no code of folio's is the caller's fault, and no argument's.
Status status_of(const char* function, folio_code code) noexcept {
  if (code == FOLIO_OK) return {};
  const bool is_known = code > FOLIO_OK && code <= FOLIO_INTERNAL;
  return fail(is_known ? static_cast<Errc>(code) : Errc::internal,
              "folio_pool_options::{} returned {} ({}), and no name", function, code,
              is_known ? folio_get_code_name(code) : "no code of folio's");
}

Status name_page(void* context, const PageContent& page, PageName* name) noexcept {
  auto& functions = *static_cast<CallerFunctions*>(context);
  folio_page_content content = {};
  content.struct_size = sizeof content;
  content.parent = reinterpret_cast<const folio_page_name*>(page.parent);
  content.tokens = page.tokens.data();
  content.num_tokens = static_cast<int64_t>(page.tokens.size());
  content.spans = reinterpret_cast<const folio_content_span*>(page.spans.data());
  content.num_spans = static_cast<int64_t>(page.spans.size());
  content.salt = page.salt.data();
  content.salt_bytes = page.salt.size();
  content.adapter = page.adapter;
  folio_page_name made = {};
  const Running running(functions);
  const folio_code code = functions.name_page(functions.name_context, &content, &made);
  std::memcpy(name->bytes.data(), made.bytes, sizeof made.bytes);
  return status_of("name_page", code);
}

Status name_companion(void* context, const pool::CompanionContent& page, PageName* name) noexcept {
  auto& functions = *static_cast<CallerFunctions*>(context);
  folio_companion_content content = {};
  content.struct_size = sizeof content;
  content.group = page.group;
  content.rule = static_cast<int32_t>(page.options.rule);
  content.window = page.options.window;
  content.sinks = page.options.sinks;
  content.chunk = page.options.chunk;
  content.checkpoint = page.options.checkpoint;
  std::memcpy(content.leading.bytes, page.leading.bytes.data(), sizeof content.leading.bytes);
  folio_page_name made = {};
  const Running running(functions);
  const folio_code code = functions.name_companion(functions.name_context, &content, &made);
  std::memcpy(name->bytes.data(), made.bytes, sizeof made.bytes);
  return status_of("name_companion", code);
}

void on_event(void* context, const PoolEvent& event, std::span<const TokenId> tokens) noexcept {
  auto& functions = *static_cast<CallerFunctions*>(context);
  const folio_pool_event told = event_of(event);
  const Running running(functions);
  functions.on_event(functions.event_context, &told, tokens.data(),
                     static_cast<int64_t>(tokens.size()));
}

Status no_function(const char* call, const char* function, const char* context) {
  return fail(Errc::invalid_argument,
              "{}: options->{} is null, expected a function, as options->{} is not", call, function,
              context);
}

}  // namespace

folio_pool_event event_of(const PoolEvent& e) noexcept {
  folio_pool_event to = {};
  to.number = e.number;
  to.content = e.content;
  to.parent = e.parent;
  to.adapter = e.adapter;
  std::memcpy(to.name.bytes, e.name.bytes.data(), sizeof to.name.bytes);
  std::memcpy(to.parent_name.bytes, e.parent_name.bytes.data(), sizeof to.parent_name.bytes);
  to.position = e.position;
  to.num_tokens = e.num_tokens;
  to.kind = static_cast<int32_t>(e.kind);
  to.is_of_snapshot = e.in_snapshot ? 1 : 0;
  to.has_name = e.has_name ? 1 : 0;
  to.has_parent_name = e.has_parent_name ? 1 : 0;
  to.group = e.group;
  return to;
}

Status busy(const char* function) noexcept {
  return fail(Errc::busy,
              "{}: the pool is calling a function of its options, expected no call that changes it "
              "from there",
              function);
}

Status read_functions(const char* function, const folio_pool_options& given,
                      std::unique_ptr<CallerFunctions>& own, PoolOptions& options) {
  if (given.name_page == nullptr && given.name_context != nullptr)
    return no_function(function, "name_page", "name_context");
  if (given.name_page == nullptr && given.name_companion != nullptr)
    return no_function(function, "name_page", "name_companion");
  if (given.on_event == nullptr && given.event_context != nullptr)
    return no_function(function, "on_event", "event_context");
  if (given.name_page == nullptr && given.on_event == nullptr) return {};
  own.reset(new (std::nothrow) CallerFunctions{.name_page = given.name_page,
                                               .name_context = given.name_context,
                                               .on_event = given.on_event,
                                               .event_context = given.event_context,
                                               .name_companion = given.name_companion});
  if (own == nullptr) return fail(Errc::out_of_memory, "{}: no memory for the functions", function);
  if (given.name_page != nullptr)
    options.name = {.function = name_page,
                    .context = own.get(),
                    .companion = given.name_companion == nullptr ? nullptr : name_companion};
  if (given.on_event != nullptr) options.on_event = {.function = on_event, .context = own.get()};
  return {};
}

}  // namespace folio::inline v1::c
