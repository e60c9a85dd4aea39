// SPDX-License-Identifier: Apache-2.0
/// src/tier/peer/frame.cpp: messages between transports as bytes.
#include "tier/peer/frame.h"

#include <algorithm>
#include <limits>

#include "tier/peer/address.h"
#include "tier/peer/bytes.h"

namespace folio::inline v1::tier {
namespace {

template <class Run>
int64_t sum(std::span<const Run> runs) {
  int64_t all = 0;
  for (const Run& run : runs) {
    if (run.bytes < 1 || run.bytes > std::numeric_limits<int64_t>::max() - all) return -1;
    all += run.bytes;
  }
  return all;
}

}  // namespace

std::vector<std::byte> encode(const Frame& frame) {
  ByteWriter writer;
  writer.put(frame.kind);
  writer.put(frame.outcome);
  writer.put(frame.transfer);
  writer.put_all(std::span<const RegionRun>(frame.runs));
  writer.put_all(std::span<const Extent>(frame.extents));
  writer.put_all(std::span<const std::byte>(frame.bytes));
  return std::move(writer.bytes());
}

Result<Frame> decode_frame(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Frame frame;
  frame.kind = reader.get<FrameKind>();
  frame.outcome = reader.get<TransferState>();
  frame.transfer = reader.get<uint64_t>();
  frame.runs = reader.get_all<RegionRun>();
  frame.extents = reader.get_all<Extent>();
  frame.bytes = reader.get_all<std::byte>();
  const bool is_known = frame.kind >= FrameKind::hello && frame.kind <= FrameKind::gone &&
                        frame.outcome <= TransferState::cancelled;
  if (!reader.is_at_end() || !is_known)
    return fail(Errc::io, "Transport: {} bytes of a peer are no frame", bytes.size());
  return frame;
}

int64_t max_frame_bytes(const TransportOptions& options) noexcept {
  constexpr int64_t rest = 64;
  const int64_t runs = int64_t{options.max_runs} * int64_t{sizeof(RegionRun) + sizeof(Extent)};
  return rest + runs + std::max(options.max_message_bytes, max_address_bytes);
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

int64_t sum_of(std::span<const RegionRun> runs) noexcept { return sum(runs); }
int64_t sum_of(std::span<const Extent> extents) noexcept { return sum(extents); }

}  // namespace folio::inline v1::tier
