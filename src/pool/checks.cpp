// SPDX-License-Identifier: Apache-2.0
/// pool/checks.cpp: the sentences of a pool's refusals.
#include "pool/checks.h"

#include <limits>

#include "pool/pool_state.h"

namespace folio::inline v1 {
namespace pool {
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
  if (o.eviction > Eviction::lfu) {
    return fail(Errc::invalid_argument,
                "PagePool::create: eviction is {}, expected lru, s3_fifo or lfu (0 .. {})",
                static_cast<int>(o.eviction), static_cast<int>(Eviction::lfu));
  }
  if (Status s = check_name_function(o); !s.is_ok()) return s;
  if ((o.allocate == nullptr) == (o.deallocate == nullptr)) return {};
  return fail(Errc::invalid_argument,
              "PagePool::create: {} is null, expected a function, as {} is one",
              o.allocate == nullptr ? "allocate" : "deallocate",
              o.allocate == nullptr ? "deallocate" : "allocate");
}

Status check_prompt(std::span<const TokenId> prompt, const SequenceOptions& options) noexcept {
  if (prompt.empty() || prompt.size() > max_count) {
    return fail(Errc::invalid_argument, "PagePool::admit: prompt has {} tokens, expected 1 .. {}",
                prompt.size(), max_count);
  }
  if (prompt.data() == nullptr) return null_memory("admit", "prompt", prompt.size());
  if (options.salt.size() > PagePool::max_salt_bytes) {
    return fail(Errc::invalid_argument, "PagePool::admit: salt has {} bytes, expected at most {}",
                options.salt.size(), PagePool::max_salt_bytes);
  }
  if (options.salt.data() == nullptr && !options.salt.empty())
    return null_memory("admit", "salt", options.salt.size());
  return {};
}

Status check_group(const char* call, uint32_t group, const Groups* groups) noexcept {
  if (group == 0 || (groups != nullptr && group < groups->count())) return {};
  if (groups != nullptr && groups->count() > 1)
    return fail(Errc::invalid_argument, "PagePool::{}: group is {}, expected 0 .. {}", call, group,
                groups->count() - 1);
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

Status no_sequence_left(const char* call, uint32_t max_sequences) noexcept {
  return fail(Errc::out_of_pages,
              "PagePool::{}: {} sequences are alive, expected fewer than max_sequences {}", call,
              max_sequences, max_sequences);
}

}  // namespace pool

Status PagePool::State::check_ids(const char* call,
                                  std::span<const SequenceId> ids) const noexcept {
  if (ids.data() == nullptr && !ids.empty()) return pool::null_memory(call, "ids", ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (find(ids[i]) != nullptr) continue;
    return fail(Errc::invalid_argument,
                "PagePool::{}: ids[{}] is sequence {} of generation {}, expected one that is alive",
                call, i, ids[i].index, ids[i].generation);
  }
  return {};
}

}  // namespace folio::inline v1
