// SPDX-License-Identifier: Apache-2.0
/// pool/checks.cpp: the sentences of a pool's refusals.
#include "pool/checks.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

namespace folio::inline v1::pool {
namespace {

constexpr uint32_t max_count = std::numeric_limits<int32_t>::max();

Status count_in_range(const char* option, uint32_t count, uint32_t least) {
  if (count >= least && count <= max_count) return {};
  return fail(Errc::invalid_argument, "PagePool::create: {} is {}, expected {} .. {}", option,
              count, least, max_count);
}

Status check_name_function(const PoolOptions& o) {
  if (o.name.function == nullptr && o.name.context != nullptr) {
    return fail(Errc::invalid_argument,
                "PagePool::create: name.function is null, expected a function, as name.context is "
                "not");
  }
  if (o.name.function == nullptr || o.prefix_reuse) return {};
  return fail(Errc::invalid_argument,
              "PagePool::create: name.function is given, expected none without prefix_reuse");
}

Status check_event_options(const PoolOptions& o) {
  if (Status s = count_in_range("event_capacity", o.event_capacity, 0); !s.is_ok()) return s;
  if (Status s = count_in_range("max_io_pins", o.max_io_pins, 0); !s.is_ok()) return s;
  if (o.on_event.function == nullptr && o.on_event.context != nullptr) {
    return fail(Errc::invalid_argument,
                "PagePool::create: on_event.function is null, expected a function, as "
                "on_event.context is not");
  }
  if (o.prefix_reuse || (o.on_event.function == nullptr && o.event_capacity == 0)) return {};
  return fail(Errc::invalid_argument,
              "PagePool::create: {} is given, expected none without prefix_reuse",
              o.event_capacity != 0 ? "event_capacity" : "on_event.function");
}

Status check_partial_tokens(const PoolOptions& o) {
  if (o.min_partial_tokens < 0 || o.min_partial_tokens >= o.page_size) {
    return fail(
        Errc::invalid_argument,
        "PagePool::create: min_partial_tokens is {}, expected 0 .. {} (less than page_size)",
        o.min_partial_tokens, o.page_size - 1);
  }
  if (o.min_partial_tokens == 0 || o.prefix_reuse) return {};
  return fail(Errc::invalid_argument,
              "PagePool::create: min_partial_tokens is {}, expected 0 without prefix_reuse",
              o.min_partial_tokens);
}

Status check_eviction(Eviction eviction) {
  constexpr size_t count = std::size(eviction_names);
  if (static_cast<size_t>(eviction) < count) return {};
  std::string names(eviction_names[0]);
  for (size_t i = 1; i < count; ++i)
    names.append(i + 1 == count ? " or " : ", ").append(eviction_names[i]);
  return fail(Errc::invalid_argument, "PagePool::create: eviction is {}, expected {} (0 .. {})",
              static_cast<int>(eviction), names, count - 1);
}

Status check_max_spans(const PoolOptions& o) {
  const int64_t most = max_count / 2 / int64_t{o.max_sequences};
  if (o.max_spans != 0 && (o.max_spans > most || !o.prefix_reuse)) {
    return fail(
        Errc::invalid_argument,
        "PagePool::create: max_spans is {}, expected 0 .. {} (2^30 - 1 over max_sequences), "
        "and 0 without prefix_reuse",
        o.max_spans, most);
  }
  return {};
}

}  // namespace

Status check_options(const PoolOptions& o) noexcept {
  const bool from_arena = !o.groups.empty();
  if (Status s = count_in_range("num_pages", o.num_pages, from_arena ? 0 : 1); !s.is_ok()) return s;
  if (o.page_size < 1)
    return fail(Errc::invalid_argument, "PagePool::create: page_size is {}, expected at least 1",
                o.page_size);
  if (Status s = check_group_options(o); !s.is_ok()) return s;
  if (Status s = count_in_range("max_sequences", o.max_sequences, 1); !s.is_ok()) return s;
  if (Status s = count_in_range("max_pages_per_sequence", o.max_pages_per_sequence, 0); !s.is_ok())
    return s;
  if (Status s = count_in_range("max_namespaces", o.max_namespaces, 0); !s.is_ok()) return s;
  if (Status s = check_eviction(o.eviction); !s.is_ok()) return s;
  const uint32_t num_pages = o.num_pages == 0 ? leading_pages_of(o) : o.num_pages;
  if (o.watermark_pages > num_pages) {
    return fail(Errc::invalid_argument,
                "PagePool::create: watermark_pages is {}, expected 0 .. {} (num_pages)",
                o.watermark_pages, num_pages);
  }
  if (o.lookahead_tokens < 0) {
    return fail(Errc::invalid_argument,
                "PagePool::create: lookahead_tokens is {}, expected at least 0",
                o.lookahead_tokens);
  }
  if (Status s = check_name_function(o); !s.is_ok()) return s;
  if (Status s = check_event_options(o); !s.is_ok()) return s;
  if (Status s = check_partial_tokens(o); !s.is_ok()) return s;
  if (Status s = check_max_spans(o); !s.is_ok()) return s;
  if (o.max_retention_ms < 0 || (o.max_retention_ms > 0 && !o.prefix_reuse)) {
    return fail(Errc::invalid_argument,
                "PagePool::create: max_retention_ms is {}, expected 0 or more, and 0 without "
                "prefix_reuse",
                o.max_retention_ms);
  }
  if ((o.allocate == nullptr) == (o.deallocate == nullptr)) return {};
  return fail(Errc::invalid_argument,
              "PagePool::create: {} is null, expected a function, as {} is one",
              o.allocate == nullptr ? "allocate" : "deallocate",
              o.allocate == nullptr ? "deallocate" : "allocate");
}

Status check_tokens(const char* call, const char* argument,
                    std::span<const TokenId> tokens) noexcept {
  if (tokens.empty() || tokens.size() > max_count) {
    return fail(Errc::invalid_argument, "PagePool::{}: {} has {} tokens, expected 1 .. {}", call,
                argument, tokens.size(), max_count);
  }
  return tokens.data() == nullptr ? null_memory(call, argument, tokens.size()) : Status();
}

Status check_prompt(std::span<const TokenId> prompt, const SequenceOptions& options,
                    const char* call) noexcept {
  if (Status s = check_tokens(call, "prompt", prompt); !s.is_ok()) return s;
  if (options.salt.size() > PagePool::max_salt_bytes) {
    return fail(Errc::invalid_argument, "PagePool::{}: salt has {} bytes, expected at most {}",
                call, options.salt.size(), PagePool::max_salt_bytes);
  }
  if (options.salt.data() == nullptr && !options.salt.empty())
    return null_memory(call, "salt", options.salt.size());
  return {};
}

Status check_spans(std::span<const TokenId> prompt, const SequenceOptions& options,
                   const PoolOptions& pool, const char* call) noexcept {
  const std::span<const ContentSpan> spans = options.spans;
  if (spans.size() > pool.max_spans) {
    return fail(Errc::invalid_argument,
                "PagePool::{}: spans has {} items, expected at most {} (max_spans)", call,
                spans.size(), pool.max_spans);
  }
  if (spans.data() == nullptr && !spans.empty()) return null_memory(call, "spans", spans.size());
  int64_t end = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    const ContentSpan& span = spans[i];
    if (span.offset < end || span.length < 1 ||
        int64_t{span.offset} + span.length > static_cast<int64_t>(prompt.size())) {
      return fail(Errc::invalid_argument,
                  "PagePool::{}: spans[{}] has {} tokens from {} on, expected at least 1 within {} "
                  ".. {} (behind the span before it, within the prompt)",
                  call, i, span.length, span.offset, end, prompt.size());
    }
    end = int64_t{span.offset} + span.length;
  }
  return {};
}

Status check_group(const char* call, uint32_t group, uint32_t num_groups) noexcept {
  if (group < std::max(num_groups, 1U)) return {};
  if (num_groups > 1)
    return fail(Errc::invalid_argument, "PagePool::{}: group is {}, expected 0 .. {}", call, group,
                num_groups - 1);
  return fail(Errc::invalid_argument,
              "PagePool::{}: group is {}, expected 0 (the pool has one group)", call, group);
}

Status cannot_go_back(const char* call, int32_t length, uint32_t group, int32_t present) noexcept {
  return fail(Errc::invalid_argument,
              "PagePool::{}: length is {}, but group {} has given up what that needs, expected {} "
              "(the sequence's length) or one whose pages are still cached",
              call, length, group, present);
}

Status moved_from(const char* call) noexcept {
  return fail(Errc::invalid_argument,
              "PagePool::{}: the pool is moved from, expected one with pages", call);
}

Status not_alive(const char* call, SequenceId id) noexcept {
  return fail(Errc::invalid_argument,
              "PagePool::{}: id is sequence {} of generation {}, expected one that is alive", call,
              id.index, id.generation);
}

Status null_memory(const char* call, const char* argument, size_t size) noexcept {
  return fail(Errc::invalid_argument, "PagePool::{}: {} is null, expected memory of size {}", call,
              argument, size);
}

Status no_events(const char* call, const char* expected) noexcept {
  return fail(Errc::invalid_argument, "PagePool::{}: the pool has no events, expected {}", call,
              expected);
}

Status no_merge(Merge merge) noexcept {
  return fail(Errc::invalid_argument,
              "PagePool::commit: merge is {}, expected refused or allowed (0 .. 1)",
              static_cast<int>(merge));
}

Status no_sequence_left(const char* call, uint32_t max_sequences) noexcept {
  return fail(Errc::out_of_pages,
              "PagePool::{}: {} sequences are alive, expected fewer than max_sequences {}", call,
              max_sequences, max_sequences);
}

}  // namespace folio::inline v1::pool
