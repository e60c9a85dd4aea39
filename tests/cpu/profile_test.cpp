// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/profile_test.cpp: the profiles of machines: which is whose, and that their numbers are
/// such that kernels can work by them.
#include "cpu/profile.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace folio::test {
namespace {

Processor processor_of(Vendor vendor, Capabilities capabilities, uint32_t family = 0) {
  Processor p;
  p.family = family;
  p.vendor = vendor;
  p.capabilities = capabilities;
  return p;
}

const Processor kinds[] = {
    processor_of(Vendor::other, needs_cpu), processor_of(Vendor::intel, needs_amx_bf16),
    processor_of(Vendor::amd, needs_avx512_bf16), processor_of(Vendor::amd, needs_avx512_bf16, 25)};

TEST(Profile, vendor_and_capabilities_choose) {
  std::set<std::string> names;
  for (const Processor& kind : kinds) names.insert(profile_of(kind).name);
  EXPECT_EQ(names.size(), std::size(kinds)) << "each kind has a profile of its own";
  const MachineProfile& generic = profile_of({});
  EXPECT_STREQ(generic.name, "generic");
  for (const Vendor vendor : {Vendor::other, Vendor::intel, Vendor::amd})
    EXPECT_EQ(&profile_of(processor_of(vendor, needs_x86_64_v4)), &generic)
        << "without products of bf16 nothing is known of the machine";
  EXPECT_EQ(&profile_of(processor_of(Vendor::other, needs_amx_bf16)), &generic);
  EXPECT_EQ(&profile_of(processor_of(Vendor::intel, needs_avx512_bf16)), &profile_of(kinds[1]));
  EXPECT_EQ(&profile_of(processor_of(Vendor::amd, needs_amx_bf16)), &profile_of(kinds[2]));
  EXPECT_EQ(&profile_of(processor_of(Vendor::amd, needs_avx512_bf16, 26)), &profile_of(kinds[2]));
  EXPECT_EQ(&machine_profile(), &profile_of(processor()));
}

TEST(Profile, slow_arithmetic_is_known_and_what_is_unknown_counts_as_slow) {
  EXPECT_TRUE(profile_of({}).bf16_dot_is_slow);
  EXPECT_TRUE(profile_of(kinds[1]).bf16_dot_is_slow);
  EXPECT_FALSE(profile_of(kinds[2]).bf16_dot_is_slow);
  EXPECT_FALSE(profile_of(kinds[3]).bf16_dot_is_slow);
}

/// A step that asks for nothing would leave memory idle; more than all lines there are not.
void expect_sane(const PacePercent& pace) {
  for (const int32_t percent : {pace.stage_keys, pace.scores, pace.stage_values, pace.values})
    EXPECT_TRUE(percent > 0 && percent < 100) << percent;
  EXPECT_LE(pace.stage_keys + pace.scores + pace.stage_values + pace.values, 100);
}

TEST(Profile, every_number_is_one_that_kernels_can_work_by) {
  for (const Processor& kind : kinds) {
    const MachineProfile& profile = profile_of(kind);
    SCOPED_TRACE(profile.name);
    expect_sane(profile.amx_grouped.pace_16_bit);
    for (const int32_t rows : {profile.in_place.rows_token_major, profile.in_place.rows_head_major})
      EXPECT_TRUE(rows >= 0 && rows <= 16) << rows << ": more fill a tile";
    expect_sane(profile.amx_grouped.pace_8_bit);
    EXPECT_GT(profile.amx_grouped.lines_at_end, 0) << "the end of a head would never come";
    for (const int32_t ahead : {profile.rows.queries_ahead, profile.rows.outputs_ahead})
      EXPECT_TRUE(ahead >= 0 && ahead <= 64) << ahead;
    const AppendProfile& append = profile.append;
    EXPECT_TRUE(append.tokens_ahead >= 0 && append.tokens_ahead <= 16) << append.tokens_ahead;
    EXPECT_GE(append.stream_bytes, 1 << 20) << "what the caches hold is stored in them";
    EXPECT_TRUE(append.task_bytes > 0 && append.task_bytes <= append.stream_bytes);
    EXPECT_TRUE(append.tasks_per_thread > 0 && append.tasks_per_thread <= 64);
    EXPECT_GE(append.call_bytes, 0);
  }
}

}  // namespace
}  // namespace folio::test
