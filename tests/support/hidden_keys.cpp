// SPDX-License-Identifier: Apache-2.0
/// tests/support/hidden_keys.cpp: the cases, and what must be left of their results.
#include "support/hidden_keys.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/elements.h"
#include "reference/visibility.h"
#include "support/bias_cases.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double large = 0x1p100;  // q . k stays finite

/// The first element, or the scale, of the key in every head of the plane. Integers have no NaN:
/// their scales do.
void spoil(const PagedKVView& view, const Batch& batch, int64_t key, double value) {
  const reference::Slot at = reference::slot_of(view, batch, 0, key);
  const ScaleView& scales = view.scales;
  const bool in_scale = scales.dtype != DType::invalid && scales.slot_stride_bytes != 0;
  for (int64_t head = 0; head < view.num_heads; ++head) {
    if (in_scale)
      reference::store(static_cast<std::byte*>(scales.data) + at.page * scales.page_stride_bytes +
                           at.slot * scales.slot_stride_bytes + head * scales.head_stride_bytes,
                       scales.dtype, value);
    else
      reference::store(static_cast<std::byte*>(view.data) + at.page * view.page_stride_bytes +
                           at.slot * view.slot_stride_bytes + head * view.head_stride_bytes,
                       view.dtype, value);
  }
}

struct Hiding {
  const char* name;
  SequenceShape shape;
  int64_t key;
  Mask mask = Mask::causal();
  bool by_bias = false;
  bool by_intervals = false;
  TreeForm tree = TreeForm::none;
  int32_t selected = 0;
  int32_t shared_context = 0;  ///< of the second sequence, if it begins with the first one's pages
};

// The last key of the window is seen by nobody of the sequence that shares its page.
const Hiding hidings[] = {
    {"by causality", {20, 150}, 140},
    {"by causality, in other tasks, too", {50, 150}, 130},
    {"by a window", {20, 150}, 110, Mask::sliding_window(30, 2)},
    {.name = "by a bias", .shape = {6, 90}, .key = 40, .by_bias = true},
    {.name = "by intervals", .shape = {20, 150}, .key = 60, .by_intervals = true},
    {.name = "by a tree", .shape = {20, 150}, .key = 133, .tree = TreeForm::random},
    {.name = "by lists", .shape = {20, 150}, .key = 60, .selected = 40},
    {.name = "by a window, in a page that another sequence has, too",
     .shape = {20, 150},
     .key = 110,
     .mask = Mask::sliding_window(30, 2),
     .shared_context = 150},
};

HiddenKeyCase case_of(const Hiding& hiding, bool has_scales, bool in_value, double value) {
  HiddenKeyCase made;
  made.name = std::string(in_value ? "V" : "K") + (has_scales ? "'s scale, " : ", ") +
              std::to_string(value) + ", hidden " + hiding.name;
  CaseOptions& options = made.options;
  options.head_size = 64;
  options.shared = hiding.shared_context > 0 ? 1.0 : 0.0;
  options.sequences = {hiding.shape, {2, hiding.shared_context > 0 ? hiding.shared_context : 90}};
  options.mask = hiding.mask;
  options.intervals = hiding.by_intervals;
  options.tree = hiding.tree;
  options.selected = hiding.selected;
  if (hiding.by_bias) options.bias = BiasForm::shared;
  if (has_scales) {
    options.key_dtype = options.value_dtype = DType::i8;
    options.key_scales = options.value_scales = {ScaleKind::token_and_head, DType::f32, 16, false};
    options.int8_operands = true;
  }
  made.key = hiding.key;
  made.in_value = in_value;
  made.value = value;
  made.arrange = [=](AttentionCase& c) {
    if (hiding.by_bias)
      set_bias(c, [&](int64_t row, int64_t key) {
        return row % 2 == 0 && key == hiding.key ? -std::numeric_limits<float>::infinity() : 0.5f;
      });
    spoil(in_value && !c.problem().value_in_key ? c.args().value : c.args().key, c.batch(),
          hiding.key, value);
  };
  return made;
}

enum class View { seen, hidden, hidden_by_bias };

/// Whether the row's list has the key.
bool is_listed(AttentionCase& c, int64_t row, int64_t key) {
  if (!c.problem().selection) return true;
  const reference::Slot at = reference::slot_of(c.args().key, c.batch(), 0, key);
  const int32_t* const list = c.batch().selected + row * c.batch().selected_stride;
  return std::count(list, list + c.batch().selected_stride,
                    at.page * c.args().key.page_size + at.slot) > 0;
}

View view_of(AttentionCase& c, const HiddenKeyCase& of, int64_t row) {
  if (!reference::is_visible(c.problem(), c.batch(), 0, row, of.key) || !is_listed(c, row, of.key))
    return View::hidden;
  return c.options().bias != BiasForm::none && row % 2 == 0 ? View::hidden_by_bias : View::seen;
}

bool is_lse_right(AttentionCase& c, int64_t row, int32_t head) {
  const reference::QueryResult& exact = c.expected(row, head);
  const auto found = static_cast<double>(c.output_lse(row, head));
  return found == exact.lse || std::fabs(found - exact.lse) <= lse_bound(exact, c.precision());
}

}  // namespace

std::vector<HiddenKeyCase> hidden_key_cases() {
  std::vector<HiddenKeyCase> cases;
  for (const Hiding& hiding : hidings)
    for (const bool has_scales : {false, true})
      for (const bool in_value : {false, true})
        for (const double value : {std::nan(""), infinity, large})
          cases.push_back(case_of(hiding, has_scales, in_value, value));
  HiddenKeyCase latent = case_of(hidings[0], false, false, std::nan(""));
  latent.name += ", V in K";
  latent.options.value_in_key = true;
  latent.options.kv_heads = 1;
  latent.options.v_head_size = 32;
  cases.push_back(latent);
  return cases;
}

::testing::AssertionResult keeps_hidden_keys_out(AttentionCase& c, const HiddenKeyCase& of) {
  const int64_t end = c.batch().query_offsets[1];
  const bool is_in_key = !of.in_value || c.problem().value_in_key;
  const bool is_in_value = of.in_value || c.problem().value_in_key;
  const bool is_finite = std::isfinite(of.value);
  const auto fails = [&](int64_t row, const char* what) {
    return ::testing::AssertionFailure() << "row " << row << ": " << what;
  };
  int64_t seen = 0;
  for (int64_t row = 0; row < end; ++row) {
    const View view = view_of(c, of, row);
    if (view == View::seen) {
      ++seen;
      if (std::isnan(of.value) && std::isfinite(c.output(row, 0, 0)))
        return fails(row, "sees the key and is finite");
      continue;
    }
    for (int32_t head = 0; head < c.problem().q_heads; ++head)
      if ((!is_in_key || view == View::hidden || is_finite) && !is_lse_right(c, row, head))
        return fails(row, "does not see the key, and its lse is wrong");
    // Behind a bias K that is not finite may be anything, and o and lse with it.
    if (is_finite || (!is_in_value && view == View::hidden)) {
      const auto right = matches_reference(c, {row, row + 1});
      if (!right) return right;
    }
  }
  if (seen == 0 || seen == end) return fails(end, "all see the key, or none does");
  return matches_reference(c, {end, c.tokens()});
}

}  // namespace folio::test
