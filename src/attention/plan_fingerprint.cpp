// SPDX-License-Identifier: Apache-2.0
/// src/attention/plan_fingerprint.cpp: a hash of what plan reads and of what it borrows, by xxHash.
#include "folio/attention/plan_fingerprint.h"

#include <algorithm>
#include <cstdint>

// Its inline functions have internal linkage.
#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): the library's name
#include <xxhash.h>

#include "attention/check.h"
#include "attention/internals.h"
#include "kernel/sequence.h"

namespace folio::inline v1 {
namespace {

/// What is put in is told apart by what went before: counts stand in front of what they count.
class Hash {
 public:
  explicit Hash(BorrowedArrays arrays) noexcept
      : counts_places_(arrays == BorrowedArrays::in_place) {
    XXH3_128bits_reset(&state_);
  }
  /// Of types whose bytes are their value.
  template <class... T>
  void put(const T&... values) noexcept {
    static_assert(((std::has_unique_object_representations_v<T> || std::is_same_v<T, float>)&&...));
    (XXH3_128bits_update(&state_, &values, sizeof values), ...);
  }
  template <class T>
  void put_array(const T* values, int64_t count) noexcept {
    static_assert(std::has_unique_object_representations_v<T>);
    if (count > 0) XXH3_128bits_update(&state_, values, static_cast<size_t>(count) * sizeof(T));
  }
  /// Whether an array is given, and, if that counts, where.
  void put_place(const void* array) noexcept {
    put(counts_places_ ? reinterpret_cast<uintptr_t>(array) : uintptr_t{array != nullptr});
  }
  [[nodiscard]] PlanFingerprint value() const noexcept {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.low64, hash.high64};
  }

 private:
  XXH3_state_t state_;
  bool counts_places_;
};

/// Pointers and num_pages are not the problem's (resolve clears them). Bindings name every member,
/// so that a new one is not forgotten.
void put_plane(Hash& hash, const PagedKVView& plane) noexcept {
  const auto& [data, dtype, num_heads, head_size, page_size, num_pages, page_stride, slot_stride,
               head_stride, scales, hadamard, has_channel_scales, channel_scales] = plane;
  hash.put(dtype, num_heads, head_size, page_size, page_stride, slot_stride, head_stride,
           hadamard.block, hadamard.sign_seed, has_channel_scales);
  const auto& [scale_data, scale_dtype, granularity, scale_page_stride, scale_slot_stride,
               scale_head_stride, granule_stride, tensor_scale, zeros, zero_offset] = scales;
  hash.put(scale_dtype, granularity, scale_page_stride, scale_slot_stride, scale_head_stride,
           granule_stride, zeros, zero_offset);
}

void put_problem(Hash& hash, const AttentionProblem& problem) noexcept {
  const auto& [key, value, key_tail, q_heads, v_head_size, q_dtype, out_dtype, value_in_key, mask,
               scale, softcap, sink_logits, alibi, bias, intervals, tree, selection,
               selection_per_head, sink_per_query, sink_dtype, bias_per_sequence, bias_dtype,
               alibi_positions, reproducible, bf16_operands, int8_operands, q_is_turned] = problem;
  for (const PagedKVView* plane : {&key, &value, &key_tail}) put_plane(hash, *plane);
  hash.put(q_heads, v_head_size, q_dtype, out_dtype, value_in_key);
  const auto& [left, right, chunk, sink_tokens] = mask;
  hash.put(left, right, chunk, sink_tokens);
  hash.put(scale, softcap, sink_logits, alibi, bias, intervals, tree, selection, selection_per_head,
           sink_per_query);
  hash.put(sink_dtype, bias_per_sequence, bias_dtype, alibi_positions, reproducible, bf16_operands,
           int8_operands, q_is_turned);
}

void put_attention(Hash& hash, const Attention& attention) noexcept {
  hash.put(reinterpret_cast<uintptr_t>(kernel_entry(attention)),
           reinterpret_cast<uintptr_t>(many_rows_entry(attention)),
           reinterpret_cast<uintptr_t>(few_rows_entry(attention)));
  const auto& [batch, tokens, context, parallelism, shared_levels] = attention.limits();
  hash.put(batch, tokens, context, parallelism, shared_levels);
  put_problem(hash, attention.problem());
}

/// Entries of the pages of [begin, end) keys of the row.
class Pages {
 public:
  Pages(Hash& hash, const Batch& batch, int32_t b, int32_t page_size) noexcept
      : hash_(hash),
        row_(batch.table.row_start(b)),
        entries_(batch.table.entries),
        page_size_(page_size) {}

  /// Those that the call before has not put already: queries mostly see what the one before saw.
  void put(const Interval& keys) noexcept {
    if (keys.begin >= keys.end) return;
    const Interval pages{keys.begin / page_size_, (keys.end - 1) / page_size_ + 1};
    put_entries({pages.begin, std::min(pages.end, put_.begin)});
    put_entries({std::max(pages.begin, put_.end), pages.end});
    put_ = pages;
  }

 private:
  void put_entries(const Interval& pages) noexcept {
    if (pages.begin >= pages.end) return;
    hash_.put_array(entries_ + row_ + pages.begin, pages.size());
  }

  Hash& hash_;
  int64_t row_;
  const uint32_t* entries_;
  int64_t page_size_;
  Interval put_ = {};
};

/// What the sequences' queries see decides which pages count, so it needs no count of its own.
void put_tables(Hash& hash, const AttentionProblem& problem, const Batch& batch) noexcept {
  for (int32_t b = 0; b < batch.size; ++b) {
    const Sequence sequence = sequence_of(batch, b);
    Pages sinks(hash, batch, b, problem.key.page_size), keys = sinks;
    for (int32_t t = 0; t < sequence.new_tokens; ++t) {
      const Visible visible = visible_of(problem, batch, sequence, t);
      sinks.put(visible.sinks);
      keys.put(visible.keys);
    }
  }
}

/// [size] numbers, or none.
void put_optional(Hash& hash, const int32_t* values, int32_t size) noexcept {
  hash.put(uint8_t{values != nullptr});
  if (values != nullptr) hash.put_array(values, size);
}

void put_alibi_positions(Hash& hash, const Batch& batch) noexcept {
  for (int32_t b = 0; b < batch.size; ++b)
    hash.put_array(batch.alibi_positions + b * batch.alibi_positions_stride,
                   batch.context_lengths[b]);
}

void put_batch(Hash& hash, const AttentionProblem& problem, const Batch& batch) noexcept {
  hash.put(batch.size);
  if (batch.size == 0) return;
  hash.put_array(batch.query_offsets, int64_t{batch.size} + 1);
  hash.put_array(batch.context_lengths, batch.size);
  put_optional(hash, batch.query_positions, batch.size);
  put_optional(hash, batch.key_positions, batch.size);
  for (const void* array :
       {static_cast<const void*>(batch.table.entries),
        static_cast<const void*>(batch.table.row_starts),
        static_cast<const void*>(batch.visible_begin), static_cast<const void*>(batch.visible_end),
        static_cast<const void*>(batch.tree), static_cast<const void*>(batch.alibi_positions)})
    hash.put_place(array);
  // A plan has copies of strides: they are part of where things are.
  hash.put(batch.table.row_starts != nullptr ? int64_t{0} : batch.table.row_stride);
  const int64_t tokens = batch.query_offsets[batch.size];
  if (tokens == 0) return;
  if (problem.intervals) {
    hash.put_array(batch.visible_begin, tokens);
    hash.put_array(batch.visible_end, tokens);
  }
  if (problem.tree) {
    hash.put(batch.tree_words);
    hash.put_array(batch.tree, tokens * std::max(batch.tree_words, 0));
  }
  if (problem.alibi_positions) {
    hash.put(batch.alibi_positions_stride);
    put_alibi_positions(hash, batch);
  }
  if (problem.selection) {
    hash.put(reinterpret_cast<uintptr_t>(batch.selected), batch.selected_stride);
    return;
  }
  if (batch.table.row_starts != nullptr) hash.put_array(batch.table.row_starts, batch.size);
  put_tables(hash, problem, batch);
}

}  // namespace

Result<PlanFingerprint> plan_fingerprint(const Attention& attention, const Batch& batch,
                                         BorrowedArrays arrays) noexcept {
  constexpr auto function = "plan_fingerprint";
  if (kernel_entry(attention) == nullptr)
    return fail(Errc::invalid_argument,
                "{}: attention is empty, expected one made by Attention::create", function);
  if (Status s = check_host(function, attention); !s.is_ok()) return s;
  if (arrays > BorrowedArrays::by_content)
    return fail(Errc::invalid_argument, "{}: arrays is {}, expected a value of BorrowedArrays",
                function, static_cast<int>(arrays));
  if (Status s = check_batch(attention.problem(), attention.limits(), batch); !s.is_ok()) return s;
  Hash hash(arrays);
  put_attention(hash, attention);
  put_batch(hash, attention.problem(), batch);
  return hash.value();
}

}  // namespace folio::inline v1
