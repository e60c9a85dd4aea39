// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/lender.h: an engine whose pool is served.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "folio/tier/pool_page_server.h"
#include "tier/manager/pattern_engine.h"
#include "tier/peer/transport_helpers.h"

namespace folio::test {

/// An engine whose pool is served.
class Lender {
 public:
  explicit Lender(const TransportKind& kind, uint32_t num_pages = 16, uint32_t max_io_pins = 64,
                  int64_t lease_ms = no_deadline_ms)
      : engine_({.num_pages = num_pages, .max_io_pins = max_io_pins, .on_event = forward()}),
        transport_(kind.make({}).value()) {
    const std::span<std::byte> memory[] = {engine_.memory()};
    server_ = PoolPageServer::create(transport_.get(), {.pool = &engine_.pool(),
                                                        .name = engine_.names(),
                                                        .planes = engine_.planes(),
                                                        .memory = memory,
                                                        .lease_ms = lease_ms})
                  .value();
  }
  [[nodiscard]] PatternEngine& engine() { return engine_; }
  [[nodiscard]] PoolPageServer& server() { return *server_; }
  [[nodiscard]] Transport& transport() { return *transport_; }
  [[nodiscard]] PoolPageServerFigures figures() const { return server_->figures(); }
  [[nodiscard]] int64_t used_pages() { return engine_.pool().stats().used_pages; }

  /// Computes a prompt and gives the sequence up; the names of its full pages.
  std::vector<PageName> compute(const PatternEngine::Tokens& prompt) {
    EXPECT_NE(engine_.admit(prompt), nullptr);
    const size_t last = engine_.living() - 1;
    EXPECT_TRUE(engine_.compute(last));
    std::vector<PageName> names;
    for (int32_t i = 0; i < engine_.length(last) / PatternEngine::page_size; ++i)
      names.push_back(engine_.pool().name(engine_.id(last), i).value());
    engine_.release(last);
    return names;
  }
  template <class Condition>
  [[nodiscard]] bool serves_until(Condition condition) {
    return comes_true([&] {
      server_->poll();
      return condition();
    });
  }

 private:
  EventFunction forward() {
    return {.function =
                [](void* self, const PoolEvent& event, std::span<const TokenId> tokens) noexcept {
                  const auto& lender = *static_cast<Lender*>(self);
                  if (lender.server_ != nullptr) lender.server_->note(event, tokens);
                },
            .context = this};
  }

  PatternEngine engine_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<PoolPageServer> server_;
};

}  // namespace folio::test
