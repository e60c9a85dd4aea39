// SPDX-License-Identifier: Apache-2.0
/// src/c/attention.cpp: attention through the C interface: problems, kernels, handles.
#include <new>
#include <string_view>

#include "c/convert.h"
#include "c/handle.h"
#include "folio/attention/plan.h"
#include "folio/core/element.h"

namespace folio::inline v1::c {
namespace {

Status read_problem(const char* function, const folio_problem* problem, AttentionProblem& to) {
  folio_problem p = {};
  p.mask_left = -1;
  if (Status s = read(function, "problem", problem, p); !s.is_ok()) return s;
  if (p.key == nullptr) return null_argument(function, "problem->key");
  constexpr int32_t known = 2 * FOLIO_INT8_OPERANDS - 1;
  if ((p.options & ~known) != 0)
    return fail(Errc::unsupported, "{}: problem->options is {}, expected bits of {} only", function,
                p.options, known);
  if (p.reproducible < 0 || p.reproducible > FOLIO_PER_QUERY)
    return fail(Errc::invalid_argument, "{}: problem->reproducible is {}, expected 0 to 2",
                function, p.reproducible);
  if (Status s = convert(function, "problem->key", p.key, to.key); !s.is_ok()) return s;
  if (Status s = convert(function, "problem->value", p.value, to.value); !s.is_ok()) return s;
  to.q_dtype = dtype_of(p.q_dtype);
  to.out_dtype = dtype_of(p.out_dtype);
  to.q_heads = p.q_heads;
  to.v_head_size = p.v_head_size;
  to.mask = {p.mask_left, p.mask_right, p.mask_chunk, p.mask_sink_tokens};
  to.value_in_key = (p.options & FOLIO_VALUE_IN_KEY) != 0;
  to.sink_logits = (p.options & FOLIO_SINK_LOGITS) != 0;
  to.alibi = (p.options & FOLIO_ALIBI) != 0;
  to.bias = (p.options & FOLIO_BIAS) != 0;
  to.intervals = (p.options & FOLIO_INTERVALS) != 0;
  to.tree = (p.options & FOLIO_TREE) != 0;
  to.selection = (p.options & FOLIO_SELECTION) != 0;
  to.sink_per_query = (p.options & FOLIO_SINK_PER_QUERY) != 0;
  to.sink_dtype = p.sink_dtype == 0 ? DType::f32 : dtype_of(p.sink_dtype);
  to.bias_per_sequence = (p.options & FOLIO_BIAS_PER_SEQUENCE) != 0;
  to.bias_dtype = p.bias_dtype == 0 ? DType::f32 : dtype_of(p.bias_dtype);
  to.alibi_positions = (p.options & FOLIO_ALIBI_POSITIONS) != 0;
  to.bf16_operands = (p.options & FOLIO_BF16_OPERANDS) != 0;
  to.int8_operands = (p.options & FOLIO_INT8_OPERANDS) != 0;
  to.scale = p.scale;
  to.softcap = p.softcap;
  to.reproducible = static_cast<Reproducible>(p.reproducible);
  return {};
}

Status read_limits(const char* function, const folio_limits* limits, AttentionLimits& to) {
  folio_limits l = {};
  if (Status s = read(function, "limits", limits, l); !s.is_ok()) return s;
  to = {l.batch, l.tokens, l.context, l.parallelism};
  return {};
}

/// A handle of the caller's.
Status hand_out(const char* function, const Result<Attention>& made, folio_attention** to) {
  if (!made) return made.error();
  *to = new (std::nothrow) folio_attention{*made};
  return *to != nullptr ? Status()
                        : fail(Errc::out_of_memory, "{}: no memory for the handle", function);
}

Status create(const folio_problem* problem, const folio_limits* limits, Device device,
              const char* kernel, folio_attention** attention) {
  constexpr auto function = "folio_create_attention";
  AttentionProblem p;
  AttentionLimits l;
  if (Status s = read_problem(function, problem, p); !s.is_ok()) return s;
  if (Status s = read_limits(function, limits, l); !s.is_ok()) return s;
  const Result<Attention> made = Attention::create(p, l, device, kernel == nullptr ? "" : kernel);
  return hand_out(function, made, attention);
}

Status with_limits(const folio_attention* attention, const folio_limits* limits,
                   folio_attention** made) {
  constexpr auto function = "folio_attention_with_limits";
  if (attention == nullptr) return null_argument(function, "attention");
  AttentionLimits l;
  if (Status s = read_limits(function, limits, l); !s.is_ok()) return s;
  return hand_out(function, attention->attention.with_limits(l), made);
}

Status with_mask(const folio_attention* attention, const folio_mask* mask, folio_attention** made) {
  constexpr auto function = "folio_attention_with_mask";
  if (attention == nullptr) return null_argument(function, "attention");
  folio_mask m = {};
  m.left = -1;
  if (Status s = read(function, "mask", mask, m); !s.is_ok()) return s;
  return hand_out(function,
                  attention->attention.with_mask({m.left, m.right, m.chunk, m.sink_tokens}), made);
}

/// A function that throws nothing serves where one that may is expected; what differs is the type
/// of `task`, which folio made itself.
folio_code hand_out(const char* function, const Executor& own, folio_executor* executor,
                    folio_message* message) {
  folio_executor filled = {};
  filled.context = own.context;
  filled.concurrency = own.concurrency;
  filled.parallel_for = reinterpret_cast<decltype(filled.parallel_for)>(own.parallel_for);
  return report(write(function, "executor", filled, executor), message);
}

}  // namespace
}  // namespace folio::inline v1::c

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

const char* folio_refuse(const folio_problem* problem, int32_t device_kind, int32_t device_index) {
  AttentionProblem p;
  const Result<Device> device = c::device_of("folio_refuse", device_kind, device_index);
  if (!device || !c::read_problem("folio_refuse", problem, p).is_ok())
    return "the problem or the device is broken; folio_create_attention names the argument";
  return refuse(p, *device);
}

folio_code folio_create_attention(const folio_problem* problem, const folio_limits* limits,
                                  int32_t device_kind, int32_t device_index, const char* kernel,
                                  folio_attention** attention, folio_message* message) {
  if (attention == nullptr)
    return c::report(c::null_argument("folio_create_attention", "attention"), message);
  *attention = nullptr;
  const Result<Device> device = c::device_of("folio_create_attention", device_kind, device_index);
  if (!device) return c::report(device.error(), message);
  return c::report(c::create(problem, limits, *device, kernel, attention), message);
}

folio_code folio_attention_with_limits(const folio_attention* attention, const folio_limits* limits,
                                       folio_attention** made, folio_message* message) {
  if (made == nullptr)
    return c::report(c::null_argument("folio_attention_with_limits", "made"), message);
  *made = nullptr;
  return c::report(c::with_limits(attention, limits, made), message);
}

folio_code folio_attention_with_mask(const folio_attention* attention, const folio_mask* mask,
                                     folio_attention** made, folio_message* message) {
  if (made == nullptr)
    return c::report(c::null_argument("folio_attention_with_mask", "made"), message);
  *made = nullptr;
  return c::report(c::with_mask(attention, mask, made), message);
}

void folio_destroy_attention(folio_attention* attention) { delete attention; }

// Names of the kernel list are string literals: they end in a zero.
const char* folio_get_kernel(const folio_attention* attention) {
  return attention == nullptr ? "" : attention->attention.kernel().data();
}

int64_t folio_get_plan_bytes(const folio_attention* attention) {
  return attention == nullptr ? 0 : attention->attention.plan_bytes();
}

int64_t folio_get_workspace_bytes(const folio_attention* attention) {
  return attention == nullptr ? 0 : attention->attention.workspace_bytes();
}

folio_code folio_get_default_executor(int32_t threads, folio_executor* executor,
                                      folio_message* message) {
  return c::hand_out("folio_get_default_executor", default_executor(threads), executor, message);
}

folio_code folio_get_thread_pool_executor(int32_t threads, folio_executor* executor,
                                          folio_message* message) {
  return c::hand_out("folio_get_thread_pool_executor", thread_pool_executor(threads), executor,
                     message);
}

int32_t folio_get_num_kernels(void) { return Attention::kernel_count(); }

const char* folio_get_kernel_name(int32_t index) {
  const std::string_view name = Attention::kernel_name(index).name;
  return name.empty() ? "" : name.data();  // a literal, as above
}

uint32_t folio_get_version(void) { return 1u << 16; }

const char* folio_get_code_name(folio_code code) {
  return code >= FOLIO_OK && code <= FOLIO_INTERNAL ? name(static_cast<Errc>(code)) : "unknown";
}
