// SPDX-License-Identifier: Apache-2.0
/// tests/support/bias_cases.cpp: the cases, and what puts a bias or a poison where it belongs.
#include "support/bias_cases.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "reference/attention.h"
#include "reference/elements.h"

namespace folio::test {
namespace {

constexpr float largest = std::numeric_limits<float>::max();
constexpr float infinity = std::numeric_limits<float>::infinity();

CaseOptions with_bias(BiasForm form) {
  CaseOptions options;
  options.bias = form;
  options.head_size = 32;
  options.shared = 0.0;
  options.sequences = {{1, 77}, {5, 140}, {40, 130}, {1, 2500}};
  return options;
}

/// One value for all keys, or several in turn.
template <size_t N>
BiasCase far_bias(const std::string& name, const std::array<float, N>& values,
                  bool has_sinks = false) {
  BiasCase made{name, with_bias(BiasForm::shared), nullptr};
  made.options.sink_logits = has_sinks;
  made.arrange = [values](AttentionCase& c) {
    set_bias(c, [&](int64_t row, int64_t key) {
      return values[static_cast<size_t>((row + key * 7) / 3) % N];
    });
  };
  return made;
}

/// Sink logits that all heads share; they stay where they are.
BiasCase with_sinks(BiasCase made, float sink) {
  made.name += ", far sink logits";
  made.options.sink_logits = true;
  const auto sinks = std::make_shared<std::vector<float>>(256, sink);  // lives as long as the case
  made.arrange = [arrange = made.arrange, sinks](AttentionCase& c) {
    arrange(c);
    c.args().sink_logits = sinks->data();
  };
  return made;
}

bool is_third(int64_t key) { return key % 3 == 0 || (key >= 60 && key < 130); }

/// Keys that every query's bias hides hold `poison`.
BiasCase poisoned(const std::string& name, BiasForm form, double poison) {
  BiasCase made{name, with_bias(form), nullptr};
  made.arrange = [poison](AttentionCase& c) {
    set_bias(c, [](int64_t row, int64_t key) {
      return is_third(key) ? -infinity : static_cast<float>((row + key) % 5);
    });
    poison_keys(c, is_third, poison);
  };
  return made;
}

BiasCase all_hidden(bool has_sinks) {
  BiasCase made{has_sinks ? "nothing but a sink logit" : "nothing left",
                with_bias(BiasForm::per_head), nullptr};
  made.options.sink_logits = has_sinks;
  made.arrange = [](AttentionCase& c) {
    set_bias(c, [](int64_t row, int64_t key) {
      // every query of the first sequence, and every other of the rest
      return row % 2 == 0 || key == 3 ? -infinity : 0.5f;
    });
    poison_keys(
        c, [](int64_t key) { return key == 3; }, std::nan(""));
  };
  return made;
}

/// What the mask hides from a row may have any bias: the key is dead nevertheless.
BiasCase behind_a_window() {
  BiasCase made{"hidden where the window shows", with_bias(BiasForm::per_head), nullptr};
  made.options.mask = Mask::sliding_window(20);
  made.arrange = [](AttentionCase& c) {
    const Batch& batch = c.batch();
    set_bias(c, [&](int64_t row, int64_t key) {
      const int32_t b = c.sequence_of(row);
      const int64_t position = batch.context_lengths[b] - batch.query_offsets[b + 1] + row;
      const bool is_shown = key <= position && key > position - 20;
      return is_third(key) && is_shown ? -infinity : 1.0f;
    });
    poison_keys(c, is_third, std::nan(""));
  };
  return made;
}

/// All heads have one slope.
BiasCase with_slope(const std::string& name, float slope) {
  BiasCase made{name, {}, nullptr};
  made.options.head_size = 32;
  made.options.shared = 0.0;
  made.options.mask = Mask::full();
  made.options.alibi = true;
  const auto slopes =
      std::make_shared<std::vector<float>>(256, slope);  // lives as long as the case
  made.arrange = [slopes](AttentionCase& c) { c.args().alibi_slopes = slopes->data(); };
  return made;
}

/// Each query sees one key, which no logit hides, however far from 0. What lse is then is folio's
/// own: the largest float, not the exact one.
BiasCase one_far_key(const std::string& name, float slope) {
  BiasCase made = with_slope(name, slope);
  made.options.sequences = {{1, 1}, {3, 1}};
  made.options.first_query_positions = {1000, 2000};
  made.options.first_key_positions = {0, 0};
  made.options.lse = false;
  return made;
}

/// Queries and keys at either end of the positions. lse tells how far they are from one another.
BiasCase far_apart(const std::string& name, std::vector<int32_t> queries,
                   std::vector<int32_t> keys) {
  BiasCase made = with_slope(name, 1e-9f);
  made.options.sequences = {{1, 77}, {5, 40}};
  made.options.first_query_positions = std::move(queries);
  made.options.first_key_positions = std::move(keys);
  return made;
}

BiasCase smallest_softcap(float scale) {
  BiasCase made{"a subnormal softcap", {}, [](AttentionCase&) {}};
  made.options.head_size = 32;
  made.options.sequences = {{1, 77}, {5, 40}};
  made.options.softcap = 1e-44f;
  made.options.scale = scale;
  return made;
}

}  // namespace

void set_bias(AttentionCase& c, const std::function<float(int64_t row, int64_t key)>& bias) {
  const ConstTensor<3>& to = c.args().bias;
  for (int64_t row = 0; row < c.tokens(); ++row)
    for (int64_t key = 0; key < c.batch().context_lengths[c.sequence_of(row)]; ++key) {
      const float value = bias(row, key);
      for (int64_t head = 0; head < to.extent[0]; ++head)
        std::memcpy(c.bias_memory().data() + head * to.stride_bytes[0] + row * to.stride_bytes[1] +
                        key * to.stride_bytes[2],
                    &value, sizeof value);
    }
}

void poison_keys(AttentionCase& c, const std::function<bool(int64_t key)>& is_poisoned,
                 double value) {
  for (const PagedKVView* view : {&c.args().key, &c.args().value}) {
    if (view->data == nullptr) continue;
    for (int32_t b = 0; b < c.batch().size; ++b)
      for (int64_t key = 0; key < c.batch().context_lengths[b]; ++key) {
        const reference::Slot slot = reference::slot_of(*view, c.batch(), b, key);
        if (!is_poisoned(key) || slot.page < 0) continue;
        for (int64_t head = 0; head < view->num_heads; ++head)
          for (int64_t d = 0; d < view->head_size; ++d)
            reference::store(static_cast<std::byte*>(view->data) +
                                 slot.page * view->page_stride_bytes +
                                 slot.slot * view->slot_stride_bytes +
                                 head * view->head_stride_bytes + d * bit_width(view->dtype) / 8,
                             view->dtype, value);
      }
  }
}

std::vector<BiasCase> exact_logit_cases() {
  std::vector<BiasCase> cases;
  for (const DType stored : {DType::f32, DType::bf16, DType::i8})
    for (const float step : {-0.0005f, -0.007f}) {
      BiasCase made{std::string(name(stored)) + ", steps of " + std::to_string(step), {}, nullptr};
      CaseOptions& options = made.options;
      options.bias = BiasForm::shared;
      options.mask = Mask::full();
      options.head_size = 64;
      options.key_dtype = options.value_dtype = stored;
      options.bf16_operands = stored == DType::f32;
      options.int8_operands = stored == DType::i8;
      if (stored == DType::i8)
        options.key_scales =
            options.value_scales = {ScaleKind::token_and_head, DType::f32, 16, false};
      options.sequences = {{100, 100}, {1, 2}};
      made.arrange = [step](AttentionCase& c) {
        const auto q = c.query_memory().span();
        std::memset(q.data, 0, static_cast<size_t>(q.bytes));
        set_bias(c, [&](int64_t row, int64_t key) {
          return key == 0 ? 0.0f : row < 100 ? step * static_cast<float>(row) : -0.011f;
        });
      };
      cases.push_back(made);
    }
  return cases;
}

std::vector<BiasCase> bias_cases() {
  std::vector<BiasCase> cases;
  cases.push_back(far_bias<1>("all of -max", {-largest}));
  cases.push_back(far_bias<1>("all of max", {largest}));
  cases.push_back(far_bias<1>("all of -max, with sink logits", {-largest}, true));
  cases.push_back(with_sinks(far_bias<1>("all of -max", {-largest}), -largest));
  cases.push_back(with_sinks(far_bias<1>("all of max", {largest}), largest));
  cases.push_back(with_sinks(far_bias<1>("all of 0", {0.0f}), -largest));
  cases.push_back(
      far_bias<5>("different ones below", {-largest, -3e38f, -2.4e38f, -2.3e38f, -2e38f}));
  cases.push_back(far_bias<3>("two below", {-largest, -3e38f, -largest}));
  cases.push_back(far_bias<4>("different ones above", {2.2e38f, largest, 3e38f, 1e30f}));
  cases.push_back(far_bias<4>("max and what is usual", {-largest, 0.0f, 1.0f, -2.5f}));
  cases.push_back(poisoned("hidden keys are NaN", BiasForm::shared, std::nan("")));
  cases.push_back(poisoned("hidden keys are infinite", BiasForm::per_head,
                           std::numeric_limits<double>::infinity()));
  cases.push_back(all_hidden(false));
  cases.push_back(all_hidden(true));
  cases.push_back(behind_a_window());
  return cases;
}

std::vector<BiasCase> term_cases() {
  constexpr int32_t least = std::numeric_limits<int32_t>::min();
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  std::vector<BiasCase> cases;
  cases.push_back(one_far_key("ALiBi below float32", 1e38f));
  cases.push_back(one_far_key("ALiBi above float32", -1e38f));
  cases.push_back(far_apart("queries far behind", {most, 2'000'000'000}, {least, -1'000'000'000}));
  cases.push_back(
      far_apart("keys far behind", {least, -1'000'000'000}, {most - 76, 2'000'000'000}));
  cases.push_back(smallest_softcap(0.0f));
  cases.push_back(smallest_softcap(-3e30f));
  return cases;
}

}  // namespace folio::test
