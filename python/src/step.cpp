// SPDX-License-Identifier: Apache-2.0
/// python/src/step.cpp: one call per layer.
#include "step.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "executor.h"
#include "select.h"
#include "select_pages.h"
#include "without_gil.h"

namespace folio::python {
namespace {

bool are_equal(const KVPlanes& a, const KVPlanes& b) {
  return a.key == b.key && a.value == b.value;
}

/// Rows for a rotated q, dense, of q's dtype.
AnyTensor<3> scratch_rows(const ConstTensor<3>& q, Scratch& memory) {
  memory = Scratch(q.extent[0] * q.extent[1] * q.extent[2] * (bit_width(q.dtype) / 8));
  return dense_tensor<3>(memory.data(), q.dtype, {q.extent[0], q.extent[1], q.extent[2]});
}

void expect_none_without_k(const AppendArrays& rows) {
  const std::pair<const char*, nb::handle> given[] = {{"v", rows.v},
                                                      {"slots", rows.slots},
                                                      {"k_norm", rows.k_norm.weights},
                                                      {"k_norm_shift", rows.k_norm.shifts}};
  for (const auto& [name, array] : given)
    if (!array.is_none()) refuse_argument("{}: given without k", name);
  if (rows.summaries != nullptr) refuse_argument("summaries: given without k");
}

nb::object call_step(Step& step, nb::handle_t<Kind> kind, const Pages& pages, nb::handle q,
                     nb::handle k, nb::handle v, nb::handle slots, const RopeTable* rope,
                     nb::handle q_norm, nb::handle k_norm, float norm_eps, nb::handle bias,
                     nb::handle sinks, nb::handle alibi, nb::handle out, nb::handle lse,
                     nb::handle q_norm_shift, nb::handle k_norm_shift, const Pages* summaries) {
  const AppendArrays rows{k, v, slots, rope, {k_norm, k_norm_shift, norm_eps}, summaries};
  if (k.is_none()) expect_none_without_k(rows);
  return step.attend(kind, pages, {q, bias, sinks, alibi, out, lse}, rope,
                     {q_norm, q_norm_shift, norm_eps}, k.is_none() ? nullptr : &rows);
}

}  // namespace

const Step::Planned& Step::planned(nb::handle kind, const Pages& pages, const CallOptions& call) {
  const std::lock_guard lock(mutex_);
  for (const Planned& p : plans_)
    if (p.kind.ptr() == kind.ptr() && p.call == call && are_equal(p.selection, pages.selection()))
      return p;
  expect_room(pages.planes().key.page_size);
  const Executor executor = current_executor();
  const AttentionLimits limits{batch().size, static_cast<int32_t>(tokens()), max_keys(),
                               executor.concurrency(executor.context)};
  Attention attention = nb::cast<Kind&>(kind).attention(pages, call, limits);
  Scratch memory(attention.plan_bytes());
  const AttentionPlan made = take(plan(attention, batch(), memory.span()));
  plans_.push_back({nb::borrow(kind), pages.selection(), call, attention, made, std::move(memory)});
  return plans_.back();
}

std::vector<int64_t> Step::keys_read() {
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> keys;
  for (const Planned& p : plans_) keys.push_back(folio::keys_read(p.attention, p.plan));
  return keys;
}

nb::object Step::attend(nb::handle kind, const Pages& pages, const AttendArrays& arrays,
                        const RopeTable* rope, const NormArrays& q_norm, const AppendArrays* rows) {
  AttendCall call(arrays, nb::cast<const Kind&>(kind), pages, *this);
  Scratch rotated;
  const bool has_norm = !q_norm.weights.is_none() || !q_norm.shifts.is_none();
  if (rope != nullptr || has_norm) {
    if (nb::cast<const Kind&>(kind).options().q_is_turned)
      refuse_argument("{}: given for a kind with q_is_turned, expected q from rotate",
                      rope != nullptr ? "rope" : "q_norm");
    const AnyTensor<3> turned = scratch_rows(call.args().q, rotated);
    rotate_rows(this, array_of(arrays.q, "q"), rope, {q_norm}, turned);
    call.set_q(turned);
  }
  const Planned& p = planned(kind, pages, call.options());
  const Scratch workspace(p.attention.workspace_bytes());
  const Executor executor = current_executor();
  // Nothing is written before all arguments are known to be good.
  check(p.attention, p.plan, call.args(), "attend").or_throw();
  if (rows != nullptr) append_rows(this, pages, *rows);
  Status status;
  {
    const WithoutGil released;
    status = folio::attend(p.attention, p.plan, call.args(), workspace.span(), executor);
  }
  status.or_throw();
  return call.result();
}

void bind_step(nb::module_& m) {
  nb::class_<Step, BatchHolder> type(
      m, "Step", "A batch that makes the plans of its layers: one call per layer.");
  bind_batch_constructor(type, "As Batch. Plans are made by the first layer of each kind.");
  const auto none = nb::none();
  type.def("__call__", &call_step, nb::arg("kind"), nb::arg("pages"), nb::arg("q"),
           nb::arg("k").none() = none, nb::arg("v").none() = none, nb::kw_only(),
           nb::arg("slots").none() = none, nb::arg("rope").none() = none,
           nb::arg("q_norm").none() = none, nb::arg("k_norm").none() = none,
           nb::arg("norm_eps") = 1e-6f, nb::arg("bias").none() = none,
           nb::arg("sinks").none() = none, nb::arg("alibi").none() = none,
           nb::arg("out").none() = none, nb::arg("lse").none() = none,
           nb::arg("q_norm_shift").none() = none, nb::arg("k_norm_shift").none() = none,
           nb::arg("summaries").none() = none,
           R"(Writes k and v into the pages, where they are given, and attends.

q: [tokens, q_heads, head_size]; k, v: [tokens, kv_heads, head_size]; f32, bf16 or f16, any strides
    of tokens and heads. Rows beyond the batch's tokens are padding: they are ignored.
slots: int64 [tokens] page * page_size + offset, negative to skip; None: by table and lengths.
rope, q_norm, k_norm: rotate and normalise q and k on the way; the norms are f32 [head_size]:
    RMSNorm, with q_norm_shift and k_norm_shift of the same shape LayerNorm.
bias: [q_heads or 1, tokens, keys], or for each sequence [batch or 1, q_heads or 1, new tokens,
    keys], added to the logits; -inf hides. sinks: sink logits [q_heads], or of each query
    [tokens, q_heads]. Both f32, bf16 or f16. alibi: f32 [q_heads] slopes.
out: [tokens, q_heads, v_head_size] to write; None: an array of q's library and dtype.
lse: f32 [tokens, q_heads] to write; True: the result is (out, lse).
summaries: of the pages (summarise), brought up to date with k.

Raises Error for arrays that do not fit, Unsupported where no kernel serves the call.)");
  bind_select(type);
  bind_select_pages(type);
  type.def_prop_ro(
      "keys_read", &Step::keys_read,
      "Of each plan made so far: keys of a KV head that it fetches. Pages that sequences share are "
      "fetched once for all, where that saves time.");
  type.def(
      "append",
      [](Step& step, const Pages& pages, nb::handle k, nb::handle v, nb::handle slots,
         const RopeTable* rope, nb::handle k_norm, float norm_eps, nb::handle k_norm_shift,
         const Pages* summaries) {
        append_rows(&step, pages, {k, v, slots, rope, {k_norm, k_norm_shift, norm_eps}, summaries});
      },
      nb::arg("pages"), nb::arg("k"), nb::arg("v").none() = none, nb::kw_only(),
      nb::arg("slots").none() = none, nb::arg("rope").none() = none,
      nb::arg("k_norm").none() = none, nb::arg("norm_eps") = 1e-6f,
      nb::arg("k_norm_shift").none() = none, nb::arg("summaries").none() = none,
      "Writes k and v of the new tokens into the pages. Arguments and errors as for a call.");
  type.def(
      "attend",
      [](Step& step, nb::handle_t<Kind> kind, const Pages& pages, nb::handle q, nb::handle bias,
         nb::handle sinks, nb::handle alibi, nb::handle out, nb::handle lse) {
        return step.attend(kind, pages, {q, bias, sinks, alibi, out, lse}, nullptr, {}, nullptr);
      },
      nb::arg("kind"), nb::arg("pages"), nb::arg("q"), nb::kw_only(), nb::arg("bias").none() = none,
      nb::arg("sinks").none() = none, nb::arg("alibi").none() = none, nb::arg("out").none() = none,
      nb::arg("lse").none() = none, "Attention alone. Arguments and errors as for a call.");
  type.def(
      "rotate",
      [](const Step& step, nb::handle q, const RopeTable* rope, nb::handle q_norm, float norm_eps,
         nb::handle out, const Pages* pages, nb::handle q_norm_shift) {
        return rotate_q(&step, q, rope, {{q_norm, q_norm_shift, norm_eps}, pages}, out);
      },
      nb::arg("q"), nb::kw_only(), nb::arg("rope").none() = none, nb::arg("q_norm").none() = none,
      nb::arg("norm_eps") = 1e-6f, nb::arg("out").none() = none, nb::arg("pages").none() = none,
      nb::arg("q_norm_shift").none() = none,
      "Norm, rotary embedding and turn of q alone. Arguments and errors as for rotate().");
  type.def(
      "over",
      [](Step& step, nb::handle_t<Kind> kind, const Pages& pages, nb::handle q, nb::handle k,
         nb::handle v, nb::handle sinks, nb::handle alibi, nb::handle out, nb::handle lse) {
        return attend_over(step, kind, pages, {q, nb::none(), sinks, alibi, out, lse}, k, v);
      },
      nb::arg("kind"), nb::arg("pages"), nb::arg("q"), nb::arg("k"), nb::arg("v").none() = none,
      nb::kw_only(), nb::arg("sinks").none() = none, nb::arg("alibi").none() = none,
      nb::arg("out").none() = none, nb::arg("lse").none() = none,
      R"(Attends over the cached keys and over k and v as they are, then appends k and v.

For caches whose new rows overwrite what the first of them still sees (rings). A tree and slots are
refused. Arguments and errors as for a call.)");
}

}  // namespace folio::python
