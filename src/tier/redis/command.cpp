// SPDX-License-Identifier: Apache-2.0
/// tier/redis/command.cpp: commands as the server reads them.
#include "tier/redis/command.h"

#include <new>
#include <vector>

namespace folio::inline v1::tier::redis {
namespace {

std::string formatted(std::span<const std::string_view> words) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const std::string_view word : words) {
    texts.push_back(word.data() == nullptr ? "" : word.data());
    sizes.push_back(word.size());
  }
  char* bytes = nullptr;
  const int count =
      redisFormatCommandArgv(&bytes, static_cast<int>(words.size()), texts.data(), sizes.data());
  if (count < 0) throw std::bad_alloc();
  const std::unique_ptr<char, decltype(&redisFreeCommand)> owner(bytes, redisFreeCommand);
  return {bytes, static_cast<size_t>(count)};
}

void add_bulk(std::string& to, std::string_view text) {
  to.append("$").append(std::to_string(text.size())).append("\r\n").append(text).append("\r\n");
}

/// A page's command without its head: the library would copy names and values, and one of these is
/// made for each page; so they are made here.
Command page_command(Command::Kind kind, std::string_view key, const PageName& name,
                     const Digest256& fingerprint, std::span<const Extent> extents) {
  Command command;
  command.kind = kind;
  command.key = key;
  command.name = name;
  command.fingerprint = fingerprint;
  command.extents = extents;
  command.bytes = command.page_bytes = bytes_of(extents);
  command.head.reserve(key.size() + 64);
  return command;
}

}  // namespace

Command command_of(std::initializer_list<std::string_view> words, std::string_view key) {
  return {.key = std::string(key), .head = formatted({words.begin(), words.size()})};
}

Command get_of(std::string_view key, const PageName& name, const Digest256& fingerprint,
               std::span<const Extent> extents) {
  Command get = page_command(Command::Kind::get, key, name, fingerprint, extents);
  get.head = "*2\r\n$3\r\nGET\r\n";
  add_bulk(get.head, key);
  return get;
}

/// The last part asks for a byte more than there should be: it comes where the value is too long.
Command part_of(std::string_view key, const PageName& name, const Digest256& fingerprint,
                std::span<const Extent> extents, uint32_t first, uint32_t end, int64_t before) {
  Command part = page_command(Command::Kind::part, key, name, fingerprint, extents);
  part.extents = extents.subspan(first, end - first);
  part.bytes = bytes_of(part.extents);
  part.has_header = before == 0;
  const auto header = static_cast<int64_t>(sizeof(PayloadHeader));
  const int64_t at = part.has_header ? 0 : header + before;
  const int64_t last = header + before + part.bytes - (end == extents.size() ? 0 : 1);
  part.head = "*4\r\n$8\r\nGETRANGE\r\n";
  add_bulk(part.head, key);
  add_bulk(part.head, std::to_string(at));
  add_bulk(part.head, std::to_string(last));
  return part;
}

Command set_of(std::string_view key, const PageName& name, const Digest256& fingerprint,
               std::span<const Extent> extents, int64_t ttl_s) {
  Command set = page_command(Command::Kind::set, key, name, fingerprint, extents);
  set.head = ttl_s == 0 ? "*3\r\n$3\r\nSET\r\n" : "*5\r\n$3\r\nSET\r\n";
  add_bulk(set.head, key);
  set.head.append("$").append(std::to_string(value_bytes(set))).append("\r\n");
  set.tail = "\r\n";
  if (ttl_s == 0) return set;
  add_bulk(set.tail, "EX");
  add_bulk(set.tail, std::to_string(ttl_s));
  return set;
}

}  // namespace folio::inline v1::tier::redis
