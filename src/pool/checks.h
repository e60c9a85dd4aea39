// SPDX-License-Identifier: Apache-2.0
/// pool/checks.h: what a pool refuses, in one voice: `PagePool::call: argument is X, expected Y`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "folio/pool/page_pool.h"
namespace folio::inline v1::pool {

[[nodiscard]] Status check_options(const PoolOptions& options) noexcept;
/// 1 token or more, and memory for them.
[[nodiscard]] Status check_tokens(const char* call, const char* argument,
                                  std::span<const TokenId> tokens) noexcept;
[[nodiscard]] Status check_prompt(std::span<const TokenId> prompt, const SequenceOptions& options,
                                  const char* call = "admit") noexcept;
/// `pool`: its own options. The prompt is checked.
[[nodiscard]] Status check_spans(std::span<const TokenId> prompt, const SequenceOptions& options,
                                 const PoolOptions& pool, const char* call = "admit") noexcept;
/// `pool`: its own options.
[[nodiscard]] Status check_retention(const char* call, const SequenceOptions& options,
                                     const PoolOptions& pool) noexcept;
/// `num_groups`: 0 for a pool that is moved from.
[[nodiscard]] Status check_group(const char* call, uint32_t group, uint32_t num_groups) noexcept;
/// Groups and arena: check_groups.cpp.
[[nodiscard]] Status check_group_options(const PoolOptions& options) noexcept;
/// Leading pages of the arena; 0 without groups.
[[nodiscard]] uint32_t leading_pages_of(const PoolOptions& options) noexcept;
[[nodiscard]] Status cannot_go_back(const char* call, int32_t length, uint32_t group,
                                    int32_t present) noexcept;

// The refusals themselves, where the caller has looked already.
[[nodiscard]] Status moved_from(const char* call) noexcept;
[[nodiscard]] Status not_alive(const char* call, SequenceId id) noexcept;
[[nodiscard]] Status null_memory(const char* call, const char* argument, size_t size) noexcept;
[[nodiscard]] Status no_events(const char* call, const char* expected) noexcept;
[[nodiscard]] Status no_merge(Merge merge) noexcept;
[[nodiscard]] Status no_sequence_left(const char* call, uint32_t max_sequences) noexcept;

}  // namespace folio::inline v1::pool
