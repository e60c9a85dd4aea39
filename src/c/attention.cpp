// SPDX-License-Identifier: Apache-2.0
/// src/c/attention.cpp: attention through the C interface: kernels, handles, executors.
#include <algorithm>
#include <new>
#include <string_view>

#include "c/convert.h"
#include "c/handle.h"
#include "c/problem.h"
#include "folio/attention/plan.h"

namespace folio::inline v1::c {
namespace {

Status read_limits(const char* function, const folio_limits* limits, AttentionLimits& to) {
  folio_limits l = {};
  if (Status s = read(function, "limits", limits, l); !s.is_ok()) return s;
  to = {.batch = l.batch, .tokens = l.tokens, .context = l.context, .parallelism = l.parallelism};
  if (l.shared_levels == 0) return {};
  if (l.shared_levels < -1)
    return fail(Errc::invalid_argument, "{}: limits.shared_levels is {}, expected -1 to 8",
                function, l.shared_levels);
  to.shared_levels = std::max(0, l.shared_levels);
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
  folio_problem whole;
  AttentionProblem p;
  AttentionLimits l;
  if (Status s = read_problem(function, problem, whole, p); !s.is_ok()) return s;
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
  folio_problem whole;
  AttentionProblem p;
  const Result<Device> device = c::device_of("folio_refuse", device_kind, device_index);
  if (!device || !c::read_problem("folio_refuse", problem, whole, p).is_ok())
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
