// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_mask_test.cpp: masks given as matrices through the C interface: from the matrix to the
/// batch, the plan and attention, with the bits of the C++ interface.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "attention/attend_error_rows.h"
#include "c/c_case.h"
#include "c/c_mask_case.h"
#include "folio/attention/attend.h"
#include "folio/core/buffer.h"
#include "mask/mask_case.h"

namespace folio::test {
namespace {

constexpr int32_t q_heads = 4, kv_heads = 2, head_size = 32;
constexpr float slopes[q_heads] = {0.5f, 0.25f, 0.125f, 0.0f};

/// Queries and keys for one mask, and where attention writes.
class Workload {
 public:
  explicit Workload(const MaskCase& mask) : rows_(mask.rows()) {
    Rng rng(mask.spec().seed + 1);
    tokens_ = int64_t{mask.spec().streams} * mask.spec().queries;
    for (auto* numbers : {&key_, &value_})
      for (int64_t i = 0; i < rows_ * kv_heads * head_size; ++i)
        numbers->push_back(rng.uniform(-1.0f, 1.0f));
    for (int64_t i = 0; i < tokens_ * q_heads * head_size; ++i)
      q_.push_back(rng.uniform(-1.0f, 1.0f));
    out_.resize(q_.size());
  }
  /// Of pages that no batch of a mask has.
  AttentionProblem problem() {
    AttentionProblem p;
    p.key = plane(key_);
    p.value = plane(value_);
    p.q_heads = q_heads;
    p.q_dtype = p.out_dtype = DType::f32;
    p.softcap = 20.0f;
    return p;
  }
  /// But for the planes, which the problem has.
  AttentionArgs args() {
    std::fill(out_.begin(), out_.end(), std::nanf(""));
    AttentionArgs args;
    args.q = dense_tensor<3>(q_.data(), DType::f32, {tokens_, q_heads, head_size});
    args.out = dense_tensor<3>(out_.data(), DType::f32, {tokens_, q_heads, head_size});
    return args;
  }
  /// A number that was not written is NaN, which equals nothing.
  [[nodiscard]] const std::vector<float>& out() const { return out_; }

 private:
  [[nodiscard]] PagedKVView plane(std::vector<float>& numbers) const {
    constexpr int64_t row = kv_heads * head_size * 4;
    return {numbers.data(), DType::f32, kv_heads, head_size,     16,
            rows_,          row,        row,      head_size * 4, {}};
  }

  int64_t rows_, tokens_ = 0;
  std::vector<float> q_, key_, value_, out_;
};

AttentionLimits limits_of(int32_t batch, int32_t tokens, int32_t context) {
  return {.batch = std::max(batch, 1),
          .tokens = std::max(tokens, 1),
          .context = std::max(context, 1),
          .parallelism = 2};
}

std::vector<float> attend_through_cpp(const MaskCase& mask, const MaskOptions& options,
                                      MaskForm& form) {
  MaskReader reader;
  const MaskedBatch masked = mask.read(reader, options).value();
  form = masked.form;
  Workload workload(mask);
  const AttentionProblem problem = masked_problem(workload.problem(), masked);
  const Attention attention =
      Attention::create(problem, limits_of(masked.batch.size, masked.tokens, masked.context))
          .value();
  const Buffer plan_memory = Buffer::allocate(attention.plan_bytes()).value();
  const Buffer workspace = Buffer::allocate(attention.workspace_bytes()).value();
  AttentionArgs args = workload.args();
  args.key = problem.key;
  args.value = problem.value;
  if (masked.alibi) args.alibi_slopes = slopes;
  args.bias = masked.bias;
  args.bias_sequence_stride_bytes = masked.bias_sequence_stride_bytes;
  const AttentionPlan made = plan(attention, masked.batch, plan_memory.span()).value();
  attend(attention, made, args, workspace.span(), serial_executor()).or_throw();
  return workload.out();
}

/// A handle, a plan and arguments for what was read.
class CRun {
 public:
  CRun(Workload& workload, const folio_masked_batch& masked)
      : masked_(masked),
        base_(workload.problem()),
        problem_(base_.problem, masked),
        args_(workload.args()) {
    EXPECT_EQ(problem_.code, FOLIO_OK) << problem_.message.text;
    const folio_limits limits = to_c(limits_of(masked.batch->size, masked.tokens, masked.context));
    folio_attention* made = nullptr;
    EXPECT_EQ(
        folio_create_attention(&problem_.problem, &limits, FOLIO_CPU, 0, nullptr, &made, &message_),
        FOLIO_OK)
        << message_.text;
    attention_.reset(made);
    plan_memory_ = GuardedMemory(folio_get_plan_bytes(made), 64);
    workspace_ = GuardedMemory(folio_get_workspace_bytes(made), 64);
    args_.args.key = &problem_.key;
    args_.args.value = &problem_.value;
    if (masked.alibi != 0) args_.args.alibi_slopes = slopes;
    args_.args.bias = masked.bias;
    args_.args.bias_sequence_stride_bytes = masked.bias_sequence_stride_bytes;
  }
  folio_code plan() {
    return folio_make_plan(attention_.get(), masked_.batch, plan_memory_.data(),
                           plan_memory_.bytes(), &plan_, &message_);
  }
  folio_code attend() {
    return folio_attend(attention_.get(), &plan_, &args_.args, workspace_.data(),
                        workspace_.bytes(), nullptr, &message_);
  }
  folio_plan_fingerprint fingerprint() {
    folio_plan_fingerprint made = {};
    EXPECT_EQ(folio_get_plan_fingerprint(attention_.get(), masked_.batch, FOLIO_IN_PLACE, &made,
                                         &message_),
              FOLIO_OK)
        << message_.text;
    return made;
  }
  [[nodiscard]] const char* text() const { return message_.text; }

 private:
  const folio_masked_batch& masked_;
  CProblem base_;
  CMaskedProblem problem_;
  CArgs args_;
  Handle attention_;
  GuardedMemory plan_memory_, workspace_;
  folio_plan plan_ = {};
  folio_message message_ = {};
};

bool is_same(const folio_plan_fingerprint& a, const folio_plan_fingerprint& b) {
  return a.low == b.low && a.high == b.high;
}

folio_code read(CMask& to, const MaskCase& mask, const MaskOptions& options) {
  const folio_mask_options o = to_c(options);
  return mask.spec().dtype == DType::invalid ? to.read(to_c(mask.bits()), &o)
                                             : to.read(to_c(mask.matrix()), &o);
}

/// The form that both interfaces find.
MaskForm expect_same_bits(const MaskSpec& spec, bool has_slopes) {
  const MaskCase mask(spec);
  MaskOptions options = mask.options();
  options.q_heads = q_heads;
  if (has_slopes) options.slopes = slopes;
  MaskForm form = MaskForm::runs;
  const std::vector<float> expected = attend_through_cpp(mask, options, form);
  CMask through_c;
  EXPECT_EQ(read(through_c, mask, options), FOLIO_OK) << through_c.message.text;
  EXPECT_STREQ(through_c.message.text, "");
  EXPECT_EQ(through_c.masked.form, static_cast<int32_t>(form));
  EXPECT_EQ(through_c.masked.bias != nullptr, form == MaskForm::bias);
  Workload workload(mask);
  CRun run(workload, through_c.masked);
  EXPECT_EQ(run.plan(), FOLIO_OK) << run.text();
  EXPECT_EQ(run.attend(), FOLIO_OK) << run.text();
  EXPECT_EQ(workload.out(), expected);
  return form;
}

TEST(CMaskReader, attention_by_a_mask_has_the_bits_of_the_cpp_interface) {
  std::vector<int> forms(3);
  for (int kind = 0; kind < num_mask_kinds; ++kind) {
    for (const DType dtype : {DType::f16, DType::f32, DType::invalid}) {
      for (const bool alibi : {false, true}) {
        const auto k = static_cast<MaskKind>(kind);
        if ((alibi || k == MaskKind::numbers) && dtype == DType::invalid) continue;
        if (alibi && k == MaskKind::numbers) continue;
        SCOPED_TRACE(testing::Message() << kind << ", " << name(dtype) << ", alibi " << alibi);
        const MaskForm form = expect_same_bits({.kind = k,
                                                .dtype = dtype,
                                                .streams = 2,
                                                .queries = 11,
                                                .keys = 75,
                                                .alibi = alibi,
                                                .first_rows = kind % 2 == 0,
                                                .seed = static_cast<uint64_t>(kind) + 1},
                                               alibi);
        ++forms[static_cast<size_t>(form)];
      }
    }
  }
  for (const int count : forms) EXPECT_GE(count, 2);
}

TEST(CMaskReader, biases_per_head_and_with_slopes_have_the_bits_of_the_cpp_interface) {
  for (const bool has_slopes : {false, true})
    EXPECT_EQ(
        expect_same_bits(
            {.kind = MaskKind::numbers, .streams = 2, .heads = q_heads, .queries = 5, .keys = 40},
            has_slopes),
        MaskForm::bias);
}

TEST(CMaskReader, a_plan_is_kept_while_the_mask_says_the_same) {
  for (const MaskKind kind : {MaskKind::causal, MaskKind::sequences}) {
    const MaskCase mask({.kind = kind, .streams = 2, .queries = 9, .keys = 64});
    CMask through_c;
    ASSERT_EQ(read(through_c, mask, mask.options()), FOLIO_OK) << through_c.message.text;
    Workload workload(mask);
    CRun run(workload, through_c.masked);
    ASSERT_EQ(run.plan(), FOLIO_OK) << run.text();
    ASSERT_EQ(run.attend(), FOLIO_OK) << run.text();
    const std::vector<float> expected = workload.out();
    const folio_plan_fingerprint before = run.fingerprint();
    ASSERT_EQ(read(through_c, mask, mask.options()), FOLIO_OK);
    EXPECT_TRUE(is_same(run.fingerprint(), before));
    static_cast<void>(workload.args());  // the output is NaN again
    ASSERT_EQ(run.attend(), FOLIO_OK) << run.text();
    EXPECT_EQ(workload.out(), expected);
  }
}

TEST(CMaskReader, another_mask_wants_another_plan) {
  const MaskSpec spec{.kind = MaskKind::causal, .streams = 2, .queries = 9, .keys = 64};
  MaskSpec narrower = spec;
  narrower.kind = MaskKind::window;
  const MaskCase mask(spec), other(narrower);
  CMask through_c;
  ASSERT_EQ(read(through_c, mask, mask.options()), FOLIO_OK) << through_c.message.text;
  Workload workload(mask);
  CRun run(workload, through_c.masked);
  const folio_plan_fingerprint before = run.fingerprint();
  ASSERT_EQ(read(through_c, other, other.options()), FOLIO_OK);
  EXPECT_FALSE(is_same(run.fingerprint(), before));
}

TEST(CMaskReader, readers_are_independent) {
  const MaskCase mask({.kind = MaskKind::holes, .streams = 2, .queries = 7, .keys = 50});
  const MaskCase other({.kind = MaskKind::scattered, .streams = 1, .queries = 20, .keys = 90});
  CMask first;
  ASSERT_EQ(read(first, mask, mask.options()), FOLIO_OK) << first.message.text;
  Workload workload(mask);
  CRun run(workload, first.masked);
  const folio_plan_fingerprint before = run.fingerprint();
  {
    CMask second;
    ASSERT_EQ(read(second, other, other.options()), FOLIO_OK) << second.message.text;
  }
  EXPECT_TRUE(is_same(run.fingerprint(), before));
}

TEST(CMaskReader, masks_of_nothing_are_batches_of_nothing) {
  auto nothing = c_struct<folio_mask_bits>();
  CMask through_c;
  ASSERT_EQ(through_c.read(nothing), FOLIO_OK) << through_c.message.text;
  EXPECT_EQ(through_c.masked.tokens, 0);
  EXPECT_EQ(through_c.masked.context, 0);
  EXPECT_EQ(through_c.masked.batch->size, 0);
  EXPECT_EQ(through_c.masked.bias, nullptr);
}

/// The C struct that C++ would have come to, but for pointers.
void expect_same_problem(const CMaskedProblem& made, const AttentionProblem& expected) {
  ASSERT_EQ(made.code, FOLIO_OK) << made.message.text;
  const CProblem other(expected);
  folio_problem a = made.problem, b = other.problem;
  EXPECT_EQ(a.key, &made.key);
  EXPECT_EQ(a.value, &made.value);
  a.key = b.key = a.value = b.value = nullptr;
  EXPECT_EQ(std::memcmp(&a, &b, sizeof a), 0);
  const folio_kv_view* const planes[][2] = {{&made.key, &other.key.view},
                                            {&made.value, &other.value.view}};
  for (const auto& [mine, theirs] : planes) {
    folio_kv_view x = *mine, y = *theirs;
    EXPECT_EQ(x.scales != nullptr, y.scales != nullptr);
    x.scales = y.scales = nullptr;
    EXPECT_EQ(std::memcmp(&x, &y, sizeof x), 0);
  }
}

TEST(CMaskedProblem, is_that_of_the_cpp_interface_whatever_the_problem_asked_for) {
  AttentionCase c(full_options());
  AttentionProblem asked = c.problem();
  asked.mask = Mask::sliding_window(20, 3);
  asked.tree = asked.selection = asked.alibi = asked.alibi_positions = true;
  asked.bf16_operands = asked.sink_per_query = true;
  for (const MaskKind kind : {MaskKind::causal, MaskKind::holes, MaskKind::numbers}) {
    const MaskCase mask({.kind = kind, .streams = 2, .queries = 7, .keys = 50});
    MaskReader reader;
    const MaskedBatch masked = mask.read(reader, mask.options()).value();
    CMask through_c;
    ASSERT_EQ(read(through_c, mask, mask.options()), FOLIO_OK) << through_c.message.text;
    for (const AttentionProblem& problem : {asked, AttentionProblem(c.problem())}) {
      const CProblem base(problem);
      const CMaskedProblem made(base.problem, through_c.masked);
      expect_same_problem(made, masked_problem(problem, masked));
    }
  }
}

TEST(CMaskedProblem, may_be_made_in_place) {
  const AttentionCase c(CaseOptions{});
  const MaskCase mask({.kind = MaskKind::causal, .queries = 7, .keys = 50});
  CMask through_c;
  ASSERT_EQ(read(through_c, mask, mask.options()), FOLIO_OK) << through_c.message.text;
  CProblem apart(c.problem()), in_place(c.problem());
  const CMaskedProblem expected(apart.problem, through_c.masked);
  ASSERT_EQ(expected.code, FOLIO_OK) << expected.message.text;
  folio_problem& p = in_place.problem;
  ASSERT_EQ(folio_masked_problem(&p, &through_c.masked, &p, &in_place.key.view,
                                 &in_place.value.view, nullptr),
            FOLIO_OK);
  EXPECT_EQ(p.options, FOLIO_INTERVALS);
  EXPECT_EQ(p.options, expected.problem.options);
  EXPECT_EQ(p.mask_right, -1);
  EXPECT_EQ(p.key, &in_place.key.view);
  EXPECT_EQ(p.key->page_size, FOLIO_UNBOUNDED_PAGE_SIZE);
  EXPECT_EQ(p.value->page_size, FOLIO_UNBOUNDED_PAGE_SIZE);
}

TEST(CMaskedProblem, of_latent_caches_has_no_value) {
  const AttentionCase c(CaseOptions{});
  const MaskCase mask({.kind = MaskKind::causal, .queries = 7, .keys = 50});
  CMask through_c;
  ASSERT_EQ(read(through_c, mask, mask.options()), FOLIO_OK) << through_c.message.text;
  CProblem base(c.problem());
  base.problem.value = nullptr;
  base.problem.options = FOLIO_VALUE_IN_KEY;
  auto made = c_struct<folio_problem>();
  auto key = c_struct<folio_kv_view>();
  folio_message message = {};
  ASSERT_EQ(folio_masked_problem(&base.problem, &through_c.masked, &made, &key, nullptr, &message),
            FOLIO_OK)
      << message.text;
  EXPECT_EQ(made.options, FOLIO_VALUE_IN_KEY | FOLIO_INTERVALS);
  EXPECT_EQ(made.value, nullptr);
  EXPECT_EQ(key.page_size, FOLIO_UNBOUNDED_PAGE_SIZE);
}

}  // namespace
}  // namespace folio::test
