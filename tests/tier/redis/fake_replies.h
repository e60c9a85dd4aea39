// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/fake_replies.h: replies for fake servers to give, and tiers of such servers.
#pragma once

#include <memory>
#include <string>

#include "folio/tier/redis_tier.h"
#include "tier/payload.h"
#include "tier/redis/fake_server.h"
#include "tier/redis/patient.h"
#include "tier/tier_helpers.h"

namespace folio::test {

using Words = FakeServer::Words;

inline std::unique_ptr<Tier> open(const FakeServer& server, RedisOptions redis = {}) {
  redis.port = server.port();
  redis.absent_ms = 0;
  return make_redis_tier(patient(redis), {.threads = 1, .max_bytes = 1 << 30}).value();
}

/// The value that a server should have for a page.
inline std::string value_of(const PageName& name, const PageMemory& page) {
  const tier::PayloadHeader header = tier::header_of(name, {}, page.extents());
  std::string value(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const Extent& e : page.extents())
    value.append(reinterpret_cast<const char*>(e.data), static_cast<size_t>(e.bytes));
  return value;
}

inline std::string bulk(const std::string& value) {
  return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

/// Says the same to each command.
inline Saying same(const std::string& bytes) { return {.bytes = bytes}; }

struct Page {
  Page() {
    page.fill(7);
    value = value_of(name_of(1), page);
  }
  PageMemory page{{1000, 500}}, back{{1000, 500}};
  std::string value;
};

}  // namespace folio::test
