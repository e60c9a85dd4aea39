// SPDX-License-Identifier: Apache-2.0
/// src/c/attend.cpp: attention through the C interface: plan and its fingerprint, attend, merge.
#include <array>
#include <cstring>

#include "c/convert.h"
#include "c/handle.h"
#include "folio/attention/attend.h"
#include "folio/attention/merge.h"
#include "folio/attention/plan_fingerprint.h"

namespace folio::inline v1::c {
namespace {

Status read_args(const char* function, const folio_args* args, AttentionArgs& to) {
  folio_args a = {};
  if (Status s = read(function, "args", args, a); !s.is_ok()) return s;
  if (Status s = convert(function, "args->q", a.q, to.q); !s.is_ok()) return s;
  if (Status s = convert(function, "args->out", a.out, to.out); !s.is_ok()) return s;
  if (Status s = convert(function, "args->bias", a.bias, to.bias); !s.is_ok()) return s;
  if (Status s = convert(function, "args->key", a.key, to.key); !s.is_ok()) return s;
  if (Status s = convert(function, "args->value", a.value, to.value); !s.is_ok()) return s;
  to.lse = a.lse;
  to.sink_logits = a.sink_logits;
  to.alibi_slopes = a.alibi_slopes;
  to.sink_stride = a.sink_stride;
  to.bias_sequence_stride_bytes = a.bias_sequence_stride_bytes;
  return {};
}

static_assert(sizeof(AttentionPlan) <= sizeof(folio_plan) &&
              std::is_trivially_copyable_v<AttentionPlan>);

AttentionPlan plan_of(const folio_plan& words) {
  AttentionPlan plan;
  std::memcpy(static_cast<void*>(&plan), &words, sizeof plan);
  return plan;
}

Status check_handles(const char* function, const folio_attention* attention,
                     const folio_plan* plan) {
  if (attention == nullptr) return null_argument(function, "attention");
  return plan == nullptr ? null_argument(function, "plan") : Status();
}

Status hand_out(const Result<AttentionPlan>& made, folio_plan* to) {
  if (!made) return made.error();
  *to = {};
  std::memcpy(to, &*made, sizeof *made);
  return {};
}

Status make_plan(const folio_attention* attention, const folio_batch* batch, MemorySpan memory,
                 folio_plan* to) {
  constexpr auto function = "folio_make_plan";
  if (Status s = check_handles(function, attention, to); !s.is_ok()) return s;
  Batch b;
  if (Status s = convert(function, batch, b); !s.is_ok()) return s;
  return hand_out(plan(attention->attention, b, memory), to);
}

static_assert(static_cast<int32_t>(BorrowedArrays::in_place) == FOLIO_IN_PLACE &&
              static_cast<int32_t>(BorrowedArrays::by_content) == FOLIO_BY_CONTENT);

Status get_fingerprint(const folio_attention* attention, const folio_batch* batch, int32_t arrays,
                       folio_plan_fingerprint* to) {
  constexpr auto function = "folio_get_plan_fingerprint";
  if (attention == nullptr) return null_argument(function, "attention");
  if (to == nullptr) return null_argument(function, "fingerprint");
  if (arrays != FOLIO_IN_PLACE && arrays != FOLIO_BY_CONTENT)
    return fail(Errc::invalid_argument,
                "{}: arrays is {}, expected FOLIO_IN_PLACE or FOLIO_BY_CONTENT", function, arrays);
  Batch b;
  if (Status s = convert(function, batch, b); !s.is_ok()) return s;
  const Result<PlanFingerprint> made =
      plan_fingerprint(attention->attention, b, static_cast<BorrowedArrays>(arrays));
  if (!made) return made.error();
  *to = {made->low, made->high};
  return {};
}

Status attend(const folio_attention* attention, const folio_plan* plan, const folio_args* args,
              MemorySpan workspace, const folio_executor* executor) {
  constexpr auto function = "folio_attend";
  if (Status s = check_handles(function, attention, plan); !s.is_ok()) return s;
  AttentionArgs a;
  if (Status s = read_args(function, args, a); !s.is_ok()) return s;
  ExecutorAdapter adapter;
  if (Status s = adapter.init(function, executor); !s.is_ok()) return s;
  return folio::attend(attention->attention, plan_of(*plan), a, workspace, adapter.get());
}

Status prepare(const folio_attention* attention, const folio_plan* plan, const folio_args* args,
               MemorySpan workspace) {
  constexpr auto function = "folio_prepare";
  if (Status s = check_handles(function, attention, plan); !s.is_ok()) return s;
  AttentionArgs a;
  if (Status s = read_args(function, args, a); !s.is_ok()) return s;
  return folio::prepare(attention->attention, plan_of(*plan), a, workspace);
}

Status attend_task(const folio_attention* attention, const folio_plan* plan, const folio_args* args,
                   MemorySpan workspace, int64_t task) {
  constexpr auto function = "folio_attend_task";
  if (Status s = check_handles(function, attention, plan); !s.is_ok()) return s;
  AttentionArgs a;
  if (Status s = read_args(function, args, a); !s.is_ok()) return s;
  const AttentionPlan p = plan_of(*plan);
  // a few hundred compares, so that arguments other than those prepared are an error here too
  if (Status s = check(attention->attention, p, a, "attend_task"); !s.is_ok()) return s;
  return folio::attend_task(attention->attention, p, a, workspace, task);
}

Status make_plan_async(const folio_attention* attention, const folio_batch* batch,
                       MemorySpan memory, void* stream, folio_plan* to) {
  constexpr auto function = "folio_make_plan_async";
  if (Status s = check_handles(function, attention, to); !s.is_ok()) return s;
  Batch b;
  if (Status s = convert(function, batch, b); !s.is_ok()) return s;
  return hand_out(plan_async(attention->attention, b, memory, {stream}), to);
}

Status prepare_async(const folio_attention* attention, MemorySpan workspace, void* stream) {
  if (attention == nullptr) return null_argument("folio_prepare_async", "attention");
  return folio::prepare_async(attention->attention, workspace, {stream});
}

Status attend_async(const folio_attention* attention, const folio_plan* plan,
                    const folio_args* args, MemorySpan workspace, void* stream) {
  constexpr auto function = "folio_attend_async";
  if (Status s = check_handles(function, attention, plan); !s.is_ok()) return s;
  AttentionArgs a;
  if (Status s = read_args(function, args, a); !s.is_ok()) return s;
  return folio::attend_async(attention->attention, plan_of(*plan), a, workspace, {stream});
}

Status merge(const folio_partial* parts, int64_t num_parts, const folio_tensor* out, float* lse,
             const folio_executor* executor) {
  constexpr auto function = "folio_merge";
  if (parts == nullptr) return null_argument(function, "parts");
  if (num_parts < 1 || num_parts > FOLIO_MAX_PARTS)
    return fail(Errc::invalid_argument, "{}: num_parts is {}, expected 1 to {}", function,
                num_parts, FOLIO_MAX_PARTS);
  std::array<Partial, FOLIO_MAX_PARTS> converted;
  for (int64_t i = 0; i < num_parts; ++i) {
    Partial& part = converted[static_cast<size_t>(i)];
    if (Status s = convert(function, "parts->out", parts[i].out, part.out); !s.is_ok()) return s;
    part.lse = parts[i].lse;
  }
  AnyTensor<3> to;
  if (Status s = convert(function, "out", out, to); !s.is_ok()) return s;
  ExecutorAdapter adapter;
  if (Status s = adapter.init(function, executor); !s.is_ok()) return s;
  return folio::merge(std::span(converted).first(static_cast<size_t>(num_parts)), to, lse,
                      adapter.get());
}

}  // namespace
}  // namespace folio::inline v1::c

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

folio_code folio_make_plan(const folio_attention* attention, const folio_batch* batch,
                           void* plan_memory, int64_t bytes, folio_plan* plan,
                           folio_message* message) {
  return c::report(c::make_plan(attention, batch, {plan_memory, bytes}, plan), message);
}

int64_t folio_get_num_tasks(const folio_plan* plan) {
  return plan == nullptr ? 0 : c::plan_of(*plan).num_tasks;
}

int64_t folio_get_keys_read(const folio_attention* attention, const folio_plan* plan) {
  if (attention == nullptr || plan == nullptr) return 0;
  return keys_read(attention->attention, c::plan_of(*plan));
}

folio_code folio_get_plan_fingerprint(const folio_attention* attention, const folio_batch* batch,
                                      int32_t arrays, folio_plan_fingerprint* fingerprint,
                                      folio_message* message) {
  return c::report(c::get_fingerprint(attention, batch, arrays, fingerprint), message);
}

folio_code folio_attend(const folio_attention* attention, const folio_plan* plan,
                        const folio_args* args, void* workspace, int64_t bytes,
                        const folio_executor* executor, folio_message* message) {
  return c::report(c::attend(attention, plan, args, {workspace, bytes}, executor), message);
}

folio_code folio_prepare(const folio_attention* attention, const folio_plan* plan,
                         const folio_args* args, void* workspace, int64_t bytes,
                         folio_message* message) {
  return c::report(c::prepare(attention, plan, args, {workspace, bytes}), message);
}

folio_code folio_attend_task(const folio_attention* attention, const folio_plan* plan,
                             const folio_args* args, void* workspace, int64_t bytes, int64_t task,
                             folio_message* message) {
  return c::report(c::attend_task(attention, plan, args, {workspace, bytes}, task), message);
}

folio_code folio_make_plan_async(const folio_attention* attention, const folio_batch* batch,
                                 void* plan_memory, int64_t bytes, void* stream, folio_plan* plan,
                                 folio_message* message) {
  return c::report(c::make_plan_async(attention, batch, {plan_memory, bytes}, stream, plan),
                   message);
}

folio_code folio_prepare_async(const folio_attention* attention, void* workspace, int64_t bytes,
                               void* stream, folio_message* message) {
  return c::report(c::prepare_async(attention, {workspace, bytes}, stream), message);
}

folio_code folio_attend_async(const folio_attention* attention, const folio_plan* plan,
                              const folio_args* args, void* workspace, int64_t bytes, void* stream,
                              folio_message* message) {
  return c::report(c::attend_async(attention, plan, args, {workspace, bytes}, stream), message);
}

folio_code folio_merge(const folio_partial* parts, int64_t num_parts, const folio_tensor* out,
                       float* lse, const folio_executor* executor, folio_message* message) {
  return c::report(c::merge(parts, num_parts, out, lse, executor), message);
}
