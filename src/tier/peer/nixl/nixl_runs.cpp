// SPDX-License-Identifier: Apache-2.0
/// tier/peer/nixl/nixl_runs.cpp: numbers of 7 bits a byte, least ones first; a run says what
/// differs from the one before it, and how far it is from that one's end.
#include "tier/peer/nixl/nixl_runs.h"

#include <cstdint>

namespace folio::inline v1::tier {
namespace {

constexpr uint64_t region_differs = 1, bytes_differ = 2;

void put_number(uint64_t number, std::vector<std::byte>* bytes) {
  for (; number >= 128; number >>= 7U)
    bytes->push_back(static_cast<std::byte>((number & 127U) | 128U));
  bytes->push_back(static_cast<std::byte>(number));
}

/// Whether there was one.
bool take_number(std::span<const std::byte>* bytes, uint64_t* number) {
  *number = 0;
  for (unsigned shift = 0; shift < 64 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<uint64_t>(bytes->front());
    *bytes = bytes->subspan(1);
    *number |= (byte & 127U) << shift;
    if (byte < 128) return true;
  }
  return false;
}

/// Small ones of either sign are small.
uint64_t folded(uint64_t distance) { return (distance << 1U) ^ (0 - (distance >> 63U)); }
uint64_t unfolded(uint64_t number) { return (number >> 1U) ^ (0 - (number & 1U)); }

uint64_t end_of(const RegionRun& run) {
  return static_cast<uint64_t>(run.offset) + static_cast<uint64_t>(run.bytes);
}

}  // namespace

void put_runs(std::span<const RegionRun> runs, std::vector<std::byte>* bytes) {
  put_number(runs.size(), bytes);
  RegionRun last;
  for (const RegionRun& run : runs) {
    const bool is_other_region = run.region != last.region, is_other_size = run.bytes != last.bytes;
    put_number((is_other_region ? region_differs : 0) | (is_other_size ? bytes_differ : 0), bytes);
    if (is_other_region) put_number(run.region.value, bytes);
    if (is_other_size) put_number(static_cast<uint64_t>(run.bytes), bytes);
    put_number(folded(static_cast<uint64_t>(run.offset) - end_of(last)), bytes);
    last = run;
  }
}

Result<std::vector<RegionRun>> take_runs(std::span<const std::byte>* bytes) {
  const Status fault = fail(Errc::io, "Transport: {} bytes of a peer are no runs", bytes->size());
  uint64_t count = 0;
  if (!take_number(bytes, &count) || count > bytes->size() / 2) return fault;
  std::vector<RegionRun> runs;
  runs.reserve(count);
  RegionRun last;
  while (runs.size() < count) {
    uint64_t differs = 0, region = last.region.value, distance = 0;
    auto size = static_cast<uint64_t>(last.bytes);
    if (!take_number(bytes, &differs) || differs > (region_differs | bytes_differ) ||
        ((differs & region_differs) != 0 && !take_number(bytes, &region)) ||
        ((differs & bytes_differ) != 0 && !take_number(bytes, &size)) ||
        !take_number(bytes, &distance) || region > UINT32_MAX)
      return fault;
    last = {.region = RegionId{static_cast<uint32_t>(region)},
            .offset = static_cast<int64_t>(end_of(last) + unfolded(distance)),
            .bytes = static_cast<int64_t>(size)};
    runs.push_back(last);
  }
  return runs;
}

}  // namespace folio::inline v1::tier
