// SPDX-License-Identifier: Apache-2.0
/// src/cpu/profile.cpp: the profiles. Figures behind them: docs/records.
#include "cpu/profile.h"

namespace folio::inline v1 {
namespace {

// Parts that all kinds of machines share so far: one value has served them.

/// Measured on Intel, family 6, model 207; read where `staged` is paced.
constexpr AmxGroupedProfile paced_staging{
    .pace_16_bit = {.stage_keys = 36, .scores = 16, .stage_values = 25, .values = 11},
    .pace_8_bit = {.stage_keys = 25, .scores = 16, .stage_values = 25, .values = 22},
    .lines_at_end = 8};
constexpr RowsProfile scattered_rows{.queries_ahead = 8, .outputs_ahead = 8};
/// Two tokens are about the time that memory takes. A fork-join costs about a microsecond, a core
/// moves some 10 GB/s.
constexpr AppendProfile server_memory{.tokens_ahead = 2,
                                      .stream_bytes = 32 << 20,
                                      .task_bytes = 32 << 10,
                                      .tasks_per_thread = 4,
                                      .call_bytes = 256};
/// On Zen 5 a request for the second cache alone is dropped.
constexpr AppendProfile zen_memory = [] {
  AppendProfile profile = server_memory;
  profile.fetches_near = true;
  return profile;
}();

constexpr MachineProfile generic{.name = "generic",
                                 .bf16_dot_is_slow = true,
                                 .amx_grouped = paced_staging,
                                 .rows = scattered_rows,
                                 .append = server_memory};
constexpr MachineProfile intel{.name = "Intel with AVX512-BF16",
                               .bf16_dot_is_slow = true,
                               .in_place = {.policy = PrefetchPolicy::paced,
                                            .whole_tiles = true,
                                            .rows_token_major = 4,
                                            .rows_head_major = 2},
                               .staged = PrefetchPolicy::paced,
                               .amx_grouped = paced_staging,
                               .rows = scattered_rows,
                               .append = server_memory};
constexpr MachineProfile zen_5{.name = "AMD Zen 5 and later",
                               .in_place = {.policy = PrefetchPolicy::paced,
                                            .fetches_near = true,
                                            .beside_values = true,
                                            .whole_tiles = true,
                                            .dense_values = true,
                                            .again = true},
                               .amx_grouped = paced_staging,
                               .rows = scattered_rows,
                               .append = zen_memory};
/// Its first cache waits for too few lines at once to keep memory busy, its second for more.
constexpr MachineProfile zen_4 = [] {
  MachineProfile profile = zen_5;
  profile.name = "AMD Zen 4";
  profile.in_place.fetches_near = false;
  return profile;
}();
constexpr uint32_t zen_4_family = 25;

}  // namespace

const MachineProfile& profile_of(const Processor& processor) noexcept {
  if (!processor.capabilities.has(Capability::avx512_bf16)) return generic;
  if (processor.vendor == Vendor::amd) return processor.family == zen_4_family ? zen_4 : zen_5;
  if (processor.vendor == Vendor::intel) return intel;
  return generic;
}

const MachineProfile& machine_profile() noexcept { return profile_of(processor()); }

}  // namespace folio::inline v1
