// SPDX-License-Identifier: Apache-2.0
/// python/src/select_pages.cpp: lists of the pages that matter by their summaries.
#include "select_pages.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "executor.h"
#include "folio/sparse/pages.h"
#include "without_gil.h"

namespace folio::python {
namespace {

constexpr int32_t pages_max = 4096;  // of a list

/// How pages are chosen.
struct PageOptions {
  int32_t k_pages = 0, first_pages = 1, last_pages = 1;
  bool per_kv_head = false;
  std::string score = "greatest";
  std::optional<float> scale;
  std::optional<int32_t> window;
};

struct PageArrays {
  nb::handle q, missed, out;
};

/// Contiguous rows of `inner` elements, as many as tokens or more.
bool has_rows(const Array& array, int64_t tokens, std::initializer_list<int64_t> inner) {
  if (array.ndim != static_cast<int>(inner.size()) + 1 || array.extent[0] < tokens ||
      !std::equal(inner.begin(), inner.end(), array.extent + 1))
    return false;
  int64_t stride = 1;
  for (int i = array.ndim - 1; i >= 0; --i) {
    if (array.extent[i] > 1 && array.stride[i] != stride) return false;
    stride *= array.extent[i];
  }
  return true;
}

/// One call: its arrays, and those that are to be returned.
class PagesCall {
 public:
  PagesCall(const PageArrays& arrays, const PageOptions& options, const Step& step,
            const Pages& pages, const Pages& summaries)
      : tokens_(step.tokens()), q_(array_of(arrays.q, "q")) {
    expect_ndim(q_, 3, "[tokens, q_heads, head_size]");
    if (q_.extent[0] < tokens_)
      refuse_argument("q: expected rows for {} tokens, got {}", tokens_, q_.description());
    args_.q = tensor_of(q_, tokens_);
    args_.summaries = summaries_of(summaries, pages);
    args_.page_size = pages.planes().key.page_size;
    if (options.window) args_.mask = Mask::sliding_window(*options.window);
    args_.intervals = step.batch().visible_begin != nullptr;
    args_.scale = options.scale.value_or(0.0f);
    args_.lists = options.per_kv_head ? PageLists::per_kv_head : PageLists::per_query;
    args_.score = score_of(options.score);
    args_.k_pages = options.k_pages;
    args_.first_pages = options.first_pages;
    args_.last_pages = options.last_pages;
    take_out(arrays);
    take_missed(arrays);
  }

  [[nodiscard]] const PageArgs& args() const { return args_; }
  [[nodiscard]] nb::object result() const {
    return missed_result_.is_valid() ? nb::make_tuple(result_, missed_result_) : result_;
  }

 private:
  static PageScore score_of(const std::string& name) {
    if (name == "greatest") return PageScore::greatest;
    if (name == "sum") return PageScore::sum;
    refuse_argument("score: expected 'greatest' or 'sum', got '{}'", name);
  }

  void take_out(const PageArrays& arrays) {
    const bool per_head = args_.lists == PageLists::per_kv_head;
    const int64_t heads = args_.summaries.rows.num_heads;
    const int64_t width = int64_t{args_.k_pages} * args_.page_size;
    if (!std::in_range<int32_t>(width))
      refuse_argument("k_pages: {} pages of {} slots are more than 2^31 - 1", args_.k_pages,
                      args_.page_size);
    const auto type = nb::dtype<int32_t>();
    if (!arrays.out.is_none()) {
      out_ = writable_array_of(arrays.out, "out");
      result_ = nb::borrow(arrays.out);
    } else {
      result_ = per_head ? empty_like(arrays.q, q_, {q_.extent[0], heads, width}, type)
                         : empty_like(arrays.q, q_, {q_.extent[0], width}, type);
      out_ = array_of(result_, "out");
    }
    const bool fits = out_.type == type && (per_head ? has_rows(out_, tokens_, {heads, width})
                                                     : has_rows(out_, tokens_, {width}));
    if (!fits && per_head)
      refuse_argument("out: expected contiguous int32[{}, {}, {}], got {}", tokens_, heads, width,
                      out_.description());
    if (!fits)
      refuse_argument("out: expected contiguous int32[{}, {}], got {}", tokens_, width,
                      out_.description());
    args_.selected = static_cast<int32_t*>(out_.data);
    args_.stride = width;
    const int64_t row = (per_head ? heads : 1) * width;
    std::fill(args_.selected + tokens_ * row, args_.selected + out_.extent[0] * row, -1);
  }

  void take_missed(const PageArrays& arrays) {
    bool is_wanted = false;
    if (arrays.missed.is_none() || (nb::try_cast(arrays.missed, is_wanted) && !is_wanted)) return;
    const int64_t heads = q_.extent[1];
    if (is_wanted) {
      missed_result_ = empty_like(arrays.q, q_, {q_.extent[0], heads}, DType::f32);
      missed_ = array_of(missed_result_, "missed");
    } else {
      missed_ = writable_array_of(arrays.missed, "missed");
    }
    if (missed_.dtype != DType::f32 || !has_rows(missed_, tokens_, {heads}))
      refuse_argument("missed: expected contiguous f32[{}, {}], got {}", tokens_, heads,
                      missed_.description());
    args_.missed = static_cast<float*>(missed_.data);
    if (is_wanted)
      std::fill(args_.missed + tokens_ * heads, args_.missed + missed_.extent[0] * heads, 0.0f);
  }

  PageArgs args_ = {};
  int64_t tokens_ = 0;
  Array q_, out_, missed_;
  nb::object result_, missed_result_;
};

nb::object select_pages(const Step& step, const Pages& pages, const Pages& summaries, nb::handle q,
                        int32_t k_pages, int32_t first_pages, int32_t last_pages, bool per_kv_head,
                        const std::string& score, std::optional<float> scale,
                        std::optional<int32_t> window, nb::handle missed, nb::handle out) {
  if (k_pages < 1 || k_pages > pages_max)
    refuse_argument("k_pages: expected 1 to {}, got {}", pages_max, k_pages);
  if (window && *window < 1) refuse_argument("window: expected at least 1, got {}", *window);
  if (pages.planes().key.page_size == unbounded_page_size)
    refuse_argument("pages: expected pages of a fixed size, got ragged ones");
  step.expect_room(pages.planes().key.page_size);
  const PageOptions options{k_pages, first_pages, last_pages, per_kv_head, score, scale, window};
  const PagesCall call({q, missed, out}, options, step, pages, summaries);
  const Executor executor = current_executor();
  const Scratch workspace(select_pages_bytes(call.args(), std::max(1, step.max_context()),
                                             executor.concurrency(executor.context)));
  Status status;
  {
    const WithoutGil released;
    status = folio::select_pages(step.batch(), call.args(), workspace.span(), executor);
  }
  status.or_throw();
  return call.result();
}

void summarise_ids(const Pages& pages, const Pages& summaries, nb::handle ids, nb::handle slots) {
  summaries.expect_writable("summarise");
  const std::vector<int32_t> numbers = int32_of(ids, "ids");
  std::vector<int32_t> filled(numbers.size(), pages.planes().key.page_size);
  if (!slots.is_none()) filled = int32_of(slots, "slots");
  if (filled.size() != numbers.size())
    refuse_argument("slots: expected one for each of {} ids, got {}", numbers.size(),
                    filled.size());
  std::vector<FilledPage> list;
  for (size_t i = 0; i < numbers.size(); ++i)
    list.push_back({static_cast<uint32_t>(numbers[i]), filled[i]});
  const PageSummaries rows = summaries_of(summaries, pages);
  const Executor executor = current_executor();
  const WithoutGil released;
  summarise(pages.planes().key, rows, list, executor).or_throw();
}

}  // namespace

PageSummaries summaries_of(const Pages& summaries, const Pages& pages) {
  const PagedKVView &rows = summaries.planes().key, &key = pages.planes().key;
  if (!summaries.is_latent()) refuse_argument("summaries: expected Pages of K alone, got a V, too");
  if (rows.page_size != summary_rows(SummaryKind::bounds) &&
      rows.page_size != summary_rows(SummaryKind::mean))
    refuse_argument("summaries: expected a page_size of 2 (bounds) or 1 (means), got {}",
                    rows.page_size);
  if (rows.num_heads != key.num_heads || rows.head_size != key.head_size ||
      rows.num_pages != key.num_pages)
    refuse_argument(
        "summaries: expected {} pages of {} heads of {} elements, as pages, got {}, {}, "
        "{}",
        key.num_pages, key.num_heads, key.head_size, rows.num_pages, rows.num_heads,
        rows.head_size);
  return {rows.page_size == 1 ? SummaryKind::mean : SummaryKind::bounds, rows};
}

void bind_summarise(nb::module_& m) {
  m.def("summarise", &summarise_ids, nb::arg("pages"), nb::arg("summaries"), nb::arg("ids"),
        nb::arg("slots").none() = nb::none(),
        R"(Makes the summaries of pages from their keys as they lie there.

summaries: Pages of K alone, of as many pages, heads and elements as `pages` and a page_size of 2
    (of each channel the smallest and the largest number) or 1 (the mean), in f32, bf16 or f16:
    KVCache(layers, num_pages, 2, kv_heads=..., head_size=..., latent=True). append keeps them up to
    date where it gets them; copies take them along as a whole, by a call of their own.
ids: pages, each once. slots: how many of each are filled, from the front; None: all.

Raises Error for planes that do not agree, ids and slots out of range.)");
}

void bind_select_pages(nb::class_<Step, BatchHolder>& type) {
  const auto none = nb::none();
  type.def(
      "select_pages", &select_pages, nb::arg("pages"), nb::arg("summaries"), nb::arg("q"),
      nb::kw_only(), nb::arg("k_pages"), nb::arg("first_pages") = 1, nb::arg("last_pages") = 1,
      nb::arg("per_kv_head") = false, nb::arg("score") = "greatest", nb::arg("scale").none() = none,
      nb::arg("window").none() = none, nb::arg("missed").none() = none,
      nb::arg("out").none() = none,
      R"(The keys of the k_pages pages that matter most to each query, by their summaries: sparse
attention for models without an indexer.

pages: what attention reads. summaries: of these; see summarise.
q: [tokens, q_heads, head_size], normalised, rotated, and turned where keys are (rotate's pages).
k_pages: 1 to 4096, of which the first_pages first and the last_pages last that a query sees.
per_kv_head: a list for each KV head instead of one for all. score: what the scores of the q heads
    of a list become, "greatest" or "sum".
scale: None: 1 / sqrt(head_size). window: keys that a query sees, itself included; causal.
missed: f32 [tokens, q_heads] to write, with bounds; True: the result is (slots, missed). The log of
    what keys that were left out could add to exp(lse) at the most.
out: contiguous int32 [tokens, k_pages * page_size], per_kv_head [tokens, kv_heads, ...], to write;
    None: an array of q's library: slots as Batch's `selected` takes them, ascending, -1 behind.

Raises Error for arrays and numbers that do not fit, Unsupported for a tree.)");
}

}  // namespace folio::python
