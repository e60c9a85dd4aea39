// SPDX-License-Identifier: Apache-2.0
/// python/src/select.cpp: lists of the keys that score best.
#include "select.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "executor.h"
#include "folio/sparse/select.h"
#include "without_gil.h"

namespace folio::python {
namespace {

/// What scores a key, beside q and weights.
struct IndexOptions {
  bool relu = true;
  std::optional<float> scale;
  std::optional<int32_t> window;
};

struct IndexArrays {
  nb::handle q, weights, out;
};

/// One call: its arrays, and those that are to be returned.
class SelectCall {
 public:
  SelectCall(const IndexArrays& arrays, const IndexOptions& options, const Step& step,
             const Pages& pages, int32_t k)
      : q_(array_of(arrays.q, "q")) {
    const int64_t tokens = step.tokens();
    expect_ndim(q_, 3, "[tokens, index heads, head_size]");
    expect_tokens(q_, tokens);
    problem_.key = pages.planes().key;
    problem_.q_heads = static_cast<int32_t>(q_.extent[1]);
    problem_.q_dtype = q_.dtype;
    problem_.relu = options.relu;
    problem_.scale = options.scale.value_or(0.0f);
    if (options.window) problem_.mask = Mask::sliding_window(*options.window);
    problem_.intervals = step.batch().visible_begin != nullptr;
    args_.score.q = tensor_of(q_, tokens);
    args_.score.key = problem_.key;
    take_weights(arrays.weights, tokens);
    take_out(arrays, tokens, k);
  }

  [[nodiscard]] const IndexProblem& problem() const { return problem_; }
  SelectArgs& args() { return args_; }
  [[nodiscard]] nb::object result() const { return result_; }

 private:
  static void expect_tokens(const Array& array, int64_t tokens) {
    if (array.extent[0] >= tokens) return;
    refuse_argument("{}: expected rows for {} tokens, got {}", array.name, tokens,
                    array.description());
  }

  void take_weights(nb::handle weights, int64_t tokens) {
    problem_.has_weights = !weights.is_none();
    if (!problem_.has_weights) return;
    weights_ = array_of(weights, "weights");
    expect_ndim(weights_, 2, "[tokens, index heads]");
    expect_tokens(weights_, tokens);
    problem_.weight_dtype = weights_.dtype;
    const int64_t bytes = weights_.item_bytes();
    args_.score.weights = {weights_.data,
                           weights_.dtype,
                           {tokens, weights_.extent[1]},
                           {weights_.stride[0] * bytes, weights_.stride[1] * bytes}};
  }

  void take_out(const IndexArrays& arrays, int64_t tokens, int32_t k) {
    if (arrays.out.is_none()) {
      result_ = empty_like(arrays.q, q_, {q_.extent[0], k}, nb::dtype<int32_t>());
      out_ = array_of(result_, "out");
    } else {
      out_ = writable_array_of(arrays.out, "out");
      result_ = nb::borrow(arrays.out);
    }
    const bool is_right = out_.ndim == 2 && out_.type == nb::dtype<int32_t>() &&
                          out_.extent[0] >= tokens && out_.extent[1] == k &&
                          (k == 1 || out_.stride[1] == 1) && out_.stride[0] >= k;
    if (!is_right)
      refuse_argument("out: expected int32[{}, {}] with contiguous rows, got {}", tokens, k,
                      out_.description());
    args_.lists = static_cast<int32_t*>(out_.data);
    args_.stride = out_.extent[0] > 1 ? out_.stride[0] : k;
    args_.k = k;
    for (int64_t row = tokens; row < out_.extent[0]; ++row)
      std::fill_n(args_.lists + row * args_.stride, k, -1);
  }

  IndexProblem problem_ = {};
  SelectArgs args_ = {};
  Array q_, weights_, out_;
  nb::object result_;
};

ListEntries entries_of(const std::string& name) {
  if (name == "slots") return ListEntries::slots;
  if (name == "keys") return ListEntries::keys;
  refuse_argument("entries: expected 'slots' or 'keys', got '{}'", name);
}

nb::object select(const Step& step, const Pages& pages, nb::handle q, nb::handle weights, int32_t k,
                  bool relu, std::optional<float> scale, std::optional<int32_t> window,
                  const std::string& entries, const Pages* slots_of, nb::handle out) {
  if (k < 1 || k > top_max) refuse_argument("k: expected 1 to {}, got {}", top_max, k);
  if (window && *window < 1) refuse_argument("window: expected at least 1, got {}", *window);
  step.expect_room(pages.planes().key.page_size);
  SelectCall call({q, weights, out}, {relu, scale, window}, step, pages, k);
  SelectArgs& args = call.args();
  args.entries = entries_of(entries);
  if (slots_of != nullptr) {
    step.expect_room(slots_of->planes().key.page_size);
    args.table = step.batch().table;
    args.page_size = slots_of->planes().key.page_size;
    args.num_pages = slots_of->planes().key.num_pages;
  }
  const Executor executor = current_executor();
  const IndexLimits limits{.batch = std::max(1, step.batch().size),
                           .tokens = std::max(1, static_cast<int32_t>(step.tokens())),
                           .context = std::max(1, step.max_context()),
                           .top = k,
                           .parallelism = executor.concurrency(executor.context)};
  const Index index = take(Index::create(call.problem(), limits));
  const Scratch workspace(index.workspace_bytes());
  Status status;
  {
    const WithoutGil released;
    status = select_keys(index, step.batch(), args, workspace.span(), executor);
  }
  status.or_throw();
  return call.result();
}

}  // namespace

void bind_select(nb::class_<Step, BatchHolder>& type) {
  const auto none = nb::none();
  type.def(
      "select", &select, nb::arg("pages"), nb::arg("q"), nb::arg("weights").none() = none,
      nb::kw_only(), nb::arg("k") = 2048, nb::arg("relu") = true, nb::arg("scale").none() = none,
      nb::arg("window").none() = none, nb::arg("entries") = "slots",
      nb::arg("slots_of").none() = none, nb::arg("out").none() = none,
      R"(The k keys of each query that an indexer scores best (sparse attention of DeepSeek V3.2).

    score[t, j] = sum_h weights[t, h] * relu(scale * q[t, h] . key[j])

pages: keys of the indexer: Pages of one small head, without values.
q: [tokens, index heads, head_size], normalised and rotated as the keys are; f32, bf16 or f16.
weights: [tokens, index heads] of either sign; None: all 1. relu False: products as they are.
scale: None: 1 / sqrt(head_size). window: keys that a query sees, itself included; causal.
k: 1 to 4096. Exact; of equal scores the lower key.
entries: "slots" of slots_of (None: of pages), as Batch's `selected` takes them, or "keys" of the
    sequence; ascending, -1 behind them.
out: int32 [tokens, k] to write; None: an array of q's library.

Raises Error for arrays that do not fit, Unsupported where no kernel serves the call.)");
}

}  // namespace folio::python
