// SPDX-License-Identifier: Apache-2.0
/// python/src/functions.cpp: the thin face: `Rope`, `Attention`, `plan`, `attend`, `append`,
/// `rotate`, `merge`, as in C++.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <string>

#include "bindings.h"
#include "calls.h"
#include "executor.h"
#include "folio/attention/merge.h"
#include "without_gil.h"

namespace folio::python {
namespace {

/// An Attention and the kind that it serves.
struct ThinAttention {
  nb::object kind;
  Attention attention;
};

struct Plan {
  nb::object batch;  // borrowed by the plan
  AttentionPlan plan;
  Scratch memory;
};

void make_rope(RopeTable* self, nb::handle cos_sin, bool interleaved, int32_t first_dim,
               nb::handle positions) {
  RopeTable table;
  table.cos_sin = array_of(cos_sin, "cos_sin");
  const Array& a = table.cos_sin;
  expect_ndim(a, 2, "[rows, dims]");
  if (a.dtype != DType::f32 || (a.extent[1] > 1 && a.stride[1] != 1) ||
      (a.extent[0] > 1 && a.stride[0] != a.extent[1]) || !std::in_range<int32_t>(a.extent[1]))
    refuse_argument("cos_sin: expected contiguous f32[rows, dims], got {}", a.description());
  table.rope.cos_sin = static_cast<const float*>(a.data);
  table.rope.rows = a.extent[0];
  table.rope.dims = static_cast<int32_t>(a.extent[1]);
  table.rope.interleaved = interleaved;
  table.rope.first_dim = first_dim;
  if (!positions.is_none()) {
    table.positions = int32_of(positions, "positions");
    table.rope.positions = table.positions.data();  // moves with the vector
  }
  new (self) RopeTable(std::move(table));
}

void make_attention(const CallOptions& call, ThinAttention* self, nb::handle_t<Kind> kind,
                    const Pages& pages, int32_t batch, int32_t tokens, int32_t context,
                    int32_t parallelism, const std::string& kernel) {
  const AttentionProblem problem = nb::cast<const Kind&>(kind).problem(pages.planes(), call);
  if (parallelism == 0) {
    const Executor executor = current_executor();
    parallelism = executor.concurrency(executor.context);
  }
  const AttentionLimits limits{batch, tokens, context, parallelism};
  new (self) ThinAttention{nb::borrow(kind), take(Attention::create(problem, limits, {}, kernel))};
}

ThinAttention with_limits(const ThinAttention& a, std::optional<int32_t> batch,
                          std::optional<int32_t> tokens, std::optional<int32_t> context) {
  AttentionLimits limits = a.attention.limits();
  limits.batch = batch.value_or(limits.batch);
  limits.tokens = tokens.value_or(limits.tokens);
  limits.context = context.value_or(limits.context);
  return {a.kind, take(a.attention.with_limits(limits))};
}

Plan make_plan(const ThinAttention& attention, nb::handle_t<BatchHolder> batch) {
  const auto& holder = nb::cast<const BatchHolder&>(batch);
  holder.expect_room(attention.attention.problem().key.page_size);
  Scratch memory(attention.attention.plan_bytes());
  const AttentionPlan made = take(plan(attention.attention, holder.batch(), memory.span()));
  return {nb::borrow(batch), made, std::move(memory)};
}

nb::object attend_plan(const ThinAttention& attention, const Plan& plan, const Pages& pages,
                       nb::handle q, nb::handle bias, nb::handle sinks, nb::handle alibi,
                       nb::handle out, nb::handle lse) {
  const AttendCall call({q, bias, sinks, alibi, out, lse}, nb::cast<const Kind&>(attention.kind),
                        pages, nb::cast<const BatchHolder&>(plan.batch));
  call.expect_forms(attention.attention.problem());
  const Scratch workspace(attention.attention.workspace_bytes());
  const Executor executor = current_executor();
  Status status;
  {
    const WithoutGil released;
    status = attend(attention.attention, plan.plan, call.args(), workspace.span(), executor);
  }
  status.or_throw();
  return call.result();
}

nb::object merge_parts(const nb::sequence& outs, const nb::sequence& lses, nb::handle out) {
  const size_t count = nb::len(outs);
  if (count == 0 || nb::len(lses) != count)
    refuse_argument("lses: expected one for each of {} outs (at least one), got {}", count,
                    nb::len(lses));
  std::vector<Array> arrays;
  std::vector<Partial> parts;
  arrays.reserve(2 * count);
  for (size_t i = 0; i < count; ++i) {
    const Array& o = arrays.emplace_back(array_of(outs[i], "outs"));
    Partial part{tensor_of(o), nullptr};
    Array& lse = arrays.emplace_back();
    if (lses[i].is_none()) refuse_argument("lses[{}]: expected an array, got None", i);
    part.lse = floats_of(lses[i], "lses", {o.extent[0], o.extent[1]}, lse);
    if (lse.extent[0] != o.extent[0])
      refuse_argument("lses[{}]: expected {} rows as outs[{}], got {}", i, o.extent[0], i,
                      lse.description());
    parts.push_back(part);
  }
  const Array& first = arrays.front();
  const nb::object made =
      out.is_none() ? empty_like(outs[0], first,
                                 {first.extent[0], first.extent[1], first.extent[2]}, first.dtype)
                    : nb::borrow(out);
  const nb::object lse = empty_like(outs[0], first, {first.extent[0], first.extent[1]}, DType::f32);
  const Array target = writable_array_of(made, "out");
  const AnyTensor<3> tensor = writable_tensor_of(target);
  if (!std::equal(target.extent, target.extent + 3, first.extent))
    refuse_argument("out: expected the shape of outs, {}, got {}", first.description(),
                    target.description());
  auto* lse_data = static_cast<float*>(array_of(lse, "lse").data);
  const Executor executor = current_executor();
  Status status;
  {
    const WithoutGil released;
    status = merge(parts, tensor, lse_data, executor);
  }
  status.or_throw();
  return nb::make_tuple(made, lse);
}

void bind_attention(nb::module_& m) {
  const auto none = nb::none();
  nb::class_<ThinAttention> attention(m, "Attention", "The kernel of one problem, and its limits.");
  def_with_call_options([&](const auto&... function) { attention.def("__init__", function...); },
                        &make_attention, nb::arg("kind"), nb::arg("pages"), nb::kw_only(),
                        nb::arg("batch"), nb::arg("tokens"), nb::arg("context"),
                        nb::arg("parallelism") = 0, nb::arg("kernel") = "",
                        R"(Selects the kernel for a kind of layer over pages like these.

batch, tokens, context: the most sequences, new tokens and keys of a sequence that will come.
sinks ... alibi_positions: which optional inputs will come with every call, and in which form
    (sinks_per_query: [tokens, q_heads]; bias_per_sequence: four dimensions). The slots of a list
    count as context does. kernel: a name of kernels().

Raises Unsupported with the reason where no kernel serves this, Error for numbers out of range.)");
  attention
      .def_prop_ro("kernel",
                   [](const ThinAttention& a) { return std::string(a.attention.kernel()); })
      .def_prop_ro("plan_bytes", [](const ThinAttention& a) { return a.attention.plan_bytes(); })
      .def_prop_ro("workspace_bytes",
                   [](const ThinAttention& a) { return a.attention.workspace_bytes(); })
      .def("with_limits", &with_limits, nb::kw_only(), nb::arg("batch").none() = none,
           nb::arg("tokens").none() = none, nb::arg("context").none() = none,
           "The same kernel within other limits. Raises Error as the constructor.");
  nb::class_<Plan>(m, "Plan", "The work list of one step.")
      .def_prop_ro("num_tasks", [](const Plan& p) { return p.plan.num_tasks; });
  m.def("plan", &make_plan, nb::arg("attention"), nb::arg("batch"),
        "Cuts a batch into tasks. Raises Error for a batch beyond the limits or a short table.");
  m.def("attend", &attend_plan, nb::arg("attention"), nb::arg("plan"), nb::arg("pages"),
        nb::arg("q"), nb::kw_only(), nb::arg("bias").none() = none, nb::arg("sinks").none() = none,
        nb::arg("alibi").none() = none, nb::arg("out").none() = none, nb::arg("lse").none() = none,
        "Attention of a plan's batch over pages. Arguments and errors as for a Step.");
}

}  // namespace

void bind_functions(nb::module_& m) {
  const auto none = nb::none();
  nb::class_<RopeTable>(m, "Rope", "Rotary embedding by table.")
      .def("__init__", &make_rope, nb::arg("cos_sin"), nb::kw_only(),
           nb::arg("interleaved") = false, nb::arg("first_dim") = 0,
           nb::arg("positions").none() = none,
           R"(cos_sin: f32 [rows, dims], dims / 2 cosines then dims / 2 sines of each position.

interleaved: pairs are neighbours (GPT-J) instead of halves (GPT-NeoX, Llama). first_dim: the first
rotated dimension. positions: [tokens] rows of the table; None: the tokens' positions.)");
  bind_attention(m);
  m.def(
      "append",
      [](const BatchHolder* batch, const Pages& pages, nb::handle k, nb::handle v, nb::handle slots,
         const RopeTable* rope, nb::handle k_norm, float norm_eps, nb::handle k_norm_shift,
         const Pages* summaries) {
        append_rows(batch, pages, {k, v, slots, rope, {k_norm, k_norm_shift, norm_eps}, summaries});
      },
      nb::arg("batch").none(), nb::arg("pages"), nb::arg("k"), nb::arg("v").none() = none,
      nb::kw_only(), nb::arg("slots").none() = none, nb::arg("rope").none() = none,
      nb::arg("k_norm").none() = none, nb::arg("norm_eps") = 1e-6f,
      nb::arg("k_norm_shift").none() = none, nb::arg("summaries").none() = none,
      R"(Writes k and v into pages. Without a batch: as many rows as there are slots.

Arguments and errors as for a Step; nothing is written where it raises.)");
  m.def(
      "rotate",
      [](const BatchHolder* batch, nb::handle q, const RopeTable* rope, nb::handle q_norm,
         float norm_eps, nb::handle out, const Pages* pages, nb::handle q_norm_shift) {
        return rotate_q(batch, q, rope, {{q_norm, q_norm_shift, norm_eps}, pages}, out);
      },
      nb::arg("batch").none(), nb::arg("q"), nb::kw_only(), nb::arg("rope").none() = none,
      nb::arg("q_norm").none() = none, nb::arg("norm_eps") = 1e-6f, nb::arg("out").none() = none,
      nb::arg("pages").none() = none, nb::arg("q_norm_shift").none() = none,
      R"(RMSNorm (q_norm), or LayerNorm (q_norm and q_norm_shift), then rotary embedding (rope) of q
[tokens, heads, dim].

Without a batch the rope needs positions. out: an array to write, q itself too; None: one of q's
library. pages: q is turned for their keys, last of all, where they are rotated or have channel
scales: for a Kind with q_is_turned. Raises Error for what does not fit.)");
  m.def("merge", &merge_parts, nb::arg("outs"), nb::arg("lses"), nb::kw_only(),
        nb::arg("out").none() = none,
        R"(Joins attention over disjoint sets of keys: (out, lse).

outs: arrays [tokens, heads, dim]; lses: contiguous f32 [tokens, heads], natural logarithms; where
one is infinite, of either sign, its row of outs is not read. Raises Error where shapes do not
agree.)");
}

}  // namespace folio::python
