// SPDX-License-Identifier: Apache-2.0
/// tier/redis/settings.h: the options of a tier, checked and owned, and what a URL says of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "folio/tier/redis_tier.h"

namespace folio::inline v1::tier::redis {

using Clock = std::chrono::steady_clock;

/// Where a server listens: a host and a port, or a path.
struct Address {
  std::string host = {};
  uint16_t port = 0;
  std::string path = {};
  bool operator==(const Address&) const = default;
};
[[nodiscard]] std::string text_of(const Address& address);

struct Settings {
  Address address = {};
  std::string user = {}, password = {};
  int32_t database = 0;
  bool has_tls = false;
  ServerCheck check = ServerCheck::name;
  std::string authorities_file = {}, certificate_file = {}, key_file = {}, server_name = {};
  std::string name_space = {};
  int64_t ttl_s = 0;
  std::chrono::milliseconds connect_timeout{}, command_timeout{}, absent{}, ask_wait{};
  uint32_t depth = 1;
  UnknownPages unknown = UnknownPages::hoped;
  int64_t max_names = 0;
};

/// Errors: invalid_argument, naming the option
[[nodiscard]] Result<Settings> settings_of(const RedisOptions& options);
/// The options with what the URL says. Errors: invalid_argument; no part of the URL is repeated
/// that may hold a password
[[nodiscard]] Result<Settings> settings_of(std::string_view url, const RedisOptions& options);

}  // namespace folio::inline v1::tier::redis
