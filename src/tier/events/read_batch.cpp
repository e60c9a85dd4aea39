// SPDX-License-Identifier: Apache-2.0
/// tier/events/read_batch.cpp: from msgpack that anybody may have sent to events.
#include <algorithm>
#include <limits>
#include <utility>

#include "folio/tier/event_index.h"
#include "tier/events/wire.h"

namespace folio::inline v1::tier {
namespace {

/// Deeper than a batch, an event, its extra keys, a pair in these, and some more.
constexpr int most_levels = 12;
/// Each becomes 16 bytes and more.
constexpr int64_t most_values = int64_t{1} << 22;
/// Of a block or a window.
constexpr int64_t most_tokens = std::numeric_limits<int32_t>::max();

/// Says whether a message may become values: the library descends into what is nested by calling
/// itself.
class Bounds final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return one(); }
  bool boolean(bool) override { return one(); }
  bool number_integer(int64_t) override { return one(); }
  bool number_unsigned(uint64_t) override { return one(); }
  bool number_float(double, const std::string&) override { return one(); }
  bool string(std::string&) override { return one(); }
  bool binary(Json::binary_t&) override { return one(); }
  bool key(std::string&) override { return one(); }
  bool start_object(size_t) override { return one() && ++level_ <= most_levels; }
  bool start_array(size_t) override { return one() && ++level_ <= most_levels; }
  bool end_object() override { return --level_, true; }
  bool end_array() override { return --level_, true; }
  bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  bool one() { return ++values_ <= most_values; }
  int level_ = 0;
  int64_t values_ = 0;
};

/// By name or by place; null where there is none.
const Json* field(const Json& event, const char* name, size_t place) {
  if (event.is_object()) {
    const auto at = event.find(name);
    return at == event.end() ? nullptr : &*at;
  }
  return place < event.size() ? &event[place] : nullptr;
}

std::optional<PageName> name_of(const Json& value) {
  if (value.is_number_unsigned()) return name_of_last_64_bits(value.get<uint64_t>());
  if (value.is_number_integer())
    return name_of_last_64_bits(static_cast<uint64_t>(value.get<int64_t>()));
  PageName name;
  if (!value.is_binary() || value.get_binary().size() != name.bytes.size()) return {};
  std::copy(value.get_binary().begin(), value.get_binary().end(), name.bytes.begin());
  return name;
}

bool read_names(const Json* values, std::vector<PageName>& names) {
  if (values == nullptr || !values->is_array()) return false;
  for (const Json& value : *values) {
    const std::optional<PageName> name = name_of(value);
    if (!name) return false;
    names.push_back(*name);
  }
  return true;
}

/// A router takes an event without one for the engine's own memory.
bool read_medium(const Json* value, std::string& medium) {
  medium = medium_gpu;
  if (value == nullptr || value->is_null()) return true;
  if (!value->is_string() || value->get_ref<const std::string&>().size() > 64) return false;
  medium = value->get_ref<const std::string&>();
  return true;
}

bool is_absent(const Json* value) { return value == nullptr || value->is_null(); }

/// Nothing where it is absent; false where it is no integer from `least` to `most`.
template <class Integer>
bool read_integer(const Json* value, int64_t least, int64_t most, Integer& to) {
  if (is_absent(value)) return true;
  if (!value->is_number_integer()) return false;
  const auto integer = value->get<int64_t>();  // of one above 2^63: negative
  if (integer < least || integer > most) return false;
  to = static_cast<int32_t>(integer);
  return true;
}

bool read_group(const Json* value, WireEvent& event) {
  return read_integer(value, 0, EventIndex::max_groups - 1, event.group);
}

bool read_kind(const Json* value, WireEvent& event) {
  if (is_absent(value)) return true;
  if (!value->is_string() || value->get_ref<const std::string&>().size() > 64) return false;
  event.group_kind = value->get_ref<const std::string&>();
  return true;
}

bool read_stored(const Json& from, WireEvent& event) {
  event.kind = WireEvent::Kind::stored;
  const Json* const tokens = field(from, "token_ids", 3);
  const Json* const size = field(from, "block_size", 4);
  if (!read_names(field(from, "block_hashes", 1), event.names) || tokens == nullptr ||
      !tokens->is_array() || is_absent(size) ||
      !read_integer(size, 0, most_tokens, event.block_size) ||
      !read_medium(field(from, "medium", 6), event.medium) ||
      !read_group(field(from, "group_idx", 9), event) ||
      !read_kind(field(from, "kv_cache_spec_kind", 10), event) ||
      !read_integer(field(from, "kv_cache_spec_sliding_window", 11), 1, most_tokens, event.window))
    return false;
  event.num_tokens = std::ssize(*tokens);
  const Json* const parent = field(from, "parent_block_hash", 2);
  if (is_absent(parent)) return true;
  event.parent = name_of(*parent);
  return event.parent.has_value();
}

bool read_removed(const Json& from, WireEvent& event) {
  event.kind = WireEvent::Kind::removed;
  return read_names(field(from, "block_hashes", 1), event.names) &&
         read_medium(field(from, "medium", 2), event.medium) &&
         read_group(field(from, "group_idx", 3), event);
}

void read_event(const Json& from, WireBatch& batch) {
  const Json* const tag = from.is_object() || from.is_array() ? field(from, "type", 0) : nullptr;
  if (tag == nullptr || !tag->is_string()) {
    ++batch.refused_events;
    return;
  }
  const auto& kind = tag->get_ref<const std::string&>();
  WireEvent event;
  bool is_good = true;
  if (kind == "BlockStored") {
    is_good = read_stored(from, event);
  } else if (kind == "BlockRemoved") {
    is_good = read_removed(from, event);
  } else if (kind != "AllBlocksCleared") {
    ++batch.ignored_events;
    return;
  }
  if (is_good) {
    batch.events.push_back(std::move(event));
  } else {
    ++batch.refused_events;
  }
}

}  // namespace

std::optional<WireBatch> read_batch(std::span<const std::byte> payload) {
  if (payload.empty() || payload.data() == nullptr) return {};
  const auto* const first = reinterpret_cast<const uint8_t*>(payload.data());
  const auto* const last = first + payload.size();
  Bounds bounds;
  if (!Json::sax_parse(first, last, &bounds, Json::input_format_t::msgpack)) return {};
  const Json batch = Json::from_msgpack(first, last, true, false);
  if (!batch.is_array() || batch.size() < 2 || !batch[0].is_number() || !batch[1].is_array())
    return {};
  WireBatch read;
  for (const Json& event : batch[1]) read_event(event, read);
  return read;
}

}  // namespace folio::inline v1::tier
