// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/transport_refusals_test.cpp: what every transport refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tier/peer/transport_pair.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

class TransportRefusals : public EveryTransport {};

INSTANTIATE_TEST_SUITE_P(Kinds, TransportRefusals, ::testing::ValuesIn(transport_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(TransportRefusals, refuses_what_cannot_be_and_says_why) {
  const RegionRun ours{a.region, 0, 10}, theirs{b.region, 0, 10};
  const auto write = TransferDirection::write;
  const auto says = [&](const TransferRequest& bad, const char* part) {
    const Status s = refusal(bad);
    EXPECT_EQ(s.code(), Errc::invalid_argument);
    EXPECT_THAT(s.message(), HasSubstr(part));
  };
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  says(request(write, {a.region, 99'999, 2}, theirs), "local run 0 is 2 bytes at 99999");
  says(request(write, {a.region, -1, 2}, theirs), "local run 0 is 2 bytes at -1");
  says(request(write, {a.region, 1, most}, theirs), "local run 0 is");
  says(request(write, {a.region, most, 1}, theirs), "local run 0 is");
  says(request(write, {a.region, 0, 0}, theirs), "local run 0 is 0 bytes");
  says(request(write, {RegionId{777}, 0, 10}, theirs), "local run 0 is of region 777");
  says(request(write, ours, {RegionId{777}, 0, 10}), "remote run 0 is of region 777");
  says(request(write, ours, {b.region, 99'995, 10}), "remote run 0 is 10 bytes at 99995");
  says(request(write, ours, {b.region, 0, 11}), "remote has 11 bytes, expected 10");
  TransferRequest bad = request(write, ours, theirs);
  bad.peer = PeerId{99};
  says(bad, "peer is 99");
  bad = request(static_cast<TransferDirection>(7), ours, theirs);
  says(bad, "direction is 7");
  bad = request(write, ours, theirs);
  bad.local = {};
  says(bad, "local has 0 runs");
  const std::vector<RegionRun> many((1 << 16) + 1, RegionRun{a.region, 0, 1});
  bad.local = many;
  says(bad, "local has 65537 runs");
  const std::vector<std::byte> large((1 << 20) + 1);
  bad = request(write, ours, theirs);
  bad.message = large;
  says(bad, "message has 1048577 bytes");
  EXPECT_THAT(a.transport->send(b_of_a, large).message(), HasSubstr("message has 1048577 bytes"));
  EXPECT_THAT(a.transport->send(b_of_a, {}).message(), HasSubstr("message has 0 bytes"));
  EXPECT_THAT(a.transport->send(PeerId{99}, large).message(), HasSubstr("peer is 99"));
  const RegionRun twice[] = {{b.region, 0, 6}, {b.region, 5, 4}}, once[] = {{a.region, 0, 10}};
  says({.peer = b_of_a, .local = once, .remote = twice}, "remote runs at 0 and 5");
  const RegionRun local_twice[] = {{a.region, 0, 6}, {a.region, 5, 4}},
                  other[] = {{b.region, 0, 10}};
  says(
      {.direction = TransferDirection::read, .peer = b_of_a, .local = local_twice, .remote = other},
      "local runs at 0 and 5");
  EXPECT_TRUE(a.transport->post({.peer = b_of_a, .local = local_twice, .remote = other}))
      << "what is read may be read twice";
  EXPECT_FALSE(a.transport->poll(TransferId{}));
  EXPECT_FALSE(a.transport->cancel(TransferId{12345}).is_ok());
  EXPECT_FALSE(a.transport->disconnect(PeerId{}).is_ok());
  EXPECT_FALSE(a.transport->peer_state(PeerId{}));
  EXPECT_FALSE(a.transport->remove_region(RegionId{777}).is_ok());
  EXPECT_FALSE(a.transport->add_region({}));
  EXPECT_THAT(a.transport->add_region(std::span(a.memory).subspan(99'999)).error().message(),
              HasSubstr("memory shares bytes with region"));
}

TEST_P(TransportRefusals, refuses_addresses_that_are_cut_damaged_or_its_own) {
  const std::vector<std::byte> address = b.transport->address().value();
  const auto code_of = [&](std::span<const std::byte> bytes) {
    return a.transport->connect(bytes).error().code();
  };
  for (size_t bytes = 0; bytes < address.size(); ++bytes)
    EXPECT_EQ(code_of(std::span(address).first(bytes)), Errc::invalid_argument) << bytes;
  for (size_t bit = 0; bit < address.size() * 8; ++bit) {
    std::vector<std::byte> bad = address;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_EQ(code_of(bad), Errc::invalid_argument) << bit;
  }
  std::vector<std::byte> longer = address;
  longer.push_back({});
  EXPECT_EQ(code_of(longer), Errc::invalid_argument);
  EXPECT_THAT(a.transport->connect(a.transport->address().value()).error().message(),
              HasSubstr("of this end"));
  EXPECT_EQ(a.transport->connect(address).value(), b_of_a) << "once more: the same peer";
}

TEST_P(TransportRefusals, bounds_what_is_not_released) {
  TransportEnd few{GetParam(), {.max_transfers = 2}};
  const PeerId peer = few.transport->connect(b.transport->address().value()).value();
  const RegionRun local[] = {{few.region, 0, 1}}, remote[] = {{b.region, 0, 1}};
  const TransferRequest write{.peer = peer, .local = local, .remote = remote};
  const TransferId first = few.transport->post(write).value();
  EXPECT_TRUE(few.transport->post(write));
  EXPECT_EQ(few.transport->post(write).error().code(), Errc::busy);
  EXPECT_EQ(wait_for(*few.transport, first), TransferState::done);
  EXPECT_EQ(few.transport->post(write).error().code(), Errc::busy);
  EXPECT_TRUE(few.transport->release(first).is_ok());
  EXPECT_TRUE(few.transport->post(write));
}

}  // namespace
}  // namespace folio::test
