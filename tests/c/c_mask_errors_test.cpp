// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_mask_errors_test.cpp: callers of the mask reader in C who are hostile, stale or of
/// another age.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "c/c_case.h"
#include "c/c_mask_case.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

constexpr int32_t streams = 2, heads = 3, queries = 4, keys = 8;
constexpr int64_t largest = std::numeric_limits<int64_t>::max();

/// Numbers per head, which become a bias as they are, and bits, which become runs.
struct Masks {
  Masks() {
    const auto dense =
        dense_tensor<4, const float>(numbers.data(), DType::f32, {streams, heads, queries, keys});
    matrix = to_c(MaskMatrix{dense});
    bits = to_c(MaskBits{bytes.data(), streams, queries, keys, queries, 1});
    options.q_heads = heads;
  }
  Masks(const Masks&) = delete;
  Masks& operator=(const Masks&) = delete;

  std::vector<float> numbers = std::vector<float>(streams * heads * queries * keys, 0.5f);
  std::vector<uint8_t> bytes = std::vector<uint8_t>(streams * queries, 0x3c);
  folio_mask_matrix matrix = {};
  folio_mask_bits bits = {};
  folio_mask_options options = c_struct<folio_mask_options>();
};

void expect_text(const folio_message& message, const char* words) {
  EXPECT_NE(std::strstr(message.text, words), nullptr) << message.text << "\nhas not: " << words;
}

/// The struct as it was handed over.
template <class T>
void expect_untouched(const T& now, const T& before) {
  EXPECT_EQ(std::memcmp(&now, &before, sizeof now), 0);
}

/// The call of `c` fails with these words and writes nothing.
template <class Call>
void expect_refused(CMask& c, folio_code code, const char* words, Call call) {
  const folio_masked_batch before = c.masked;
  EXPECT_EQ(call(), code) << words;
  expect_text(c.message, words);
  expect_untouched(c.masked, before);
}

TEST(CMaskErrors, null_pointers_are_named) {
  const Masks m;
  CMask c;
  ASSERT_EQ(c.code, FOLIO_OK) << c.message.text;
  folio_mask_reader* const reader = c.reader.get();
  const auto matrix = [&](folio_mask_reader* r, const folio_mask_matrix* mask,
                          folio_masked_batch* masked) {
    return folio_read_mask_matrix(r, mask, &m.options, masked, &c.message);
  };
  const auto bits = [&](folio_mask_reader* r, const folio_mask_bits* mask,
                        folio_masked_batch* masked) {
    return folio_read_mask_bits(r, mask, nullptr, masked, &c.message);
  };
  EXPECT_EQ(folio_create_mask_reader(nullptr, &c.message), FOLIO_INVALID_ARGUMENT);
  expect_text(c.message, "folio_create_mask_reader: reader is null");
  EXPECT_EQ(matrix(nullptr, &m.matrix, &c.masked), FOLIO_INVALID_ARGUMENT);
  expect_text(c.message, "folio_read_mask_matrix: reader is null");
  EXPECT_EQ(matrix(reader, nullptr, &c.masked), FOLIO_INVALID_ARGUMENT);
  expect_text(c.message, "folio_read_mask_matrix: mask is null");
  EXPECT_EQ(matrix(reader, &m.matrix, nullptr), FOLIO_INVALID_ARGUMENT);
  expect_text(c.message, "folio_read_mask_matrix: masked is null");
  EXPECT_EQ(bits(nullptr, &m.bits, &c.masked), FOLIO_INVALID_ARGUMENT);
  expect_text(c.message, "folio_read_mask_bits: reader is null");
  EXPECT_EQ(bits(reader, nullptr, &c.masked), FOLIO_INVALID_ARGUMENT);
  expect_text(c.message, "folio_read_mask_bits: mask is null");
  EXPECT_EQ(bits(reader, &m.bits, nullptr), FOLIO_INVALID_ARGUMENT);
  expect_text(c.message, "folio_read_mask_bits: masked is null");
  EXPECT_EQ(folio_masked_problem(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
            FOLIO_INVALID_ARGUMENT);
  folio_destroy_mask_reader(nullptr);
}

TEST(CMaskErrors, mistakes_of_a_mask_are_named_and_nothing_is_written) {
  Masks m;
  CMask c;
  const folio_mask_matrix matrix = m.matrix;
  const folio_mask_bits bits = m.bits;
  const auto refused = [&](const char* words, auto break_it) {
    m.matrix = matrix;
    break_it(m.matrix);
    expect_refused(c, FOLIO_INVALID_ARGUMENT, words, [&] { return c.read(m.matrix, &m.options); });
  };
  refused("mask is null", [](folio_mask_matrix& x) { x.data = nullptr; });
  refused("expected f16, bf16 or f32", [](folio_mask_matrix& x) { x.dtype = FOLIO_I8; });
  refused("expected f16, bf16 or f32", [](folio_mask_matrix& x) { x.dtype = 256 + FOLIO_F32; });
  refused("not aligned",
          [](folio_mask_matrix& x) { x.data = static_cast<const std::byte*>(x.data) + 1; });
  refused("2^31", [](folio_mask_matrix& x) { x.extent[0] = x.extent[2] = largest; });
  refused("-1 keys", [](folio_mask_matrix& x) { x.extent[3] = -1; });
  refused("2 heads", [](folio_mask_matrix& x) { x.extent[1] = 2; });
  refused("2^56", [](folio_mask_matrix& x) { x.stride_bytes[0] = largest / 4 * 4; });
  refused("mask->struct_size is 0", [](folio_mask_matrix& x) { x.struct_size = 0; });
  m.bits.streams = m.bits.queries = int64_t{1} << 32;
  expect_refused(c, FOLIO_INVALID_ARGUMENT, "2^31", [&] { return c.read(m.bits); });
  m.bits = bits;
  m.bits.reserved = 1;
  expect_refused(c, FOLIO_INVALID_ARGUMENT, "mask->reserved is 1", [&] { return c.read(m.bits); });
  m.options.q_heads = -1;
  expect_refused(c, FOLIO_INVALID_ARGUMENT, "options.q_heads is -1",
                 [&] { return c.read(bits, &m.options); });
}

TEST(CMaskErrors, what_was_read_before_a_read_that_fails_is_refused) {
  const Masks m;
  AttentionCase any(CaseOptions{});
  CCase run(any);
  const CProblem base(any.problem());
  for (int way = 0; way < 3; ++way) {
    SCOPED_TRACE(way);
    CMask c;
    ASSERT_EQ(c.read(m.matrix, &m.options), FOLIO_OK) << c.message.text;
    const folio_masked_batch stale = c.masked;
    ASSERT_EQ(CMaskedProblem(base.problem, stale).code, FOLIO_OK);
    folio_mask_bits broken = m.bits;
    broken.keys = -1;
    // the mask, the options, and where to write
    const auto read = [&](const folio_mask_bits* mask, folio_masked_batch* to) {
      return folio_read_mask_bits(c.reader.get(), mask, nullptr, to, &c.message);
    };
    const folio_code code = way == 0   ? read(&broken, &c.masked)
                            : way == 1 ? read(nullptr, &c.masked)
                                       : read(&m.bits, nullptr);
    ASSERT_EQ(code, FOLIO_INVALID_ARGUMENT);
    const CMaskedProblem made(base.problem, stale);
    EXPECT_EQ(made.code, FOLIO_INVALID_ARGUMENT);
    expect_text(made.message, "batch->struct_size is 0");
    EXPECT_EQ(folio_make_plan(run.attention.get(), stale.batch, run.plan_memory.data(),
                              run.plan_memory.bytes(), &run.plan, &run.message),
              FOLIO_INVALID_ARGUMENT);
    expect_text(run.message, "batch->struct_size is 0");
    run.args.args.bias = stale.bias;
    EXPECT_EQ(run.attend(nullptr), FOLIO_INVALID_ARGUMENT);
    expect_text(run.message, "args->bias->struct_size is 0");
  }
}

TEST(CMaskErrors, the_bias_of_the_mask_before_is_refused) {
  const Masks m;
  CMask c;
  ASSERT_EQ(c.read(m.matrix, &m.options), FOLIO_OK) << c.message.text;
  const folio_tensor* const bias = c.masked.bias;
  ASSERT_NE(bias, nullptr);
  EXPECT_EQ(bias->struct_size, sizeof *bias);
  ASSERT_EQ(c.read(m.bits), FOLIO_OK) << c.message.text;
  EXPECT_EQ(c.masked.bias, nullptr);
  EXPECT_EQ(bias->struct_size, 0u);
}

TEST(CMaskErrors, attention_of_another_problem_does_not_take_the_batch) {
  const Masks m;
  CMask c;
  ASSERT_EQ(c.read(m.bits), FOLIO_OK) << c.message.text;
  AttentionCase any(CaseOptions{});
  CCase run(any);
  ASSERT_EQ(run.code, FOLIO_OK) << run.message.text;
  EXPECT_EQ(folio_make_plan(run.attention.get(), c.masked.batch, run.plan_memory.data(),
                            run.plan_memory.bytes(), &run.plan, &run.message),
            FOLIO_INVALID_ARGUMENT);
  expect_text(run.message, "batch.visible_begin");
  folio_plan_fingerprint made = {7, 7};
  EXPECT_EQ(folio_get_plan_fingerprint(run.attention.get(), c.masked.batch, FOLIO_IN_PLACE, &made,
                                       &run.message),
            FOLIO_INVALID_ARGUMENT);
  expect_text(run.message, "batch.visible_begin");
  EXPECT_EQ(made.low, 7u);
}

TEST(CMaskErrors, callers_of_other_ages_lose_nothing_unseen) {
  const Masks m;
  CMask c;
  // what has no bias has a place in a struct that ends before it
  c.masked.struct_size = offsetof(folio_masked_batch, bias);
  c.masked.bias_sequence_stride_bytes = 77;
  ASSERT_EQ(c.read(m.bits), FOLIO_OK) << c.message.text;
  EXPECT_EQ(c.masked.bias_sequence_stride_bytes, 77) << "not the caller's struct any more";
  expect_refused(c, FOLIO_UNSUPPORTED, "masked->struct_size is 40, 56 are known here",
                 [&] { return c.read(m.matrix, &m.options); });
  c.masked.struct_size = 3;
  expect_refused(c, FOLIO_INVALID_ARGUMENT, "masked->struct_size is 3",
                 [&] { return c.read(m.bits); });
  struct NewerOptions {
    folio_mask_options options;
    int64_t wish;
  } newer{m.options, 0};
  newer.options.struct_size = sizeof newer;
  c.masked = c_struct<folio_masked_batch>();
  EXPECT_EQ(c.read(m.matrix, &newer.options), FOLIO_OK) << c.message.text;
  newer.wish = 1;
  expect_refused(c, FOLIO_UNSUPPORTED, "options->struct_size is 32",
                 [&] { return c.read(m.matrix, &newer.options); });
  struct NewerMasked {
    folio_masked_batch masked;
    int64_t more;
  } longer{c_struct<folio_masked_batch>(), 77};
  longer.masked.struct_size = sizeof longer;
  ASSERT_EQ(folio_read_mask_bits(c.reader.get(), &m.bits, nullptr, &longer.masked, &c.message),
            FOLIO_OK)
      << c.message.text;
  EXPECT_EQ(longer.more, 0);
}

/// What folio_masked_problem says of a masked batch, or of a problem, that is broken.
class CMaskedProblemErrors : public testing::Test {
 protected:
  CMaskedProblemErrors() {
    EXPECT_EQ(c_.read(m_.matrix, &m_.options), FOLIO_OK) << c_.message.text;
    masked_ = c_.masked;
  }
  void expect_refused(folio_code code, const char* words) {
    const folio_problem problem = made_;
    const folio_kv_view key = key_, value = value_;
    EXPECT_EQ(folio_masked_problem(&base_.problem, &masked_, &made_, &key_, &value_, &message_),
              code)
        << words;
    expect_text(message_, words);
    expect_untouched(made_, problem);
    expect_untouched(key_, key);
    expect_untouched(value_, value);
  }
  template <class F>
  void refused(const char* words, F break_it) {
    masked_ = c_.masked;
    break_it(masked_);
    expect_refused(FOLIO_INVALID_ARGUMENT, words);
    masked_ = c_.masked;
  }

  const Masks m_;
  CMask c_;
  AttentionCase any_{CaseOptions{}};
  CProblem base_{any_.problem()};
  folio_masked_batch masked_;
  folio_problem made_ = c_struct<folio_problem>();
  folio_kv_view key_ = c_struct<folio_kv_view>(), value_ = c_struct<folio_kv_view>();
  folio_message message_ = {};
};

TEST_F(CMaskedProblemErrors, broken_masked_batches_are_named) {
  folio_tensor bias = *masked_.bias;
  refused("masked->form is 3, expected 0 to 2", [](folio_masked_batch& x) { x.form = 3; });
  refused("masked->form is -1", [](folio_masked_batch& x) { x.form = -1; });
  refused("masked->page_size is 16, expected 2147483647",
          [](folio_masked_batch& x) { x.page_size = 16; });
  refused("masked->page_size is 2147483647, expected 1",
          [](folio_masked_batch& x) { x.form = FOLIO_MASK_CELLS; });
  refused("masked->alibi is 2", [](folio_masked_batch& x) { x.alibi = 2; });
  refused("masked->alibi_positions is -1", [](folio_masked_batch& x) { x.alibi_positions = -1; });
  refused("masked->bias_per_sequence is 7", [](folio_masked_batch& x) { x.bias_per_sequence = 7; });
  refused("batch is null", [](folio_masked_batch& x) { x.batch = nullptr; });
  refused("masked->bias is null", [](folio_masked_batch& x) { x.bias = nullptr; });
  for (const int32_t dtype : std::initializer_list<int32_t>{0, FOLIO_I8, -1, 99}) {
    bias.dtype = dtype;
    refused("expected f16, bf16 or f32", [&](folio_masked_batch& x) { x.bias = &bias; });
  }
}

TEST_F(CMaskedProblemErrors, broken_problems_and_short_structs_are_named) {
  made_.struct_size = offsetof(folio_problem, bias_dtype);
  expect_refused(FOLIO_UNSUPPORTED, "made->struct_size is 72, 80 are known here");
  made_.struct_size = sizeof made_;
  key_.struct_size = offsetof(folio_kv_view, head_stride_bytes);
  expect_refused(FOLIO_UNSUPPORTED, "key->struct_size is");
  key_.struct_size = sizeof key_;
  value_.struct_size = 2;
  expect_refused(FOLIO_INVALID_ARGUMENT, "value->struct_size is 2");
  value_.struct_size = sizeof value_;
  base_.problem.options = 1 << 20;
  expect_refused(FOLIO_UNSUPPORTED, "folio_masked_problem: problem->options is");
  base_.problem.options = 0;
  base_.problem.reproducible = 3;
  expect_refused(FOLIO_INVALID_ARGUMENT, "problem->reproducible is 3");
  base_.problem.reproducible = 0;
  base_.key.view.struct_size = 3;
  expect_refused(FOLIO_INVALID_ARGUMENT, "problem->key->struct_size is 3");
  base_.problem.key = nullptr;
  expect_refused(FOLIO_INVALID_ARGUMENT, "problem->key is null");
}

}  // namespace
}  // namespace folio::test
