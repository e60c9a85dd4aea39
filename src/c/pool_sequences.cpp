// SPDX-License-Identifier: Apache-2.0
/// src/c/pool_sequences.cpp: several sequences at once, waiting, and how long pages are kept,
/// through the C interface.
#include <memory>
#include <new>

#include "c/pool.h"

namespace folio::inline v1::c {
namespace {

Status reserve_batch(folio_pool* pool, const folio_reserve_request* requests, int64_t count) {
  constexpr auto function = "folio_reserve_batch";
  if (pool == nullptr) return null_argument(function, "pool");
  const auto own = converted<ReserveRequest>(
      function, "requests", requests, "num_requests", count, [](const folio_reserve_request& r) {
        return ReserveRequest{id_of(r.sequence), r.new_tokens};
      });
  if (!own) return own.error();
  for (int64_t i = 0; i < count; ++i) {
    if (requests[i].reserved != 0)
      return fail(Errc::invalid_argument, "{}: requests[{}].reserved is {}, expected 0", function,
                  i, requests[i].reserved);
  }
  return pool->pool.reserve({own->get(), static_cast<size_t>(count)});
}

Status fork_many(folio_pool* pool, folio_sequence sequence, int32_t length,
                 folio_sequence* children, int64_t count) {
  constexpr auto function = "folio_fork_many";
  if (pool == nullptr) return null_argument(function, "pool");
  const auto ids = converted<SequenceId>(function, "children", children, "num_children", count,
                                         [](folio_sequence) { return SequenceId(); });
  if (!ids) return ids.error();
  const std::span<SequenceId> made(ids->get(), static_cast<size_t>(count));
  if (Status s = pool->pool.fork(id_of(sequence), length, made); !s.is_ok()) return s;
  for (size_t i = 0; i < made.size(); ++i) children[i] = number_of(made[i]);
  return {};
}

Status keep_path(folio_pool* pool, const folio_sequence* tree, int64_t count, int64_t leaf) {
  constexpr auto function = "folio_keep_path";
  if (pool == nullptr) return null_argument(function, "pool");
  const auto ids = converted<SequenceId>(function, "tree", tree, "num_sequences", count, id_of);
  if (!ids) return ids.error();
  if (leaf < 0)
    return fail(Errc::invalid_argument, "{}: leaf is {}, expected 0 .. {}", function, leaf,
                count - 1);
  return pool->pool.keep_path({ids->get(), static_cast<size_t>(count)}, static_cast<size_t>(leaf));
}

Status resume(folio_pool* pool, folio_sequence sequence, const int32_t* tokens, int64_t num_tokens,
              int32_t* cached_tokens) {
  constexpr auto function = "folio_resume";
  if (pool == nullptr) return null_argument(function, "pool");
  const auto own = tokens_of(function, "tokens", tokens, num_tokens);
  if (!own) return own.error();
  const Result<Admission> resumed = pool->pool.resume(id_of(sequence), *own);
  if (!resumed) return resumed.error();
  if (cached_tokens != nullptr) *cached_tokens = resumed->cached_tokens;
  return {};
}

Status explain(const folio_pool* pool, folio_sequence sequence, int32_t new_tokens,
               folio_pool_explanation* explanation) {
  constexpr auto function = "folio_explain";
  if (pool == nullptr) return null_argument(function, "pool");
  const Result<PoolExplanation> e = pool->pool.explain(id_of(sequence), new_tokens);
  if (!e) return e.error();
  folio_pool_explanation to = {};
  to.needed = e->needed;
  to.held_back = e->held_back;
  to.free = e->free;
  to.cached = e->cached;
  to.pinned = e->pinned;
  to.of_sequences = e->of_sequences;
  to.of_steps = e->of_steps;
  to.of_copies = e->of_copies;
  to.short_group = e->short_group;
  return write(function, "explanation", to, explanation);
}

Status retain(folio_pool* pool, const int32_t* prompt, int64_t num_tokens,
              const folio_sequence_options* options, int32_t* tokens) {
  constexpr auto function = "folio_retain";
  if (pool == nullptr) return null_argument(function, "pool");
  const auto own = tokens_of(function, "prompt", prompt, num_tokens);
  if (!own) return own.error();
  ConvertedOptions given;
  if (Status s = given.read(function, options); !s.is_ok()) return s;
  const Result<int32_t> found = pool->pool.retain(*own, given.options);
  if (!found) return found.error();
  if (tokens != nullptr) *tokens = *found;
  return {};
}

}  // namespace
}  // namespace folio::inline v1::c

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

folio_code folio_reserve_batch(folio_pool* pool, const folio_reserve_request* requests,
                               int64_t num_requests, folio_message* message) {
  return c::report(c::reserve_batch(pool, requests, num_requests), message);
}

folio_code folio_fork_many(folio_pool* pool, folio_sequence sequence, int32_t length,
                           folio_sequence* children, int64_t num_children, folio_message* message) {
  return c::report(c::fork_many(pool, sequence, length, children, num_children), message);
}

folio_code folio_keep_path(folio_pool* pool, const folio_sequence* tree, int64_t num_sequences,
                           int64_t leaf, folio_message* message) {
  return c::report(c::keep_path(pool, tree, num_sequences, leaf), message);
}

folio_code folio_preempt(folio_pool* pool, folio_sequence sequence, folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_preempt", "pool"), message);
  return c::report(pool->pool.preempt(c::id_of(sequence)), message);
}

folio_code folio_resume(folio_pool* pool, folio_sequence sequence, const int32_t* tokens,
                        int64_t num_tokens, int32_t* cached_tokens, folio_message* message) {
  return c::report(c::resume(pool, sequence, tokens, num_tokens, cached_tokens), message);
}

folio_code folio_explain(const folio_pool* pool, folio_sequence sequence, int32_t new_tokens,
                         folio_pool_explanation* explanation, folio_message* message) {
  return c::report(c::explain(pool, sequence, new_tokens, explanation), message);
}

folio_code folio_retain(folio_pool* pool, const int32_t* prompt, int64_t num_tokens,
                        const folio_sequence_options* options, int32_t* tokens,
                        folio_message* message) {
  return c::report(c::retain(pool, prompt, num_tokens, options, tokens), message);
}

folio_code folio_advance_time(folio_pool* pool, int64_t now_ms, folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_advance_time", "pool"), message);
  return c::report(pool->pool.advance_time(now_ms), message);
}
