// SPDX-License-Identifier: Apache-2.0
/// python/src/kind.cpp: a kind of layer's options, and its Attentions made on demand.
#include "kind.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace folio::python {
namespace {

bool is_within(const AttentionLimits& needed, const AttentionLimits& limits) {
  return needed.batch <= limits.batch && needed.tokens <= limits.tokens &&
         needed.context <= limits.context && needed.parallelism == limits.parallelism;
}

/// The next power of two, so that steps that grow a little find what they need.
int32_t rounded_up(int32_t n) {
  constexpr uint32_t most = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(std::min(most, std::bit_ceil(static_cast<uint32_t>(std::max(n, 1)))));
}

AttentionLimits grown(const AttentionLimits& a, const AttentionLimits& b) {
  return {rounded_up(std::max(a.batch, b.batch)), rounded_up(std::max(a.tokens, b.tokens)),
          rounded_up(std::max(a.context, b.context)), b.parallelism};
}

Reproducible reproducible_of(const std::string& text) {
  if (text == "plan") return Reproducible::per_plan;
  if (text == "sequence") return Reproducible::per_sequence;
  if (text == "query") return Reproducible::per_query;
  refuse_argument("reproducible: expected \"plan\", \"sequence\" or \"query\", got \"{}\"", text);
}

int32_t at_least_one(int32_t n, const char* name) {
  if (n < 1) refuse_argument("{}: expected at least 1, got {}", name, n);
  return n;
}

Mask mask_of(nb::handle window, std::optional<int32_t> chunk, bool causal, int32_t sink_tokens) {
  Mask mask{-1, causal ? 0 : -1, 0, sink_tokens};
  int32_t keys = 0;
  std::pair<int32_t, int32_t> sides;
  if (window.is_none()) {
  } else if (nb::try_cast(window, keys)) {
    mask.left = at_least_one(keys, "window") - 1;
    if (!causal) mask.right = mask.left;
  } else if (nb::isinstance<nb::tuple>(window) && nb::len(window) == 2 &&
             nb::try_cast(window[0], sides.first) && nb::try_cast(window[1], sides.second)) {
    if (sides.first < -1 || sides.second < -1)
      refuse_argument("window: expected sides of at least -1 (unlimited), got ({}, {})",
                      sides.first, sides.second);
    mask.left = sides.first;
    if (!causal) mask.right = sides.second;
  } else {
    refuse_argument("window: expected a number of keys or (left, right), got {}",
                    nb::cast<std::string>(nb::repr(window)));
  }
  if (chunk.has_value()) mask.chunk = at_least_one(*chunk, "chunk");
  return mask;
}

void make_kind(Kind* self, int32_t q_heads, std::optional<float> scale,
               std::optional<float> softcap, nb::handle window, std::optional<int32_t> chunk,
               bool causal, int32_t sink_tokens, std::optional<int32_t> v_in_key,
               const std::string& reproducible, bool bf16_operands, bool int8_operands,
               bool q_is_turned) {
  AttentionProblem options;
  options.q_heads = at_least_one(q_heads, "q_heads");
  if (scale.has_value() && *scale == 0.0f)
    refuse_argument("scale: expected a number other than 0, or None for 1 / sqrt(head_size)");
  options.scale = scale.value_or(0.0f);
  options.softcap = softcap.value_or(0.0f);
  if (sink_tokens < 0) refuse_argument("sink_tokens: expected at least 0, got {}", sink_tokens);
  options.mask = mask_of(window, chunk, causal, sink_tokens);
  if (v_in_key.has_value()) {
    options.value_in_key = true;
    options.v_head_size = at_least_one(*v_in_key, "v_in_key");
  }
  options.reproducible = reproducible_of(reproducible);
  options.bf16_operands = bf16_operands;
  options.int8_operands = int8_operands;
  options.q_is_turned = q_is_turned;
  new (self) Kind(options);
}

const char* name_of(Reproducible reproducible) {
  switch (reproducible) {
    case Reproducible::per_plan: return "plan";
    case Reproducible::per_sequence: return "sequence";
    case Reproducible::per_query: return "query";
  }
  return "";
}

/// The constructor's arguments.
nb::dict state_of(const Kind& kind) {
  const AttentionProblem& options = kind.options();
  const Mask& mask = options.mask;
  nb::dict state;
  state["q_heads"] = options.q_heads;
  if (options.scale != 0.0f) state["scale"] = options.scale;
  state["softcap"] = options.softcap;
  state["causal"] = mask.right == 0;
  state["window"] = nb::make_tuple(mask.left, mask.right);
  if (mask.chunk != 0) state["chunk"] = mask.chunk;
  state["sink_tokens"] = mask.sink_tokens;
  if (options.value_in_key) state["v_in_key"] = options.v_head_size;
  state["reproducible"] = name_of(options.reproducible);
  state["bf16_operands"] = options.bf16_operands;
  state["int8_operands"] = options.int8_operands;
  state["q_is_turned"] = options.q_is_turned;
  return state;
}

nb::object why_not(const CallOptions& call, const Kind& kind, const Pages& pages) {
  const char* reason = refuse(kind.problem(pages.planes(), call));
  return reason == nullptr ? nb::none() : nb::object(nb::str(reason));
}

}  // namespace

AttentionProblem Kind::problem(const KVPlanes& planes, const CallOptions& call) const {
  AttentionProblem p = options_;
  p.key = planes.key;
  p.value = p.value_in_key ? PagedKVView{} : planes.value;
  p.q_dtype = call.q_dtype;
  p.out_dtype = call.out_dtype;
  p.sink_logits = call.sink_logits;
  p.alibi = call.alibi;
  p.bias = call.bias;
  p.intervals = call.intervals;
  p.tree = call.tree;
  p.selection = call.selection;
  p.selection_per_head = call.selection_per_head;
  p.sink_per_query = call.sink_per_query;
  p.sink_dtype = call.sink_dtype;
  p.bias_per_sequence = call.bias_per_sequence;
  p.bias_dtype = call.bias_dtype;
  p.alibi_positions = call.alibi_positions;
  return p;
}

Attention Kind::attention(const Pages& pages, const CallOptions& call,
                          const AttentionLimits& limits) {
  const AttentionProblem selection = problem(pages.selection(), call);
  const std::lock_guard lock(mutex_);
  for (Ready& ready : ready_) {
    if (ready.selection != selection) continue;
    if (!is_within(limits, ready.attention.limits()))
      ready.attention = take(ready.attention.with_limits(grown(limits, ready.attention.limits())));
    return ready.attention;
  }
  const AttentionLimits rounded = grown(limits, {1, 1, 1, limits.parallelism});
  ready_.push_back({selection, take(Attention::create(problem(pages.planes(), call), rounded))});
  return ready_.back().attention;
}

void bind_kind(nb::module_& m) {
  nb::class_<Kind>(m, "Kind", "A kind of layer: what selects kernels, shared by its layers.")
      .def("__init__", &make_kind, nb::arg("q_heads"), nb::kw_only(),
           nb::arg("scale").none() = nb::none(), nb::arg("softcap").none() = nb::none(),
           nb::arg("window").none() = nb::none(), nb::arg("chunk").none() = nb::none(),
           nb::arg("causal") = true, nb::arg("sink_tokens") = 0,
           nb::arg("v_in_key").none() = nb::none(), nb::arg("reproducible") = "plan",
           nb::arg("bf16_operands") = false, nb::arg("int8_operands") = false,
           nb::arg("q_is_turned") = false,
           R"(The options of attention that all layers of a kind share.

q_heads: query heads, a multiple of the pages' kv_heads.
scale: of q . k; None: 1 / sqrt(head_size). softcap: softcap * tanh(x / softcap) of the scaled
    product; None or 0: none.
window: the last so many keys, the query's own included (both sides where not causal), or
    (left, right) with -1 for no limit; right counts where not causal.
chunk: attention within aligned chunks of positions.
sink_tokens: the first keys stay visible behind every window: for full layers that are cut when they
    serve, where 1 is mostly enough; a model's own window layers get far worse (docs/llama_cpp.md).
v_in_key: MLA, V is the first so many columns of K's row.
reproducible: what the bits of a result depend on: "plan", "sequence" or "query".
bf16_operands: q, K and V of f32 and f16 may be rounded to bf16 before they are multiplied, where
    that is faster: the error is that of bf16 caches. Without effect where reproducible="query".
int8_operands: with pages of i8 or four bits, q may be rounded to 8 bits by row, and softmax
    weights by tile, where that is faster: an element of q moves by 1/254 of the greatest of its
    row at the most, a weight by 1/510 (over i8 1/254) of its tile's. Without effect where
    reproducible="query".
q_is_turned: q comes turned for the pages (rotate's `pages`); otherwise attention turns it, where K
    is rotated or has channel scales.

Raises Error for numbers out of range; what no kernel serves is refused by the first call.)")
      .def("__getstate__", &state_of)
      .def("__setstate__",
           [](nb::handle self, const nb::dict& state) { self.attr("__init__")(**state); });
  def_with_call_options(
      [&](const auto&... function) { m.def("why_not", function...); }, &why_not, nb::arg("kind"),
      nb::arg("pages"), nb::kw_only(),
      "The reason why no kernel serves such calls, or None. Options as for an Attention.");
}

}  // namespace folio::python
