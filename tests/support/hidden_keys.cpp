// SPDX-License-Identifier: Apache-2.0
/// tests/support/hidden_keys.cpp: the cases, and what must be left of their results.
#include "support/hidden_keys.h"

#include <cmath>
#include <limits>

#include "reference/elements.h"
#include "reference/visibility.h"
#include "support/bias_cases.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

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
  Mask mask;
  SequenceShape shape;
  int64_t key;
  bool by_bias;
};

const Hiding hidings[] = {
    {"by causality", Mask::causal(), {20, 150}, 140, false},
    {"by causality, in other tasks, too", Mask::causal(), {50, 150}, 130, false},
    {"by a window", Mask::sliding_window(30, 2), {20, 150}, 110, false},
    {"by a bias", Mask::causal(), {6, 90}, 40, true},
};

HiddenKeyCase case_of(const Hiding& hiding, bool has_scales, bool in_value, double value) {
  HiddenKeyCase made;
  made.name = std::string(in_value ? "V" : "K") + (has_scales ? "'s scale, " : ", ") +
              std::to_string(value) + ", hidden " + hiding.name;
  CaseOptions& options = made.options;
  options.head_size = 64;
  options.shared = 0.0;
  options.sequences = {hiding.shape, {2, 90}};
  options.mask = hiding.mask;
  if (hiding.by_bias) options.bias = BiasForm::shared;
  if (has_scales) {
    options.key_dtype = options.value_dtype = DType::i8;
    options.key_scales = options.value_scales = {ScaleKind::token_and_head, DType::f32, 16, false};
    options.int8_operands = true;
  }
  made.key = hiding.key;
  made.in_value = in_value;
  made.is_nan = std::isnan(value);
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

View view_of(AttentionCase& c, const HiddenKeyCase& of, int64_t row) {
  if (!reference::is_visible(c.problem(), c.batch(), 0, row, of.key)) return View::hidden;
  return c.options().bias != BiasForm::none && row % 2 == 0 ? View::hidden_by_bias : View::seen;
}

bool is_lse_right(AttentionCase& c, int64_t row, int32_t head) {
  const reference::QueryResult& exact = c.expected(row, head);
  return std::fabs(static_cast<double>(c.output_lse(row, head)) - exact.lse) <=
         lse_bound(exact, c.precision());
}

}  // namespace

std::vector<HiddenKeyCase> hidden_key_cases() {
  std::vector<HiddenKeyCase> cases;
  for (const Hiding& hiding : hidings)
    for (const bool has_scales : {false, true})
      for (const bool in_value : {false, true})
        for (const double value : {std::nan(""), infinity})
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
  const auto fails = [&](int64_t row, const char* what) {
    return ::testing::AssertionFailure() << "row " << row << ": " << what;
  };
  int64_t seen = 0;
  for (int64_t row = 0; row < end; ++row) {
    const View view = view_of(c, of, row);
    if (view == View::seen) {
      ++seen;
      if (of.is_nan && std::isfinite(c.output(row, 0, 0)))
        return fails(row, "sees the key and is finite");
    } else if (!is_in_key) {
      for (int32_t head = 0; head < c.problem().q_heads; ++head)
        if (!is_lse_right(c, row, head)) return fails(row, "does not see V, and its lse is wrong");
    } else if (view == View::hidden) {  // behind a bias K may be anything, and o and lse with it
      const auto right = c.problem().value_in_key ? ::testing::AssertionSuccess()
                                                  : matches_reference(c, {row, row + 1});
      if (!right) return right;
      for (int32_t head = 0; head < c.problem().q_heads; ++head)
        if (!is_lse_right(c, row, head)) return fails(row, "does not see K, and its lse is wrong");
    }
  }
  if (seen == 0 || seen == end) return fails(end, "all see the key, or none does");
  return matches_reference(c, {end, c.tokens()});
}

}  // namespace folio::test
