// SPDX-License-Identifier: Apache-2.0
/// tier/events/wire.h: events as msgpack, with the fields that vLLM's have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/tier/event_publisher.h"

namespace folio::inline v1::tier {

/// Fields keep their order, so that the bytes are those that vLLM's encoder makes.
using Json = nlohmann::ordered_json;

/// What a stored event says beside a name.
struct Content {
  PageName parent = {};
  bool has_parent = false;
  uint64_t adapter = 0;              ///< 0: none
  std::vector<TokenId> tokens = {};  ///< none: unknown
};

/// The integer that stands for a name.
[[nodiscard]] uint64_t last_64_bits(const PageName& name) noexcept;
[[nodiscard]] PageName name_of_last_64_bits(uint64_t bits) noexcept;

/// Gathers the events of a batch. Throws std::bad_alloc.
class BatchWriter {
 public:
  BatchWriter(EventFormat format, NameForm names) : format_(format), names_(names) {}

  void stored(const PageName& name, const Content& content, std::string_view medium);
  /// Joins the event before, if that is one of the same medium.
  void removed(const PageName& name, std::string_view medium);
  void cleared();
  /// Events; a joined one counts for each name.
  [[nodiscard]] int64_t size() const { return size_; }
  /// The batch's bytes; begins anew. `seconds` since 1970
  [[nodiscard]] std::vector<uint8_t> finish(double seconds, int32_t data_parallel_rank);

 private:
  struct Field {
    const char* name;
    Json value;
  };
  [[nodiscard]] Json hash_of(const PageName& name) const;
  void add(const char* tag, std::span<Field> fields);

  EventFormat format_;
  NameForm names_;
  Json events_ = Json::array();
  std::string removed_from_;  ///< the last event's medium, where that is a removed one
  int64_t size_ = 0;
};

/// A stored or removed event, or one that all are gone.
struct WireEvent {
  enum class Kind : uint8_t { stored, removed, cleared };
  Kind kind = Kind::cleared;
  std::vector<PageName> names;
  std::optional<PageName> parent;
  std::string medium;
};

struct WireBatch {
  std::vector<WireEvent> events;
  int64_t refused_events = 0, ignored_events = 0;
};

/// None where the payload is malformed. Throws std::bad_alloc.
[[nodiscard]] std::optional<WireBatch> read_batch(std::span<const std::byte> payload);

}  // namespace folio::inline v1::tier
