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

#include "folio/pool/groups.h"
#include "folio/tier/event_publisher.h"

namespace folio::inline v1::tier {

/// Fields keep their order, so that the bytes are those that vLLM's encoder makes.
using Json = nlohmann::ordered_json;

/// The group of an event: what vLLM says of it.
struct WireGroup {
  uint32_t index = 0;
  std::optional<GroupRule> rule = GroupRule::full;  ///< none: not known
  int32_t window = 0;                               ///< tokens, of rule `window`
};

/// vLLM's word for a group of this rule.
[[nodiscard]] std::string_view kind_of(std::optional<GroupRule> rule) noexcept;
/// The rule of a group that vLLM calls so; none for one that caches nothing by its prefix.
struct KnownKind {
  bool is_known = false;
  std::optional<GroupRule> rule = {};
};
[[nodiscard]] KnownKind rule_of(std::string_view kind) noexcept;

/// What a stored event says beside a name.
struct Content {
  PageName parent = {};
  bool has_parent = false;
  uint64_t adapter = 0;              ///< 0: none
  std::vector<TokenId> tokens = {};  ///< none: unknown
  WireGroup group = {};
};

/// The integer that stands for a name.
[[nodiscard]] uint64_t last_64_bits(const PageName& name) noexcept;
[[nodiscard]] PageName name_of_last_64_bits(uint64_t bits) noexcept;

/// Gathers the events of a batch. Throws std::bad_alloc.
class BatchWriter {
 public:
  BatchWriter(EventFormat format, NameForm names) : format_(format), names_(names) {}

  /// `lora_name` of the content's adapter; empty: not known.
  void stored(const PageName& name, const Content& content, std::string_view medium,
              std::string_view lora_name = {});
  /// Joins the event before, if that is one of the same medium and group.
  void removed(const PageName& name, std::string_view medium, uint32_t group = 0);
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
  uint32_t removed_group_ = 0;
  int64_t size_ = 0;
};

/// A stored or removed event, or one that all are gone.
struct WireEvent {
  enum class Kind : uint8_t { stored, removed, cleared };
  Kind kind = Kind::cleared;
  std::vector<PageName> names;
  std::optional<PageName> parent;
  std::string medium;
  int32_t group = 0;
  std::optional<std::string> group_kind;  ///< stored
  std::optional<int32_t> window;          ///< stored
  int32_t block_size = 0;                 ///< stored
  int64_t num_tokens = 0;                 ///< stored
};

struct WireBatch {
  std::vector<WireEvent> events;
  int64_t refused_events = 0, ignored_events = 0;
};

/// None where the payload is malformed. Throws std::bad_alloc.
[[nodiscard]] std::optional<WireBatch> read_batch(std::span<const std::byte> payload);

}  // namespace folio::inline v1::tier
