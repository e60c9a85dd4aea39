// SPDX-License-Identifier: Apache-2.0
/// tier/peer/frame.h: what ends of one wire say to one another.
///
/// A transfer has the number that its asker gave it. `write` and `read` ask; whoever is asked pins
/// what the runs name and answers `granted`, or `ended` with what went wrong. The bytes then move
/// as the wire has it. A write ends with `ended` from who was asked; a read with `fetched` from who
/// asked. `dropped` is an asker that no longer wants.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "folio/cache/page_extents.h"
#include "folio/tier/transport.h"

namespace folio::inline v1::tier {

enum class FrameKind : uint8_t {
  hello = 1,    ///< bytes: the address of who connects; extents: where its end id is
  welcome = 2,  ///< extents: where the end id is
  refused = 3,  ///< bytes: why
  message = 4,  ///< bytes
  write = 5,    ///< runs; extents: where the asker has the bytes; bytes: the message
  read = 6,     ///< runs
  granted = 7,  ///< extents: where the asked has the bytes
  ended = 8,    ///< outcome; bytes: why it failed
  fetched = 9,  ///< bytes: the message
  dropped = 10,
  alive = 11,  ///< nothing but that
  gone = 12,   ///< nothing comes behind it
};

struct Frame {
  FrameKind kind = FrameKind::alive;
  TransferState outcome = TransferState::done;
  uint64_t transfer = 0;
  std::vector<RegionRun> runs = {};
  std::vector<Extent> extents = {};
  std::vector<std::byte> bytes = {};
};

/// Throws bad_alloc.
[[nodiscard]] std::vector<std::byte> encode(const Frame& frame);
/// Errors: io for bytes that are no frame; throws bad_alloc
[[nodiscard]] Result<Frame> decode_frame(std::span<const std::byte> bytes);

/// The error of a peer that says what it must not.
[[nodiscard]] inline Status protocol_fault(const char* what) noexcept {
  return fail(Errc::io, "Transport: a peer breaks the protocol: {}", what);
}

/// Most that a frame of such options has, encoded.
[[nodiscard]] int64_t max_frame_bytes(const TransportOptions& options) noexcept;

[[nodiscard]] std::vector<std::byte> bytes_of(std::string_view text);
[[nodiscard]] std::string_view text_of(std::span<const std::byte> bytes) noexcept;
/// Of runs or extents, or -1: one has none, or all are too many to count.
[[nodiscard]] int64_t sum_of(std::span<const RegionRun> runs) noexcept;
[[nodiscard]] int64_t sum_of(std::span<const Extent> extents) noexcept;

}  // namespace folio::inline v1::tier
