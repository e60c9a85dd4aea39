// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/ucx_test.cpp: what only the transport by UCX has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include "tier/peer/booked_transport.h"
#include "tier/peer/transport_helpers.h"
#include "tier/peer/ucx/ucx_wire.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
using Way = tier::UcxWire::Way;

std::unique_ptr<Transport> make_end(Way way) {
  const auto library = tier::load_ucx();
  if (!library) return nullptr;
  auto book = std::make_unique<tier::Book>(TransportOptions{}, tier::WireKind::ucx,
                                           tier::random_end_id().value());
  auto wire = std::make_unique<tier::UcxWire>(*book, **library, way);
  if (!wire->open("tcp").is_ok()) return nullptr;
  return std::make_unique<tier::BookedTransport>(std::move(book), std::move(wire),
                                                 tier::BookedTransport::Work::by_thread);
}

class UcxTransport : public ::testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, UcxTransport,
                         ::testing::Values(Way::unknown, Way::rendezvous, Way::eager),
                         [](const auto& way) {
                           return way.param == Way::unknown      ? "as_it_finds"
                                  : way.param == Way::rendezvous ? "rendezvous"
                                                                 : "eager";
                         });

/// Runs longer and shorter than what goes as one message, cut otherwise on the other side.
TEST_P(UcxTransport, moves_long_runs_and_short_ones) {
  const auto a = make_end(GetParam()), b = make_end(GetParam());
  if (a == nullptr || b == nullptr) GTEST_SKIP() << "UCX is not there";
  constexpr int64_t all = (3 << 20) + 77;
  std::vector<std::byte> here(all), there(all);
  Rng rng(test_seed());
  for (const auto direction : {TransferDirection::write, TransferDirection::read}) {
    fill(direction == TransferDirection::write ? here : there, rng);
    const RegionId mine = a->add_region(here).value(), theirs = b->add_region(there).value();
    const RegionRun local[] = {
        {mine, 0, 1'000'001}, {mine, 1'000'001, 3}, {mine, 1'000'004, all - 1'000'004}};
    const RegionRun remote[] = {{theirs, 0, 64 << 10}, {theirs, 64 << 10, all - (64 << 10)}};
    const PeerId peer = a->connect(b->address().value()).value();
    const auto id =
        a->post({.direction = direction, .peer = peer, .local = local, .remote = remote});
    EXPECT_EQ(wait_for(*a, id.value()), TransferState::done);
    EXPECT_TRUE(here == there);
    EXPECT_TRUE(comes_true([&] { return b->remove_region(theirs).is_ok(); }));
    EXPECT_TRUE(a->remove_region(mine).is_ok());
  }
}

/// UCX ends a process that is sent longer TCP segments than it expects.
TEST(UcxSegments, refuses_a_peer_that_expects_other_segments) {
  const auto a = make_end(Way::unknown), b = make_end(Way::unknown);
  if (a == nullptr || b == nullptr) GTEST_SKIP() << "UCX is not there";
  auto address = tier::decode_address(b->address().value(), tier::WireKind::ucx).value();
  constexpr size_t first_letter = 8;
  address.endpoint.at(first_letter) = std::byte{'9'};
  const PeerId peer = a->connect(tier::encode(address)).value();
  EXPECT_EQ(wait_for(*a, peer), PeerState::lost);
  EXPECT_THAT(a->last_fault().message(), HasSubstr("UCX_TCP_RX_SEG_SIZE=9"));
  address.endpoint.resize(first_letter);
  const PeerId cut = a->connect(tier::encode(address)).value();
  EXPECT_EQ(wait_for(*a, cut), PeerState::lost);
}

}  // namespace
}  // namespace folio::test
