// SPDX-License-Identifier: Apache-2.0
/// tier/redis/settings.cpp: options and URLs, part by part.
#include "tier/redis/settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "tier/checks.h"

namespace folio::inline v1::tier::redis {
namespace {

Status out_of_range(const char* option, int64_t is, int64_t first, int64_t last) {
  return fail(Errc::invalid_argument, "make_redis_tier: {} is {}, expected {} .. {}", option, is,
              first, last);
}

Status check_numbers(const RedisOptions& o) {
  constexpr int64_t most_ms = int64_t{1} << 31, most_s = int64_t{1} << 40;
  const auto is_within = [](int64_t value, int64_t first, int64_t last) {
    return value >= first && value <= last;
  };
  if (o.database < 0) return out_of_range("database", o.database, 0, 0x7fffffff);
  if (!is_within(o.ttl_s, 0, most_s)) return out_of_range("ttl_s", o.ttl_s, 0, most_s);
  if (!is_within(o.connect_timeout_ms, 1, most_ms))
    return out_of_range("connect_timeout_ms", o.connect_timeout_ms, 1, most_ms);
  if (!is_within(o.command_timeout_ms, 1, most_ms))
    return out_of_range("command_timeout_ms", o.command_timeout_ms, 1, most_ms);
  if (!is_within(o.absent_ms, 0, most_ms))
    return out_of_range("absent_ms", o.absent_ms, 0, most_ms);
  if (!is_within(o.ask_wait_ms, 0, most_ms))
    return out_of_range("ask_wait_ms", o.ask_wait_ms, 0, most_ms);
  if (!is_within(o.depth, 1, 1024)) return out_of_range("depth", o.depth, 1, 1024);
  constexpr int64_t most_names = int64_t{1} << 32;
  if (!is_within(o.max_names, 1, most_names))
    return out_of_range("max_names", o.max_names, 1, most_names);
  if (o.check > ServerCheck::none)
    return out_of_range("check", static_cast<int>(o.check), 0, static_cast<int>(ServerCheck::none));
  if (o.unknown > UnknownPages::asked)
    return out_of_range("unknown", static_cast<int>(o.unknown), 0, 1);
  if (o.encryption > RedisOptions::Encryption::tls)
    return out_of_range("encryption", static_cast<int>(o.encryption), 0, 1);
  return {};
}

bool is_plain(char c) { return c > ' ' && c < '\x7f'; }

Status check_texts(const RedisOptions& o) {
  constexpr int64_t most = 128;
  const std::pair<const char*, std::string_view> texts[] = {
      {"host", o.host},
      {"socket", o.socket},
      {"user", o.user},
      {"password", o.password},
      {"server_name", o.server_name},
      {"authorities_file", o.authorities_file},
      {"certificate_file", o.certificate_file},
      {"key_file", o.key_file},
      {"name_space", o.name_space}};
  for (const auto& [argument, text] : texts)
    if (Status s = check_text("make_redis_tier", argument, text); !s.is_ok()) return s;
  if (std::ssize(o.name_space) > most ||
      !std::all_of(o.name_space.begin(), o.name_space.end(), is_plain))
    return fail(Errc::invalid_argument,
                "make_redis_tier: name_space has {} bytes, expected at most {} and none but "
                "printable ASCII, no blank",
                o.name_space.size(), most);
  if (o.socket.empty() && (o.host.empty() || o.port == 0))
    return fail(Errc::invalid_argument,
                "make_redis_tier: host is '{}' and port is {}, expected both, or a socket", o.host,
                o.port);
  if (!o.user.empty() && o.password.empty())
    return fail(Errc::invalid_argument,
                "make_redis_tier: user is '{}' and has no password, expected both or none", o.user);
  if (o.certificate_file.empty() != o.key_file.empty())
    return fail(Errc::invalid_argument,
                "make_redis_tier: of certificate_file and key_file one is empty, expected both or "
                "none");
  return {};
}

Address address_of(const RedisOptions& o) {
  Address address;
  address.path = o.socket;
  if (!o.socket.empty()) return address;
  address.host = o.host;
  address.port = o.port;
  return address;
}

// ---- URLs

Status wrong(const char* part, const char* expected) {
  return fail(Errc::invalid_argument, "make_redis_tier: url has {}, expected {}", part, expected);
}

std::optional<std::string> decoded(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes += text[i];
      continue;
    }
    uint8_t byte = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const auto [end, error] = std::from_chars(&text[i + 1], &text[i + 1] + 2, byte, 16);
    if (error != std::errc() || end != &text[i + 1] + 2) return std::nullopt;
    bytes += static_cast<char>(byte);
    i += 2;
  }
  return bytes;
}

template <class T>
bool read_number(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

/// What stands before the first `mark`, or everything; `text` is what stands behind it.
std::string_view cut(std::string_view& text, char mark) {
  const size_t at = text.find(mark);
  const std::string_view before = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return before;
}

/// A URL's texts, decoded: options point into them.
struct Parts {
  std::string user, password, host, socket, name_space, authorities_file;
};

Status read_login(std::string_view login, Parts& parts, RedisOptions& o) {
  const auto user = decoded(cut(login, ':')), password = decoded(login);
  if (!user || !password) return wrong("a login with a % that begins no %xx", "it to be one");
  o.user = parts.user = *user;
  o.password = parts.password = *password;
  return {};
}

Status read_host(std::string_view text, Parts& parts, RedisOptions& o) {
  std::string_view host;
  if (text.starts_with('[')) {  // an IPv6 address
    text.remove_prefix(1);
    if (text.find(']') == std::string_view::npos) return wrong("a host that begins with [", "a ]");
    host = cut(text, ']');
    if (!text.empty() && !text.starts_with(':')) return wrong("text behind ]", "a : and a port");
    if (!text.empty()) text.remove_prefix(1);
  } else {
    host = cut(text, ':');
  }
  const auto bytes = decoded(host);
  if (!bytes || bytes->empty()) return wrong("no host", "one behind //");
  o.host = parts.host = *bytes;
  o.socket = {};
  o.port = 6379;
  if (!text.empty() && (!read_number(text, o.port) || o.port == 0))
    return wrong("another port", "1 .. 65535");
  return {};
}

Status read_query(std::string_view query, Parts& parts, RedisOptions& o) {
  while (!query.empty()) {
    std::string_view value = cut(query, '&');
    const std::string_view key = cut(value, '=');
    const auto bytes = decoded(value);
    if (!bytes) return wrong("a query with a % that begins no %xx", "it to be one");
    if (key == "namespace") {
      o.name_space = parts.name_space = *bytes;
    } else if (key == "ca") {
      o.authorities_file = parts.authorities_file = *bytes;
    } else if (key == "db") {
      if (!read_number(*bytes, o.database)) return wrong("a db that is no number", "0 or more");
    } else if (key == "ttl") {
      if (!read_number(*bytes, o.ttl_s)) return wrong("a ttl that is no number", "seconds");
    } else {
      return wrong("another key in its query", "namespace, db, ttl or ca");
    }
  }
  return {};
}

}  // namespace

std::string text_of(const Address& address) {
  return address.path.empty() ? address.host + ":" + std::to_string(address.port) : address.path;
}

Result<Settings> settings_of(const RedisOptions& o) {
  if (Status s = check_numbers(o); !s.is_ok()) return s;
  if (Status s = check_texts(o); !s.is_ok()) return s;
  return Settings{.address = address_of(o),
                  .user = std::string(o.user),
                  .password = std::string(o.password),
                  .database = o.database,
                  .has_tls = o.encryption == RedisOptions::Encryption::tls,
                  .check = o.check,
                  .authorities_file = std::string(o.authorities_file),
                  .certificate_file = std::string(o.certificate_file),
                  .key_file = std::string(o.key_file),
                  .server_name = std::string(o.server_name),
                  .name_space = std::string(o.name_space),
                  .ttl_s = o.ttl_s,
                  .connect_timeout = std::chrono::milliseconds(o.connect_timeout_ms),
                  .command_timeout = std::chrono::milliseconds(o.command_timeout_ms),
                  .absent = std::chrono::milliseconds(o.absent_ms),
                  .ask_wait = std::chrono::milliseconds(o.ask_wait_ms),
                  .depth = o.depth,
                  .unknown = o.unknown,
                  .max_names = o.max_names};
}

Result<Settings> settings_of(std::string_view url, const RedisOptions& options) {
  if (Status s = check_memory("make_redis_tier", "url", url.data(), url.size()); !s.is_ok())
    return s;
  RedisOptions o = options;
  Parts parts;
  const size_t scheme_end = url.find("://");
  const std::string_view scheme = url.substr(0, scheme_end);
  if (scheme_end == std::string_view::npos ||
      (scheme != "redis" && scheme != "rediss" && scheme != "unix"))
    return wrong("another scheme", "redis://, rediss:// or unix://");
  std::string_view rest = url.substr(scheme_end + 3);
  o.encryption =
      scheme == "rediss" ? RedisOptions::Encryption::tls : RedisOptions::Encryption::none;
  std::string_view before_query = cut(rest, '?');
  const std::string_view query = rest;
  // A password may contain an @ that nobody has encoded; a host cannot, and a path begins with /.
  const bool is_path = scheme == "unix";
  size_t at =
      is_path ? before_query.find("@/") : before_query.substr(0, before_query.find('/')).rfind('@');
  if (is_path && before_query.starts_with('/')) at = std::string_view::npos;
  if (at != std::string_view::npos) {
    if (Status s = read_login(before_query.substr(0, at), parts, o); !s.is_ok()) return s;
    before_query.remove_prefix(at + 1);
  }
  if (is_path) {
    const auto path = decoded(before_query);
    if (!path || !path->starts_with('/')) return wrong("no path", "one that begins with /");
    o.socket = parts.socket = *path;
  } else {
    std::string_view database = before_query;
    if (Status s = read_host(cut(database, '/'), parts, o); !s.is_ok()) return s;
    if (!database.empty() && !read_number(database, o.database))
      return wrong("a path that is no number", "a database, 0 or more");
  }
  if (Status s = read_query(query, parts, o); !s.is_ok()) return s;
  return settings_of(o);
}

}  // namespace folio::inline v1::tier::redis
