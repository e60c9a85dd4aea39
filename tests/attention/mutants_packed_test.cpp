// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants_packed_test.cpp: faults of what reads four bits, of products of codes
/// and of rotations, each caught by the tests that are about it only.
///
/// In the engine that reads any rows and in the one that multiplies codes; mutants_test.cpp has the
/// faults that all engines share. docs/design/0005-mutants.md holds the table that is checked here.
#include <gtest/gtest.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "attention/mutant_cases.h"

namespace folio::test {
namespace {

ScaleOptions granules_of(int32_t granularity, Zeros zeros = Zeros::none) {
  const DType dtype = zeros == Zeros::in_scale ? DType::f32 : DType::f16;
  return {ScaleKind::granule, dtype, granularity, false, zeros};
}
void take(CaseOptions& o, DType dtype, const ScaleOptions& scales) {
  o.key_dtype = o.value_dtype = dtype;
  o.key_scales = o.value_scales = scales;
}
void take_zeros(CaseOptions& o, DType dtype, Zeros zeros) {
  take(o, dtype, granules_of(32, zeros));
}
void take_i8(CaseOptions& o) { take(o, DType::i8, {ScaleKind::token_and_head, DType::f32}); }

void negate_some_scales(AttentionCase& c) {
  const PagedKVView& view = c.args().value;
  for (int64_t page = 0; page < view.num_pages; ++page)
    for (int64_t slot = page % 2; slot < view.page_size; slot += 3)
      for (int64_t head = 0; head < view.num_heads; ++head) {
        auto* const at =
            static_cast<std::byte*>(view.scales.data) + page * view.scales.page_stride_bytes +
            slot * view.scales.slot_stride_bytes + head * view.scales.head_stride_bytes;
        at[1] ^= std::byte{0x80};  // the sign of an f16
      }
}

constexpr std::string_view types =
                               "Packed.every_pair_of_types_is_right_with_and_without_rounding_"
                               "of_operands",
                           scales = "Packed.every_form_of_scales_is_right",
                           zeros = "Packed.zero_points_of_every_kind_are_right",
                           turned = "Packed.every_group_head_size_order_and_rotation_is_right";

constexpr MutantScenario scenarios[] = {
    // i8, of one scale a row
    {types, take_i8},
    // i4, of one scale a row
    {scales,
     [](CaseOptions& o) {
       take(o, DType::i4, {ScaleKind::token_and_head, DType::f16});
     }},
    // i4, two granules in 16 bytes
    {scales, [](CaseOptions& o) { take(o, DType::i4, granules_of(16)); }},
    // i4 in halves
    {types, [](CaseOptions& o) { take(o, DType::i4_halves, granules_of(32)); }},
    // f4_e2m1
    {types, [](CaseOptions& o) { take(o, DType::f4_e2m1, granules_of(32)); }},
    // u4 less 8
    {zeros, [](CaseOptions& o) { take_zeros(o, DType::u4, Zeros::none); }},
    // zero points: patterns, in scales, minima
    {zeros, [](CaseOptions& o) { take_zeros(o, DType::u4, Zeros::patterns); }},
    {zeros, [](CaseOptions& o) { take_zeros(o, DType::u4_halves, Zeros::in_scale); }},
    {zeros, [](CaseOptions& o) { take_zeros(o, DType::u4, Zeros::minimum); }},
    // scales of either sign
    {"Packed.scales_of_either_sign_are_right",
     [](CaseOptions& o) { take(o, DType::u4_halves, granules_of(32)); }, negate_some_scales},
    // K rotated; V rotated; both with signs
    {turned,
     [](CaseOptions& o) {
       take_i8(o);
       o.key_turn.hadamard = {64, 0};
     }},
    {turned,
     [](CaseOptions& o) {
       take_i8(o);
       o.value_turn.hadamard = {64, 0};
     }},
    {turned,
     [](CaseOptions& o) {
       take_i8(o);
       o.key_turn.hadamard = o.value_turn.hadamard = {32, 1};
     }},
    // channels of K; of V
    {turned,
     [](CaseOptions& o) {
       take_i8(o);
       o.key_turn.channel_scales = true;
     }},
    {turned,
     [](CaseOptions& o) {
       take_i8(o);
       o.value_turn.channel_scales = true;
     }},
};

/// An engine with what its cases need.
struct Engine {
  MutantEngine (*make)();
  MutantCases::Adapt* adapt;
};

void take_heads(CaseOptions& o) {
  o.head_size = 64;
  o.kv_heads = 2;
  o.q_heads = 4;
}

constexpr Engine engines[] = {{portable_mutants, take_heads}, {packed_mutants, [](CaseOptions& o) {
                                                                 take_heads(o);
                                                                 o.int8_operands = true;
                                                               }}};

struct Expectation {
  Mutant mutant;
  std::string_view name;
  std::string_view caught[std::size(engines)];  ///< of portable, packed
};

/// A letter for each scenario in their order.
constexpr Expectation expectations[] = {
    {Mutant::none, "none", {"---------------", "---------------"}},
    {Mutant::pattern_halves_swapped,
     "pattern_halves_swapped",
     {"-xxxxxxxxx-----", "-xxxxxxxxx-----"}},
    {Mutant::pattern_sign_lost, "pattern_sign_lost", {"-xxx-----------", "---------------"}},
    {Mutant::code_bias_kept, "code_bias_kept", {"---------------", "-xxxxxxxxx-----"}},
    {Mutant::zero_points_ignored, "zero_points_ignored", {"------xxx------", "------xxx------"}},
    {Mutant::key_granule_of_next_lane,
     "key_granule_of_next_lane",
     {"---------------", "--xxxxxxxx-----"}},
    {Mutant::weight_unit_of_next_lane,
     "weight_unit_of_next_lane",
     {"---------------", "--xxxxxxxx-----"}},
    {Mutant::sides_kept, "sides_kept", {"---------------", "-xxx-----x-----"}},
    {Mutant::butterfly_stage_left_out,
     "butterfly_stage_left_out",
     {"----------xxx--", "----------xxx--"}},
    {Mutant::rotation_signs_ignored,
     "rotation_signs_ignored",
     {"------------x--", "------------x--"}},
    {Mutant::outputs_not_turned_back,
     "outputs_not_turned_back",
     {"-----------xx--", "-----------xx--"}},
    {Mutant::channels_divided, "channels_divided", {"-------------xx", "-------------xx"}},
    {Mutant::channels_of_first_head,
     "channels_of_first_head",
     {"-------------xx", "-------------xx"}},
};

class PackedMutants : public ::testing::TestWithParam<size_t> {};

TEST_P(PackedMutants, each_is_caught_by_the_tests_about_its_fault_and_passes_the_others) {
  const MutantEngine engine = engines[GetParam()].make();
  if (!machine_has(engine.kernel.needs)) GTEST_SKIP() << "this machine lacks the instructions";
  const MutantCases cases(engine.kernel, scenarios, engines[GetParam()].adapt);
  for (const Expectation& expected : expectations)
    EXPECT_EQ(cases.caught_by(engine, expected.mutant), expected.caught[GetParam()])
        << expected.name << " in " << engine.kernel.name;
}

INSTANTIATE_TEST_SUITE_P(OfEachEngine, PackedMutants,
                         ::testing::Range(size_t{0}, std::size(engines)), [](const auto& instance) {
                           return std::string(engines[instance.param].make().kernel.name);
                         });

}  // namespace
}  // namespace folio::test
