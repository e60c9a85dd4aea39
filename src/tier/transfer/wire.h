// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/wire.h: what the two ends of a handover say to one another.
///
///   sender -> receiver: hello, announce, want, landed, done, ended
///   receiver -> sender: welcome, unwelcome, accept, slots, committed, abort
///
/// Ends with groups have a version of their own, in which `groups` follows hello, welcome_groups
/// and accept_groups stand for welcome and accept, and a sender says `computing` while it has
/// nothing to send. Who knows version 1 alone refuses the hello, with the reason.
///
/// A message is a magic number, its kind and its fields behind one another, in the byte order of
/// the machine, which the magic number tells; lists begin with the number of their elements.
/// Whatever comes is taken for anything: `decode` gives a message that is whole, or none.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "folio/pool/name.h"
#include "tier/transfer/geometry.h"
#include "tier/transfer/layout.h"

namespace folio::inline v1::tier {

inline constexpr uint32_t wire_magic = 0x31686f66;
inline constexpr uint32_t wire_version = 1;
inline constexpr uint32_t groups_version = 2;

enum class Kind : uint8_t {
  hello = 1,
  welcome,
  unwelcome,
  announce,
  accept,
  want,
  slots,
  landed,
  done,
  committed,
  abort,
  ended,
  groups,
  welcome_groups,
  accept_groups,
  computing,
};

/// The first message to a peer. Of an end with groups the geometry has nothing.
struct Hello {
  static constexpr Kind kind = Kind::hello;
  uint32_t version = wire_version;
  Geometry geometry = {};
  void fields(auto& f) { f(version), geometry.fields(f); }
};

/// Behind a hello of groups_version.
struct Groups {
  static constexpr Kind kind = Kind::groups;
  Layout layout = {};
  void fields(auto& f) { layout.fields(f); }
};

/// Staging slots of a receiver: slot s begins at `base` + s * `stride`.
struct StagingPlace {
  uint32_t region = 0, slots = 0;
  int64_t base = 0, stride = 0;
  void fields(auto& f) { f(region), f(slots), f(base), f(stride); }
};

struct Welcome {
  static constexpr Kind kind = Kind::welcome;
  uint32_t version = wire_version;
  Geometry geometry = {};
  uint8_t is_direct = 0;           ///< bytes go to pages, not to slots
  std::vector<Place> places = {};  ///< if direct: of layers, num_sections each
  StagingPlace staging = {};
  void fields(auto& f) {
    f(version), geometry.fields(f), f(is_direct), f(places), staging.fields(f);
  }
};

struct WelcomeGroups {
  static constexpr Kind kind = Kind::welcome_groups;
  Layout layout = {};
  uint8_t may_be_direct = 0;       ///< bytes go to pages where nothing differs
  std::vector<Place> places = {};  ///< if so: of all layers, num_sections each
  StagingPlace staging = {};
  void fields(auto& f) { layout.fields(f), f(may_be_direct), f(places), staging.fields(f); }
};

struct Unwelcome {
  static constexpr Kind kind = Kind::unwelcome;
  std::string reason = {};
  void fields(auto& f) { f(reason); }
};

struct Announce {
  static constexpr Kind kind = Kind::announce;
  uint64_t id = 0;  ///< greater than those that the peer announced before
  uint64_t request = 0, adapter = 0;
  std::string salt = {};
  std::vector<ContentSpan> spans = {};
  std::vector<TokenId> tokens = {};
  void fields(auto& f) { f(id), f(request), f(adapter), f(salt), f(spans), f(tokens); }
};

struct Accept {
  static constexpr Kind kind = Kind::accept;
  uint64_t id = 0;
  uint32_t cached_tokens = 0;        ///< are not to be sent
  std::vector<uint32_t> pages = {};  ///< if direct: the pages behind them
  void fields(auto& f) { f(id), f(cached_tokens), f(pages); }
};

struct AcceptGroups {
  static constexpr Kind kind = Kind::accept_groups;
  uint64_t id = 0;
  uint32_t cached_tokens = 0;        ///< that all groups have
  std::vector<TokenRun> runs = {};   ///< are to be sent; in the order of groups and tokens
  std::vector<uint32_t> pages = {};  ///< of those runs, in order, whose groups are written to
  void fields(auto& f) { f(id), f(cached_tokens), f(runs), f(pages); }
};

/// So many slots in all, since the handover was accepted.
struct Want {
  static constexpr Kind kind = Kind::want;
  uint64_t id = 0;
  uint32_t slots = 0;
  void fields(auto& f) { f(id), f(slots); }
};

struct Slots {
  static constexpr Kind kind = Kind::slots;
  uint64_t id = 0;
  std::vector<uint32_t> slots = {};  ///< for one piece each
  void fields(auto& f) { f(id), f(slots); }
};

struct LandedPiece {
  uint32_t page = 0;  ///< of the sender, counted from the sequence's first in the layer's group
  uint32_t slot = 0;  ///< unless direct
  uint32_t crc = 0;   ///< CRC32C of its bytes, in the order of their runs
};

struct Landed {
  static constexpr Kind kind = Kind::landed;
  uint64_t id = 0;
  uint32_t layer = 0;
  std::vector<LandedPiece> pieces = {};
  void fields(auto& f) { f(id), f(layer), f(pieces); }
};

/// The last message of a handover: all has landed.
struct Done {
  static constexpr Kind kind = Kind::done;
  uint64_t id = 0;
  uint64_t pieces = 0;      ///< that have landed
  uint32_t num_tokens = 0;  ///< as announced
  uint32_t token_crc = 0;   ///< CRC32C of them
  uint8_t is_named = 0;
  PageName name = {};  ///< of the last full page in the receiver's page size
  std::vector<TokenId> output = {};
  void fields(auto& f) {
    f(id), f(pieces), f(num_tokens), f(token_crc), f(is_named), f(name), f(output);
  }
};

struct Committed {
  static constexpr Kind kind = Kind::committed;
  uint64_t id = 0;
  void fields(auto& f) { f(id); }
};

enum class AbortCode : uint8_t { refused = 0, busy = 1, cancelled = 2, late = 3, failed = 4 };

/// The receiver has given the handover up; before `accept`, it refuses it.
struct Abort {
  static constexpr Kind kind = Kind::abort;
  uint64_t id = 0;
  uint8_t code = 0;
  std::string reason = {};
  void fields(auto& f) { f(id), f(code), f(reason); }
};

/// The sender has given the handover up, for reasons of its own or because of `abort`, and no write
/// of it is under way or will be.
struct Ended {
  static constexpr Kind kind = Kind::ended;
  uint64_t id = 0;
  void fields(auto& f) { f(id); }
};

/// The sender has nothing to send yet: its prefill goes on. Of groups_version.
struct Computing {
  static constexpr Kind kind = Kind::computing;
  uint64_t id = 0;
  void fields(auto& f) { f(id); }
};

struct AnyField {
  void operator()(auto&&) {}
};
/// An element of a list that goes field by field.
template <class T> concept HasFields = requires(T& t, AnyField& f) { t.fields(f); };

class Encoder {
 public:
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void operator()(const T& value) {
    add(&value, sizeof(T));
  }
  template <class T>
  void operator()(const std::vector<T>& list) {
    (*this)(static_cast<uint32_t>(list.size()));
    add(list.data(), list.size() * sizeof(T));
  }
  template <class T>
    requires HasFields<T>
  void operator()(const std::vector<T>& list) {
    (*this)(static_cast<uint32_t>(list.size()));
    for (T element : list) element.fields(*this);
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<uint32_t>(text.size()));
    add(text.data(), text.size());
  }
  std::vector<std::byte> bytes;

 private:
  void add(const void* from, size_t count);
};

class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void operator()(T& value) {
    if (take(sizeof(T))) std::memcpy(static_cast<void*>(&value), taken_.data(), sizeof(T));
  }
  template <class T>
  void operator()(std::vector<T>& list) {
    uint32_t count = 0;
    (*this)(count);
    if (!take(uint64_t{count} * sizeof(T)) || count == 0) return;
    list.resize(count);
    std::memcpy(static_cast<void*>(list.data()), taken_.data(), taken_.size());
  }
  template <class T>
    requires HasFields<T>
  void operator()(std::vector<T>& list) {
    uint32_t count = 0;
    (*this)(count);
    for (uint32_t i = 0; i < count && is_ok_; ++i) list.emplace_back().fields(*this);
  }
  void operator()(std::string& text) {
    uint32_t count = 0;
    (*this)(count);
    if (take(count)) text.assign(reinterpret_cast<const char*>(taken_.data()), taken_.size());
  }
  [[nodiscard]] bool is_whole() const { return is_ok_ && rest_.empty(); }

 private:
  [[nodiscard]] bool take(uint64_t bytes) {
    is_ok_ = is_ok_ && bytes <= rest_.size();
    if (!is_ok_) return false;
    taken_ = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return true;
  }
  std::span<const std::byte> rest_, taken_;
  bool is_ok_ = true;
};

template <class Message>
[[nodiscard]] std::vector<std::byte> encode(Message message) {
  Encoder encoder;
  encoder(wire_magic);
  encoder(Message::kind);
  message.fields(encoder);
  return std::move(encoder.bytes);
}

/// What the message says it is; none for what is too short or of another magic number.
[[nodiscard]] inline std::optional<Kind> kind_of(std::span<const std::byte> bytes) {
  uint32_t magic = 0;
  auto kind = Kind::hello;
  if (bytes.size() < sizeof(magic) + sizeof(kind)) return {};
  std::memcpy(&magic, bytes.data(), sizeof(magic));
  std::memcpy(&kind, bytes.data() + sizeof(magic), sizeof(kind));
  return magic == wire_magic ? std::optional(kind) : std::nullopt;
}

/// None unless the message is of this kind, and ends where its last field does.
template <class Message>
[[nodiscard]] std::optional<Message> decode(std::span<const std::byte> bytes) {
  if (kind_of(bytes) != Message::kind) return {};
  Decoder decoder(bytes.subspan(sizeof(wire_magic) + sizeof(Kind)));
  Message message;
  message.fields(decoder);
  return decoder.is_whole() ? std::optional(std::move(message)) : std::nullopt;
}

}  // namespace folio::inline v1::tier
