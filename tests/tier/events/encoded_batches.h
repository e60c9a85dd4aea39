// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/encoded_batches.h: batches of events as they are encoded, and indices that are
/// fed with them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/event_index.h"
#include "tier/events/wire.h"

namespace folio::test {

constexpr EventFormat event_formats[] = {EventFormat::maps, EventFormat::arrays};
constexpr NameForm name_forms[] = {NameForm::bytes, NameForm::last_64_bits};

inline PageName number(uint32_t n) { return tier::name_of_last_64_bits(n); }

inline EventIndex make_index(const EventIndexOptions& options = {}) {
  return std::move(EventIndex::create(options)).value();
}
inline Status feed(EventIndex& index, const std::vector<uint8_t>& bytes) {
  return index.apply(std::as_bytes(std::span(bytes)));
}
/// A batch of these events.
inline std::vector<uint8_t> batch(const tier::Json& events) {
  return tier::Json::to_msgpack(tier::Json::array({1.5, events, 0}));
}

/// Blocks of 4 tokens, first to last; so many tokens more, of blocks that are left out.
inline tier::Json stored(const std::vector<int>& names, const tier::Json& parent, int group,
                         const char* kind, size_t left_out = 0) {
  tier::Json event = {{"type", "BlockStored"},
                      {"block_hashes", names},
                      {"parent_block_hash", parent},
                      {"token_ids", std::vector<int>(names.size() * 4 + left_out * 4)},
                      {"block_size", 4},
                      {"medium", "GPU"},
                      {"group_idx", group},
                      {"kv_cache_spec_kind", kind}};
  if (std::string(kind) == "sliding_window") event["kv_cache_spec_sliding_window"] = 9;
  return event;
}

}  // namespace folio::test
