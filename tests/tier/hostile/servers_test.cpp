// SPDX-License-Identifier: Apache-2.0
/// tests/tier/hostile/servers_test.cpp: owners of servers of pages who give them what they cannot
/// use.
#include <memory>
#include <utility>
#include <vector>

#include "folio/tier/peer_tier.h"
#include "folio/tier/transports.h"
#include "tier/hostile/refusals.h"
#include "tier/peer/lender.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

// ---- A server with memory of its own

TEST(PageServer, is_not_made_of_options_that_cannot_be) {
  InProcessNetwork network;
  const auto transport = network.make_end().value();
  const PageServerOptions good{.max_bytes = 100, .page_bytes = 10};
  const auto refuses = [&](const char* part, const auto& change) {
    PageServerOptions options = good;
    change(options);
    expect_refusal(PageServer::create(transport.get(), options), part);
  };
  expect_refusal(PageServer::create(nullptr, good), "PageServer::create: transport is null");
  for (const int64_t bad : {least_int64, int64_t{-1}, int64_t{0}, most_int64}) {
    refuses("page_bytes is ", [&](auto& o) { o.page_bytes = bad; });
    refuses("max_bytes is ", [&](auto& o) { o.max_bytes = bad; });
    refuses("lease_ms is ", [&](auto& o) { o.lease_ms = bad; });
  }
  refuses("max_bytes is 9, expected 10", [&](auto& o) { o.max_bytes = 9; });
  for (const int access : {2, 255})
    refuses("access is ",
            [&](auto& o) { o.access = static_cast<PageServerOptions::Access>(access); });
  EXPECT_TRUE(PageServer::create(transport.get(), good));
}

TEST(PageServer, refuses_pages_that_cannot_be) {
  InProcessNetwork network;
  const auto transport = network.make_end().value();
  const auto server =
      PageServer::create(transport.get(), {.max_bytes = 4096, .page_bytes = 128}).value();
  std::byte bytes[256] = {};
  const auto refuses = [&](std::span<const Extent> extents, const char* part) {
    expect_refusal(server->put(name_of(1), extents), part);
    EXPECT_FALSE(server->has(name_of(1)));
  };
  refuses({}, "PageServer::put: page 0 has no extents");
  refuses(null_span<const Extent>(), "page 0 has no extents");
  const Extent nowhere[] = {{bytes, 8}, {nullptr, 8}};
  refuses(nowhere, "PageServer::put: extent 1 of page 0 is null");
  for (const int64_t size : {int64_t{0}, int64_t{-8}, least_int64, most_int64}) {
    const Extent extents[] = {{bytes, 64}, {bytes, size}};
    refuses(extents, "PageServer::put: extent 1 of page 0 has ");
  }
  const Extent large[] = {{bytes, 128}, {bytes, 1}};
  refuses(large, "the page has 129 bytes, expected 1 .. 128");
  EXPECT_EQ(server->figures(), PageServerFigures());
  const Extent twice[] = {{bytes, 64}, {bytes, 64}};
  EXPECT_TRUE(server->put(name_of(1), twice).is_ok()) << "what is read may be read twice";
  EXPECT_TRUE(server->put(name_of(1), twice).is_ok());
  EXPECT_TRUE(server->has(name_of(1)));
  server->drop(name_of(2));
  server->poll();
  EXPECT_EQ(server->figures().pages, 1);
  server->drop(name_of(1));
  server->drop(name_of(1));
  EXPECT_EQ(server->figures().pages, 0);
  EXPECT_TRUE(server->address().has_value());
}

// ---- A server of a pool's pages

class PoolServerRefusals : public ::testing::Test {
 protected:
  PoolPageServerOptions good() {
    return {.pool = &engine_.pool(),
            .name = engine_.names(),
            .planes = engine_.planes(),
            .memory = memory_};
  }
  void refuses(const char* part, const auto& change) {
    PoolPageServerOptions options = good();
    change(options);
    expect_refusal(PoolPageServer::create(transport_.get(), options), part);
  }

  InProcessNetwork network_;
  std::unique_ptr<Transport> transport_ = network_.make_end().value();
  PatternEngine engine_{{.num_pages = 4,
                         .on_event = {.function = [](void*, const PoolEvent&,
                                                     std::span<const TokenId>) noexcept {}}}};
  std::span<std::byte> memory_[1] = {engine_.memory()};
};

TEST_F(PoolServerRefusals, name_the_option) {
  expect_refusal(PoolPageServer::create(nullptr, good()), "transport is null");
  refuses("pool is null", [](auto& o) { o.pool = nullptr; });
  refuses("name.function is null", [](auto& o) { o.name = {}; });
  int other = 0;
  refuses("name is another than the pool's", [&](auto& o) { o.name.context = &other; });
  refuses("planes is empty", [](auto& o) { o.planes = {}; });
  refuses("planes is empty", [](auto& o) { o.planes = null_span<const KVPlanes>(); });
  refuses("memory is empty", [](auto& o) { o.memory = {}; });
  refuses("memory is empty", [](auto& o) { o.memory = null_span<const std::span<std::byte>>(); });
  const std::span<std::byte> none[] = {memory_[0], null_span<std::byte>()},
                             twice[] = {memory_[0], memory_[0].first(1)};
  refuses("memory is null with 3 bytes", [&](auto& o) { o.memory = none; });
  refuses("memory shares bytes with region", [&](auto& o) { o.memory = twice; });
  for (const int64_t ms : {least_int64, int64_t{-1}, int64_t{0}, most_int64})
    refuses("lease_ms is ", [&](auto& o) { o.lease_ms = ms; });
  const std::vector<KVPlanes> same(2, engine_.planes()[0]);
  refuses("PoolPageServer::create: page 0 of planes[0] and page 0 of planes[1] share bytes",
          [&](auto& o) { o.planes = same; });
  EXPECT_TRUE(PoolPageServer::create(transport_.get(), good())) << "no region was left behind";
}

TEST(PoolPageServer, bears_events_that_no_pool_tells) {
  InProcessNetwork network;
  Lender lender({"in_process", [&](const TransportOptions& o) { return network.make_end(o); }});
  const std::vector<PageName> names = lender.compute(count_from(1, 9));
  const int64_t pages = lender.figures().pages;
  ASSERT_EQ(pages, std::ssize(names));
  PoolPageServer& server = lender.server();
  PoolEvent event{.content = UINT64_MAX, .kind = PoolEventKind::stored, .has_name = true};
  server.note(event, null_span<const TokenId>());
  event.parent = event.content;  // its own parent
  const TokenId tokens[PatternEngine::page_size] = {};
  server.note(event, tokens);
  event.parent = 5;
  server.note(event, tokens);
  EXPECT_EQ(server.figures().unserved_pages, 1) << "it was told again";
  event.kind = PoolEventKind::removed;
  server.note(event, null_span<const TokenId>());
  server.note(event, {});
  event.kind = static_cast<PoolEventKind>(77);
  server.note(event, null_span<const TokenId>());
  server.poll();
  EXPECT_TRUE(server.address().has_value());
  EXPECT_EQ(server.figures().pages, pages);
  EXPECT_EQ(server.figures().unserved_pages, 0);
  EXPECT_EQ(lender.compute(count_from(1, 9)), names);
}

}  // namespace
}  // namespace folio::test
