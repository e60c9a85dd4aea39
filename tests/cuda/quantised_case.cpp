// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/quantised_case.cpp: every instance by its name, and what is asked of a run.
#include "cuda/quantised_case.h"

#include <string>
#include <utility>

#include "cuda/decode/quantised_kernels.h"

namespace folio::test {
namespace {

using cuda::Options;
using ::testing::AssertionFailure;
using ::testing::AssertionResult;

template <class Kernel>
AssertionResult run(AttentionCase& c, const DecodeOptions& how) {
  const DecodeResult result = run_decode<Kernel>(c, how);
  const auto failure = [&] { return AssertionFailure() << describe(c.options()) << "\n"; };
  if (!result.fault.empty()) return failure() << result.fault;
  const bool is_exact = !c.problem().bias && !c.problem().intervals && !c.problem().tree;
  if (is_exact && result.counts.copied_bytes != result.visible_bytes)
    return failure() << result.counts.copied_bytes << " bytes are copied, expected "
                     << result.visible_bytes;
  if (result.counts.ldmatrix_extra_passes != 0) return failure() << "ldmatrix meets banks twice";
  const AssertionResult right = matches_reference(c);
  return right ? right : failure() << right.message();
}

template <DType Stored, int HeadSize, Options What>
std::string name_of() {
  constexpr const char* options[] = {"", "_general", "_granules", "_fine"};
  const std::string type = Stored == DType::i8 ? "i8" : Stored == DType::f8_e4m3 ? "e4m3" : "e5m2";
  return "decode_" + type + "_" + std::to_string(HeadSize) + options[static_cast<int>(What)];
}

/// Runs the one of the instances that is called `name`, if one is.
template <DType Stored, int HeadSize, Options... What>
bool run_named(const std::string& name, AttentionCase& c, const DecodeOptions& how,
               AssertionResult& result) {
  const auto run_one = [&]<Options Option>() {
    if (name != name_of<Stored, HeadSize, Option>()) return false;
    result = run<cuda::QuantisedDecodeKernel<Stored, HeadSize, Option>>(c, how);
    return true;
  };
  return (run_one.template operator()<What>() || ...);
}

template <DType Stored>
bool run_stored(const std::string& name, AttentionCase& c, const DecodeOptions& how,
                AssertionResult& result) {
  using enum Options;
  return run_named<Stored, 64, plain, general, granules, fine>(name, c, how, result) ||
         run_named<Stored, 128, plain, general, granules, fine>(name, c, how, result) ||
         run_named<Stored, 256, plain, general, fine>(name, c, how, result);
}

AssertionResult run_case_as(AttentionCase& c, DType operands, const DecodeOptions& how) {
  const AttentionProblem problem = resolve(c.problem()).value();
  if (const char* why = unsupported(cuda::supports_quantised_decode, problem); why != nullptr)
    return AssertionFailure() << why;
  if (const char* why = cuda::refuse_quantised_decode(problem); why != nullptr)
    return AssertionFailure() << why;
  const auto varies = [](const PagedKVView& view) {
    return view.scales.dtype != DType::invalid && view.scales.granularity < view.head_size;
  };
  c.set_precision({cuda::quantised_decode_rounding, varies(problem.key) ? operands : DType::f32,
                   varies(problem.value) ? operands : DType::f32});
  const std::string name = cuda::quantised_decode_kernel.instance(problem);
  AssertionResult result = AssertionFailure() << name << " is not built into this test";
  static_cast<void>(run_stored<DType::f8_e4m3>(name, c, how, result) ||
                    run_stored<DType::f8_e5m2>(name, c, how, result) ||
                    run_stored<DType::i8>(name, c, how, result));
  return result;
}

}  // namespace

CaseOptions byte_case(std::vector<SequenceShape> sequences, DType stored,
                      const ScaleOptions& scales, int32_t head_size) {
  CaseOptions o;
  o.sequences = std::move(sequences);
  o.q_heads = 8;
  o.kv_heads = 2;
  o.head_size = head_size;
  o.q_dtype = o.out_dtype = DType::bf16;
  o.key_dtype = o.value_dtype = stored;
  o.key_scales = o.value_scales = scales;
  return o;
}

AssertionResult is_right(AttentionCase& c, const DecodeOptions& how) {
  return run_case_as(c, cuda::quantised_decode_rounding, how);
}

AssertionResult is_right(const CaseOptions& options, const DecodeOptions& how) {
  AttentionCase c(options);
  return is_right(c, how);
}

AssertionResult is_right_unrounded(AttentionCase& c) { return run_case_as(c, DType::f32, {}); }

}  // namespace folio::test
