// SPDX-License-Identifier: Apache-2.0
/// tier/events/write_batch.cpp: from events to msgpack.
#include <bit>
#include <utility>

#include "tier/events/wire.h"

namespace folio::inline v1::tier {

uint64_t last_64_bits(const PageName& name) noexcept {
  uint64_t bits = 0;
  for (size_t i = name.bytes.size() - 8; i < name.bytes.size(); ++i)
    bits = bits << 8 | name.bytes[i];
  return bits;
}

PageName name_of_last_64_bits(uint64_t bits) noexcept {
  PageName name;
  for (size_t i = name.bytes.size(); i > name.bytes.size() - 8; --i, bits >>= 8)
    name.bytes[i - 1] = static_cast<uint8_t>(bits);
  return name;
}

namespace {

Json absent() { return Json(Json::value_t::discarded); }

struct Kind {
  std::string_view word;
  std::optional<GroupRule> rule;
};
/// vLLM 0.32, KVCacheSpecKind. Of each rule the word that is written stands first.
constexpr Kind kinds[] = {
    {"full_attention", GroupRule::full},
    {"sliding_window", GroupRule::window},
    {"chunked_local_attention", GroupRule::chunked},
    {"mamba", GroupRule::state},
    {"mla_attention", GroupRule::full},
    {"sink_full_attention", GroupRule::full},
    {"sliding_window_mla", GroupRule::window},
    {"encoder_only_attention", {}},
    {"cross_attention", {}},
    {"unknown", {}},
};

}  // namespace

std::string_view kind_of(std::optional<GroupRule> rule) noexcept {
  for (const Kind& kind : kinds)
    if (rule && kind.rule == rule) return kind.word;
  return "unknown";
}

KnownKind rule_of(std::string_view word) noexcept {
  for (const Kind& kind : kinds)
    if (kind.word == word) return {true, kind.rule};
  return {};
}

Json BatchWriter::hash_of(const PageName& name) const {
  if (names_ == NameForm::last_64_bits) return last_64_bits(name);
  return Json::binary({name.bytes.begin(), name.bytes.end()});
}

/// vLLM's fields have no holes: what stands behind an absent one by its place needs a null there,
/// and by its name nothing.
void BatchWriter::add(const char* tag, std::span<Field> fields) {
  Json event;
  if (format_ == EventFormat::maps) {
    event = Json::object();
    event["type"] = tag;
    for (Field& field : fields)
      if (!field.value.is_discarded()) event[field.name] = std::move(field.value);
  } else {
    event = Json::array({tag});
    for (Field& field : fields)
      event.push_back(field.value.is_discarded() ? Json() : std::move(field.value));
  }
  events_.push_back(std::move(event));
  ++size_;
}

void BatchWriter::stored(const PageName& name, const Content& content, std::string_view medium,
                         std::string_view lora_name) {
  removed_from_.clear();
  Field fields[] = {
      {"block_hashes", Json::array({hash_of(name)})},
      {"parent_block_hash", content.has_parent ? hash_of(content.parent) : Json()},
      {"token_ids", content.tokens},
      {"block_size", content.tokens.size()},
      {"lora_id", content.adapter == 0 ? Json() : Json(content.adapter)},
      {"medium", medium},
      {"lora_name", lora_name.empty() ? Json() : Json(lora_name)},
      {"extra_keys", absent()},
      {"group_idx", content.group.index},
      {"kv_cache_spec_kind", kind_of(content.group.rule)},
      {"kv_cache_spec_sliding_window", content.group.window},
  };
  // The last field is of windows alone; nothing stands behind it.
  const bool has_window = content.group.rule == GroupRule::window;
  add("BlockStored", std::span(fields).first(std::size(fields) - (has_window ? 0 : 1)));
}

void BatchWriter::removed(const PageName& name, std::string_view medium, uint32_t group) {
  if (removed_from_ == medium && removed_group_ == group) {
    Json& event = events_.back();
    Json& hashes = format_ == EventFormat::maps ? event["block_hashes"] : event[1];
    hashes.push_back(hash_of(name));
    ++size_;
    return;
  }
  Field fields[] = {
      {"block_hashes", Json::array({hash_of(name)})}, {"medium", medium}, {"group_idx", group}};
  add("BlockRemoved", fields);
  removed_from_ = medium;
  removed_group_ = group;
}

void BatchWriter::cleared() {
  removed_from_.clear();
  add("AllBlocksCleared", {});
}

std::vector<uint8_t> BatchWriter::finish(double seconds, int32_t data_parallel_rank) {
  // An array of three and a float of 64 bits, by hand: the library makes 32 of one that needs no
  // more.
  std::vector<uint8_t> bytes = {0x93, 0xcb};
  const auto bits = std::bit_cast<uint64_t>(seconds);
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(bits >> shift));
  Json::to_msgpack(events_, bytes);
  Json::to_msgpack(Json(data_parallel_rank), bytes);
  events_ = Json::array();
  removed_from_.clear();
  size_ = 0;
  return bytes;
}

}  // namespace folio::inline v1::tier
