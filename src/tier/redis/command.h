// SPDX-License-Identifier: Apache-2.0
/// tier/redis/command.h: a command of a pipeline, and what became of it.
#pragma once

#include <hiredis/hiredis.h>

#include <array>
#include <atomic>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tier/payload.h"

namespace folio::inline v1::tier::redis {

struct ReplyFreer {
  void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, ReplyFreer>;

/// What the server says to a command.
enum class Answer : uint8_t {
  none = 0,     ///< nothing: it was not sent, or the connection was lost; `text` says why
  status = 1,   ///< `text`
  error = 2,    ///< `text`
  integer = 3,  ///< `integer`
  nil = 4,      ///< no such key
  page = 5,     ///< the bytes are in their extents, and right, if it is all of a page
  corrupt = 6,  ///< a value that is not this page; `text` says why
  array = 7,    ///< `reply`
};

struct Command {
  enum class Kind : uint8_t { get, part, set, other };
  Kind kind = Kind::other;
  std::string key = {};              ///< empty: of no key
  uint32_t node = 0;                 ///< that it goes to, or has gone to
  std::string head = {}, tail = {};  ///< as they are sent, around the value that `set` has
  // Of get, part and set: the page.
  PageName name = {};
  Digest256 fingerprint = {};
  std::span<const Extent> extents = {};  ///< of a part: those that it reads
  int64_t bytes = 0;                     ///< of the extents
  PayloadHeader header = {};
  // Of a part.
  bool has_header = true;  ///< it is the first
  int64_t page_bytes = 0;  ///< of all extents of the page
  uint32_t crc = 0;        ///< of the extents before; once it is answered, of these, too
  std::atomic<uint32_t>* landed = nullptr;  ///< is `landed_then` once it is answered
  uint32_t landed_then = 0;

  Answer answer = Answer::none;
  std::string text = {};
  int64_t integer = 0;
  Reply reply = {};
};

[[nodiscard]] inline int64_t value_bytes(const Command& command) noexcept {
  return (command.has_header ? static_cast<int64_t>(sizeof(PayloadHeader)) : 0) + command.bytes;
}

/// Whether extents are so short on average that to copy them costs less than to list them for the
/// kernel: the checksum, too, is of what lies together then.
[[nodiscard]] inline bool has_short_extents(const Command& command) noexcept {
  constexpr int64_t short_bytes = 2048;
  return command.bytes < short_bytes * std::ssize(command.extents) && command.extents.size() > 1;
}

/// Of words, one of which may be the key that decides about the node.
[[nodiscard]] Command command_of(std::initializer_list<std::string_view> words,
                                 std::string_view key = {});
/// A page that is read into its extents.
[[nodiscard]] Command get_of(std::string_view key, const PageName& name,
                             const Digest256& fingerprint, std::span<const Extent> extents);
/// Extents `first` .. `end` - 1 of a page, `before` bytes behind its first one, with the header if
/// there are none.
[[nodiscard]] Command part_of(std::string_view key, const PageName& name,
                              const Digest256& fingerprint, std::span<const Extent> extents,
                              uint32_t first, uint32_t end, int64_t before);
/// A page that is written, to stay so many seconds; 0: as long as the server likes.
[[nodiscard]] Command set_of(std::string_view key, const PageName& name,
                             const Digest256& fingerprint, std::span<const Extent> extents,
                             int64_t ttl_s);

}  // namespace folio::inline v1::tier::redis
