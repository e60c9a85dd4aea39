// SPDX-License-Identifier: Apache-2.0
/// src/c/pool_loads.cpp: pages that come into a pool or leave it, through the C interface.
#include "folio/c/pool_loads.h"

#include <new>
#include <tuple>
#include <utility>
#include <vector>

#include "c/pool.h"

namespace folio::inline v1::c {
namespace {

static_assert(sizeof(pool::GroupBits) == sizeof(uint8_t));

Status companion_name(folio_pool* pool, folio_sequence sequence, int32_t position, uint32_t group,
                      folio_page_name* name) {
  constexpr auto function = "folio_get_companion_name";
  if (pool == nullptr) return null_argument(function, "pool");
  if (name == nullptr) return null_argument(function, "name");
  const Result<PageName> found = pool->pool.name(id_of(sequence), position, group);
  if (!found) return found.error();
  std::memcpy(name->bytes, found->bytes.data(), sizeof name->bytes);
  return {};
}

Status companion_names(folio_pool* pool, uint32_t group, const folio_page_name* leading,
                       folio_page_name* names, int64_t count) {
  constexpr auto function = "folio_get_companion_names";
  if (pool == nullptr) return null_argument(function, "pool");
  for (const auto& [argument, array] :
       {std::pair<const char*, const void*>{"leading", leading}, {"names", names}}) {
    if (Status s = check_array(function, argument, array, "num_names", count, sizeof *names);
        !s.is_ok())
      return s;
  }
  return pool->pool.companion_names(
      group, {reinterpret_cast<const PageName*>(leading), static_cast<size_t>(count)},
      {reinterpret_cast<PageName*>(names), static_cast<size_t>(count)});
}

Status page_parts(const folio_pool* pool, folio_sequence sequence, int32_t position,
                  folio_page_parts* parts) {
  constexpr auto function = "folio_get_page_parts";
  if (pool == nullptr) return null_argument(function, "pool");
  const Result<pool::PageParts> found = pool->pool.parts(id_of(sequence), position);
  if (!found) return found.error();
  return write(
      function, "parts",
      folio_page_parts{sizeof(folio_page_parts), found->present, found->held, found->likely},
      parts);
}

Status begin_companion_io(folio_pool* pool, folio_sequence sequence, int32_t position,
                          uint32_t group, folio_io_pin* pin) {
  constexpr auto function = "folio_begin_companion_io";
  if (pool == nullptr) return null_argument(function, "pool");
  if (pin == nullptr) return null_argument(function, "pin");
  const Result<IoPin> own = pool->pool.begin_companion_io(id_of(sequence), position, group);
  if (!own) return own.error();
  *pin = pin_number(*own);
  return {};
}

static_assert(sizeof(pool::PromptPage) == sizeof(folio_prompt_page));

Status begin_prompt_io(folio_pool* pool, folio_sequence sequence, const int32_t* prompt,
                       int64_t num_tokens, const folio_prompt_page* pages, folio_io_pin* pins,
                       int64_t num_pages, int32_t* num_found) {
  constexpr auto function = "folio_begin_prompt_io";
  if (pool == nullptr) return null_argument(function, "pool");
  if (num_found == nullptr) return null_argument(function, "num_found");
  const auto tokens = tokens_of(function, "prompt", prompt, num_tokens);
  if (!tokens) return tokens.error();
  for (const auto& [argument, array, size] :
       {std::tuple<const char*, const void*, size_t>{"pages", pages, sizeof *pages},
        {"pins", pins, sizeof *pins}}) {
    if (Status s = check_array(function, argument, array, "num_pages", num_pages, size); !s.is_ok())
      return s;
  }
  try {
    std::vector<IoPin> own(static_cast<size_t>(num_pages));
    const Result<int32_t> found = pool->pool.begin_prompt_io(
        id_of(sequence), *tokens,
        {reinterpret_cast<const pool::PromptPage*>(pages), static_cast<size_t>(num_pages)}, own);
    if (!found) return found.error();
    for (size_t i = 0; i < own.size(); ++i) pins[i] = pin_number(own[i]);
    *num_found = *found;
    return {};
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "{}: no memory for {} pins", function, num_pages);
  }
}

Status expect_branch(folio_pool* pool, folio_sequence sequence, int32_t tokens) {
  if (pool == nullptr) return null_argument("folio_expect_branch", "pool");
  return pool->pool.expect_branch(id_of(sequence), tokens);
}

IoPin ask_watcher(void* context, uint32_t group, uint32_t page, const PageName& name) noexcept {
  auto& functions = *static_cast<CallerFunctions*>(context);
  const Running running(functions);
  return pin_of(functions.watcher.function(functions.watcher.context, group, page,
                                           reinterpret_cast<const folio_page_name*>(&name)));
}

void tell_watcher(void* context, uint32_t group, uint32_t page, const PageName& name) noexcept {
  auto& functions = *static_cast<CallerFunctions*>(context);
  const Running running(functions);
  functions.watcher.leaving(functions.watcher.context, group, page,
                            reinterpret_cast<const folio_page_name*>(&name));
}

Status watch_evictions(folio_pool* pool, const folio_eviction_watcher* watcher) {
  constexpr auto function = "folio_watch_evictions";
  if (pool == nullptr) return null_argument(function, "pool");
  if (is_calling(*pool)) return busy(function);
  if (watcher == nullptr) return pool->pool.watch_evictions({});
  folio_eviction_watcher given = {};
  if (Status s = read(function, "watcher", watcher, given); !s.is_ok()) return s;
  if (given.function == nullptr) return null_argument(function, "watcher->function");
  if (pool->functions == nullptr) pool->functions.reset(new (std::nothrow) CallerFunctions());
  if (pool->functions == nullptr)
    return fail(Errc::out_of_memory, "{}: no memory for the function", function);
  Status watched = pool->pool.watch_evictions(
      {ask_watcher, pool->functions.get(), given.leaving == nullptr ? nullptr : tell_watcher});
  if (watched.is_ok()) pool->functions->watcher = given;
  return watched;
}

/// Bits of the groups for each of some leading pages.
Result<std::span<pool::GroupBits>> bits_of(const char* function, const char* argument,
                                           uint8_t* bits, const char* count_name, int64_t count) {
  if (Status s = check_array(function, argument, bits, count_name, count, sizeof *bits); !s.is_ok())
    return s;
  return std::span<pool::GroupBits>(bits, static_cast<size_t>(count));
}

Status find_parts(folio_pool* pool, folio_sequence sequence, const int32_t* prompt,
                  int64_t num_tokens, uint8_t* parts, int64_t num_parts, int32_t* num_found) {
  constexpr auto function = "folio_find_parts";
  if (pool == nullptr) return null_argument(function, "pool");
  if (num_found == nullptr) return null_argument(function, "num_found");
  const auto tokens = tokens_of(function, "prompt", prompt, num_tokens);
  if (!tokens) return tokens.error();
  const auto bits = bits_of(function, "parts", parts, "num_parts", num_parts);
  if (!bits) return bits.error();
  const Result<int32_t> found = pool->pool.find_parts(id_of(sequence), *tokens, *bits);
  if (!found) return found.error();
  *num_found = *found;
  return {};
}

Status begin_load(folio_pool* pool, folio_sequence sequence, const int32_t* prompt,
                  int64_t num_tokens, int32_t length, uint8_t* fill, int64_t num_fill) {
  constexpr auto function = "folio_begin_load";
  if (pool == nullptr) return null_argument(function, "pool");
  const auto tokens = tokens_of(function, "prompt", prompt, num_tokens);
  if (!tokens) return tokens.error();
  const auto bits = bits_of(function, "fill", fill, "num_fill", num_fill);
  if (!bits) return bits.error();
  return pool->pool.begin_load(id_of(sequence), *tokens, length, *bits);
}

Status begin_whole_load(folio_pool* pool, folio_sequence sequence, const int32_t* prompt,
                        int64_t num_tokens, uint8_t* fill, int64_t num_fill) {
  constexpr auto function = "folio_begin_whole_load";
  if (pool == nullptr) return null_argument(function, "pool");
  const auto tokens = tokens_of(function, "prompt", prompt, num_tokens);
  if (!tokens) return tokens.error();
  const auto bits = bits_of(function, "fill", fill, "num_fill", num_fill);
  if (!bits) return bits.error();
  return pool->pool.begin_whole_load(id_of(sequence), *tokens, *bits);
}

Status shorten_load(folio_pool* pool, folio_sequence sequence, int32_t length, uint8_t* fill,
                    int64_t num_fill) {
  constexpr auto function = "folio_shorten_load";
  if (pool == nullptr) return null_argument(function, "pool");
  const auto bits = bits_of(function, "fill", fill, "num_fill", num_fill);
  if (!bits) return bits.error();
  return pool->pool.shorten_load(id_of(sequence), length, *bits);
}

Status commit_load(const char* function, folio_pool* pool, folio_sequence sequence,
                   const int32_t* tokens, int64_t num_tokens, Merge merge) {
  if (pool == nullptr) return null_argument(function, "pool");
  const auto own = tokens_of(function, "tokens", tokens, num_tokens);
  if (!own) return own.error();
  return pool->pool.commit_load(id_of(sequence), *own, merge);
}

Status load_length(const folio_pool* pool, folio_sequence sequence, int32_t* length) {
  constexpr auto function = "folio_get_load_length";
  if (pool == nullptr) return null_argument(function, "pool");
  if (length == nullptr) return null_argument(function, "length");
  const Result<int32_t> own = pool->pool.load_length(id_of(sequence));
  if (!own) return own.error();
  *length = *own;
  return {};
}

}  // namespace
}  // namespace folio::inline v1::c

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

folio_code folio_get_companion_name(folio_pool* pool, folio_sequence sequence, int32_t position,
                                    uint32_t group, folio_page_name* name, folio_message* message) {
  return c::report(c::companion_name(pool, sequence, position, group, name), message);
}

folio_code folio_get_companion_names(folio_pool* pool, uint32_t group,
                                     const folio_page_name* leading, folio_page_name* names,
                                     int64_t num_names, folio_message* message) {
  return c::report(c::companion_names(pool, group, leading, names, num_names), message);
}

folio_code folio_get_page_parts(const folio_pool* pool, folio_sequence sequence, int32_t position,
                                folio_page_parts* parts, folio_message* message) {
  return c::report(c::page_parts(pool, sequence, position, parts), message);
}

folio_code folio_begin_companion_io(folio_pool* pool, folio_sequence sequence, int32_t position,
                                    uint32_t group, folio_io_pin* pin, folio_message* message) {
  return c::report(c::begin_companion_io(pool, sequence, position, group, pin), message);
}

// NOLINTNEXTLINE(readability-function-size): C's arguments
folio_code folio_begin_prompt_io(folio_pool* pool, folio_sequence sequence, const int32_t* prompt,
                                 int64_t num_tokens, const folio_prompt_page* pages,
                                 folio_io_pin* pins, int64_t num_pages, int32_t* num_found,
                                 folio_message* message) {
  return c::report(
      c::begin_prompt_io(pool, sequence, prompt, num_tokens, pages, pins, num_pages, num_found),
      message);
}

folio_code folio_expect_branch(folio_pool* pool, folio_sequence sequence, int32_t tokens,
                               folio_message* message) {
  return c::report(c::expect_branch(pool, sequence, tokens), message);
}

folio_code folio_watch_evictions(folio_pool* pool, const folio_eviction_watcher* watcher,
                                 folio_message* message) {
  return c::report(c::watch_evictions(pool, watcher), message);
}

folio_code folio_find_parts(folio_pool* pool, folio_sequence sequence, const int32_t* prompt,
                            int64_t num_tokens, uint8_t* parts, int64_t num_parts,
                            int32_t* num_found, folio_message* message) {
  return c::report(c::find_parts(pool, sequence, prompt, num_tokens, parts, num_parts, num_found),
                   message);
}

folio_code folio_begin_load(folio_pool* pool, folio_sequence sequence, const int32_t* prompt,
                            int64_t num_tokens, int32_t length, uint8_t* fill, int64_t num_fill,
                            folio_message* message) {
  return c::report(c::begin_load(pool, sequence, prompt, num_tokens, length, fill, num_fill),
                   message);
}

folio_code folio_begin_whole_load(folio_pool* pool, folio_sequence sequence, const int32_t* prompt,
                                  int64_t num_tokens, uint8_t* fill, int64_t num_fill,
                                  folio_message* message) {
  return c::report(c::begin_whole_load(pool, sequence, prompt, num_tokens, fill, num_fill),
                   message);
}

folio_code folio_shorten_load(folio_pool* pool, folio_sequence sequence, int32_t length,
                              uint8_t* fill, int64_t num_fill, folio_message* message) {
  return c::report(c::shorten_load(pool, sequence, length, fill, num_fill), message);
}

folio_code folio_commit_load(folio_pool* pool, folio_sequence sequence, const int32_t* tokens,
                             int64_t num_tokens, folio_message* message) {
  return c::report(
      c::commit_load("folio_commit_load", pool, sequence, tokens, num_tokens, Merge::refused),
      message);
}

folio_code folio_commit_merged_load(folio_pool* pool, folio_sequence sequence,
                                    const int32_t* tokens, int64_t num_tokens,
                                    folio_message* message) {
  return c::report(c::commit_load("folio_commit_merged_load", pool, sequence, tokens, num_tokens,
                                  Merge::allowed),
                   message);
}

folio_code folio_get_load_length(const folio_pool* pool, folio_sequence sequence, int32_t* length,
                                 folio_message* message) {
  return c::report(c::load_length(pool, sequence, length), message);
}
