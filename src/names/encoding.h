// SPDX-License-Identifier: Apache-2.0
/// names/encoding.h: the bytes that are hashed, as folio/names/sha256_names.h says. Nothing is
/// checked here.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "folio/pool/name.h"

namespace folio::inline v1::names {

// With eleven bytes, 16 tokens have 119: what two blocks of SHA-256 hold beside its own nine.
inline constexpr std::string_view root_word = "folio root1";
inline constexpr std::string_view page_word = "folio page1";
// A companion has 53: one block.
inline constexpr std::string_view companion_word = "folio pair1";

/// Puts integers and bytes one behind the other and hands them on in pieces:
/// `sink(const void*, size_t)`.
template <class Sink>
class ByteWriter {
 public:
  explicit ByteWriter(Sink& sink) noexcept : sink_(sink) {}

  void bytes(const void* data, size_t count) {
    if (count == 0) return;
    if (count > sizeof buffer_ - used_) flush();
    if (count > sizeof buffer_) return sink_(data, count);
    std::memcpy(buffer_ + used_, data, count);
    used_ += count;
  }
  void u32(uint32_t value) {
    if (sizeof value > sizeof buffer_ - used_) flush();
    const uint8_t little[] = {static_cast<uint8_t>(value), static_cast<uint8_t>(value >> 8),
                              static_cast<uint8_t>(value >> 16), static_cast<uint8_t>(value >> 24)};
    std::memcpy(buffer_ + used_, little, sizeof little);
    used_ += sizeof little;
  }
  /// In one piece, where they lie in memory as they are to be written: what hashes reads wider
  /// words than a token, and would wait for the stores of single ones.
  template <std::endian Memory = std::endian::native>
  void tokens(std::span<const TokenId> tokens) {
    if constexpr (Memory == std::endian::little) {
      bytes(tokens.data(), tokens.size_bytes());
    } else {
      for (const TokenId token : tokens) u32(static_cast<uint32_t>(token));
    }
  }
  void u64(uint64_t value) {
    u32(static_cast<uint32_t>(value));
    u32(static_cast<uint32_t>(value >> 32));
  }
  void digest(const Digest256& digest) { bytes(digest.bytes.data(), digest.bytes.size()); }
  void flush() {
    if (used_ != 0) sink_(static_cast<const void*>(buffer_), used_);
    used_ = 0;
  }

 private:
  Sink& sink_;
  size_t used_ = 0;
  uint8_t buffer_[512];
};

template <class Sink>
void encode_root(const Digest256& fingerprint, std::string_view salt, uint64_t adapter,
                 Sink&& sink) {
  ByteWriter writer(sink);
  writer.bytes(root_word.data(), root_word.size());
  writer.digest(fingerprint);
  writer.u64(adapter);
  writer.u32(static_cast<uint32_t>(salt.size()));
  writer.bytes(salt.data(), salt.size());
  writer.flush();
}

template <class Sink>
void encode_page(std::span<const uint8_t> header, const PageName& parent,
                 std::span<const TokenId> tokens, std::span<const ContentSpan> spans, Sink&& sink) {
  ByteWriter writer(sink);
  writer.bytes(page_word.data(), page_word.size());
  writer.u32(static_cast<uint32_t>(header.size()));
  writer.bytes(header.data(), header.size());
  writer.digest(parent);
  writer.u32(static_cast<uint32_t>(tokens.size()));
  writer.tokens(tokens);
  writer.u32(static_cast<uint32_t>(spans.size()));
  for (const ContentSpan& span : spans) {
    writer.u32(static_cast<uint32_t>(span.offset));
    writer.u32(static_cast<uint32_t>(span.length));
    writer.digest(span.hash);
  }
  writer.flush();
}

template <class Sink>
void encode_companion(const pool::CompanionContent& page, Sink&& sink) {
  const GroupOptions& of = page.options;
  int32_t reach = 0;
  switch (of.rule) {
    case GroupRule::full: break;
    case GroupRule::window: reach = of.window; break;
    case GroupRule::chunked: reach = of.chunk; break;
    case GroupRule::state: reach = of.checkpoint; break;
  }
  ByteWriter writer(sink);
  writer.bytes(companion_word.data(), companion_word.size());
  writer.digest(page.leading);
  const uint8_t kind[] = {static_cast<uint8_t>(page.group), static_cast<uint8_t>(of.rule)};
  writer.bytes(kind, sizeof kind);
  writer.u32(static_cast<uint32_t>(reach));
  writer.u32(of.rule == GroupRule::window ? static_cast<uint32_t>(of.sinks) : 0);
  writer.flush();
}

}  // namespace folio::inline v1::names
