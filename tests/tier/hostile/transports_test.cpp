// SPDX-License-Identifier: Apache-2.0
/// tests/tier/hostile/transports_test.cpp: callers who give a transport, of whatever kind, what it
/// cannot use. What a request may say is in tests/tier/peer/transport_refusals_test.cpp.
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "tier/hostile/refusals.h"
#include "tier/peer/transport_pair.h"

namespace folio::test {
namespace {

class HostileTransport : public EveryTransport {
 protected:
  /// Bytes go from one end to the other, and a message with them.
  void expect_at_work() {
    a.memory[3] = std::byte{42};
    b.memory[7] = std::byte{0};
    const RegionRun local[] = {{a.region, 3, 1}}, remote[] = {{b.region, 7, 1}};
    const std::vector<std::byte> message = bytes_of("done");
    const TransferId id =
        a.transport->post({.peer = b_of_a, .local = local, .remote = remote, .message = message})
            .value();
    EXPECT_EQ(wait_for(*a.transport, id), TransferState::done);
    EXPECT_EQ(text_of(wait_for_message(*b.transport).bytes), "done");
    EXPECT_EQ(b.memory[7], std::byte{42});
    EXPECT_TRUE(a.transport->release(id).is_ok());
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, HostileTransport, ::testing::ValuesIn(transport_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(HostileTransport, refuses_memory_that_cannot_be) {
  Transport& t = *a.transport;
  expect_refusal(t.add_region({}), "memory is null with 0 bytes");
  expect_refusal(t.add_region(null_span<std::byte>()), "memory is null with 3 bytes");
  expect_refusal(t.add_region({a.memory.data(), 0}), "memory is there with 0 bytes");
  expect_refusal(t.add_region({a.memory.data(), SIZE_MAX}), "none behind the last address");
  expect_refusal(t.add_region(std::span(a.memory).first(1)), "memory shares bytes with region");
  std::vector<std::byte> memory(100);
  const RegionId gone = t.add_region(memory).value();
  t.remove_region(gone).or_throw();
  for (const RegionId id : {gone, RegionId{}, RegionId{UINT32_MAX}})
    expect_refusal(t.remove_region(id), "region is " + std::to_string(id.value));
  expect_at_work();
}

TEST_P(HostileTransport, refuses_ids_that_are_stale) {
  Transport& t = *a.transport;
  const RegionRun local[] = {{a.region, 0, 1}}, remote[] = {{b.region, 0, 1}};
  const TransferId old = t.post({.peer = b_of_a, .local = local, .remote = remote}).value();
  EXPECT_EQ(wait_for(t, old), TransferState::done);
  t.release(old).or_throw();
  for (const TransferId id : {old, TransferId{}, TransferId{UINT64_MAX}}) {
    expect_refusal(t.poll(id), "Transport::poll: transfer is ");
    expect_refusal(t.cancel(id), "Transport::cancel: transfer is ");
    expect_refusal(t.release(id), "Transport::release: transfer is ");
  }
  TransportEnd other{GetParam()};
  const PeerId gone = t.connect(other.transport->address().value()).value();
  EXPECT_EQ(wait_for(t, gone), PeerState::connected);
  t.disconnect(gone).or_throw();
  for (const PeerId id : {gone, PeerId{}, PeerId{UINT32_MAX}}) {
    expect_refusal(t.peer_state(id), "Transport::peer_state: peer is ");
    expect_refusal(t.disconnect(id), "Transport::disconnect: peer is ");
    expect_refusal(t.send(id, bytes_of("x")), "Transport::send: peer is ");
    expect_refusal(t.post({.peer = id, .local = local, .remote = remote}),
                   "Transport::post: peer is ");
  }
  expect_at_work();
}

TEST_P(HostileTransport, refuses_bytes_that_are_nowhere) {
  Transport& t = *a.transport;
  expect_refusal(t.connect(null_span<const std::byte>(100)), "address has 100 bytes");
  expect_refusal(t.connect({a.memory.data(), SIZE_MAX}), "address has ");
  expect_refusal(t.send(b_of_a, null_span<const std::byte>()), "message has 3 bytes");
  expect_refusal(t.send(b_of_a, {a.memory.data(), SIZE_MAX}), "message has ");
  const RegionRun local[] = {{a.region, 0, 1}}, remote[] = {{b.region, 0, 1}};
  TransferRequest request{.peer = b_of_a, .local = local, .remote = remote};
  request.message = null_span<const std::byte>();
  expect_refusal(t.post(request), "message is null, expected memory of size 3");
  request.message = {a.memory.data(), SIZE_MAX};
  expect_refusal(t.post(request), "Transport::post: message has ");
  request.message = {};
  request.local = null_span<const RegionRun>();
  expect_refusal(t.post(request), "local has 3 runs");
  request.local = {local, SIZE_MAX / sizeof(RegionRun)};
  expect_refusal(t.post(request), "Transport::post: local has ");
  for (const int64_t bytes : {least_int64, int64_t{0}, most_int64}) {
    const RegionRun nowhere{.region = a.region, .offset = bytes, .bytes = bytes};
    request.local = {&nowhere, 1};
    expect_refusal(t.post(request), "local run 0 is ");
  }
  request.local = local;
  request.remote = null_span<const RegionRun>();
  expect_refusal(t.post(request), "remote has 3 runs");
  EXPECT_EQ(t.receive(null_span<PeerMessage>()), 0U);
  expect_at_work();
  b.transport->send(b.transport->connect(t.address().value()).value(), bytes_of("kept")).or_throw();
  EXPECT_EQ(t.receive(null_span<PeerMessage>()), 0U);
  EXPECT_EQ(t.receive({}), 0U);
  EXPECT_EQ(text_of(wait_for_message(t).bytes), "kept");
  EXPECT_TRUE(t.last_fault().is_ok());
}

TEST_P(HostileTransport, is_not_made_of_options_that_cannot_be) {
  const auto refuses = [](const char* part, const auto& change) {
    TransportOptions options;
    change(options);
    expect_refusal(GetParam().make(options), part);
  };
  refuses("max_peers is 0", [](auto& o) { o.max_peers = 0; });
  refuses("max_transfers is 0", [](auto& o) { o.max_transfers = 0; });
  for (const uint32_t runs : {0U, (1U << 20) + 1, UINT32_MAX})
    refuses("max_runs is ", [&](auto& o) { o.max_runs = runs; });
  for (const int64_t bad : {least_int64, int64_t{-1}, int64_t{0}, most_int64}) {
    refuses("max_message_bytes is ", [&](auto& o) { o.max_message_bytes = bad; });
    refuses("max_queued_bytes is ", [&](auto& o) { o.max_queued_bytes = bad; });
    refuses("timeout_ms is ", [&](auto& o) { o.timeout_ms = bad; });
  }
  refuses("max_queued_bytes is 1, expected 1048576", [](auto& o) { o.max_queued_bytes = 1; });
  int context = 0;
  refuses("on_event is null", [&](auto& o) { o.context = &context; });
  expect_at_work();
}

// ---- Those of one kind

TEST(SharedMemoryTransport, has_an_access_that_there_is) {
  for (const int access : {2, 255})
    expect_refusal(make_shared_memory_transport({}, {.access = static_cast<ReadAccess>(access)}),
                   "make_shared_memory_transport: access is " + std::to_string(access));
}

TEST(UcxTransport, has_names_of_transports) {
#ifdef FOLIO_TEST_UCX
  expect_refusal(make_ucx_transport({}, {.transports = null_text()}), "transports is null");
  expect_refusal(make_ucx_transport({}, {.transports = cut_text}), "transports has a 0 in it");
  if (make_ucx_transport())
    expect_refusal(make_ucx_transport({}, {.transports = "no_such_transport"}),
                   "transports is \"no_such_transport\"", Errc::io);
#else
  expect_refusal(make_ucx_transport({}, {.transports = null_text()}), "no UCX", Errc::unsupported);
#endif
}

TEST(NixlTransport, has_a_path_and_the_name_of_a_transport) {
  const auto refuses = [](const NixlOptions& options, const char* part) {
    expect_refusal(make_nixl_transport({}, options), part);
  };
  refuses({.library = null_text()}, "make_nixl_transport: library is null");
  refuses({.library = cut_text}, "make_nixl_transport: library has a 0 in it");
  refuses({.transports = null_text()}, "make_nixl_transport: transports is null");
  refuses({.transports = cut_text}, "make_nixl_transport: transports has a 0 in it");
  refuses({.transports = ""}, "transports is \"\"");
  refuses({.transports = "tcp,rc"}, "transports is \"tcp,rc\"");
  const std::string longer(10'000, 'l');
  expect_refusal(make_nixl_transport({}, {.library = longer}), longer.substr(0, 100),
                 Errc::unsupported);
}

TEST(InProcessNetwork, has_a_pace_that_there_is) {
  for (const int pace : {2, 255}) {
    InProcessNetwork network(static_cast<InProcessNetwork::Pace>(pace));
    expect_refusal(network.make_end(), "pace is " + std::to_string(pace));
    EXPECT_FALSE(network.step());
  }
}

TEST(InProcessNetwork, bears_ends_of_others_and_ends_that_outlive_it) {
  auto network = std::make_unique<InProcessNetwork>();
  InProcessNetwork another;
  const auto a = network->make_end().value(), b = network->make_end().value(),
             stranger = another.make_end().value(),
             foreign = make_shared_memory_transport().value();
  another.cut(*a);
  network->cut(*foreign);
  EXPECT_FALSE(another.step());
  const PeerId nobody = a->connect(stranger->address().value()).value();
  EXPECT_EQ(wait_for(*a, nobody), PeerState::lost) << "of another network";
  const PeerId peer = a->connect(b->address().value()).value();
  EXPECT_EQ(wait_for(*a, peer), PeerState::lost) << "it was cut";
  network.reset();
  EXPECT_FALSE(a->send(peer, bytes_of("x")).is_ok());
  EXPECT_TRUE(b->address().has_value());
}

TEST(TransportStates, have_names_whatever_they_are) {
  for (const int state : {4, 255}) EXPECT_STREQ(name(static_cast<TransferState>(state)), "unknown");
  for (const int state : {3, 255}) EXPECT_STREQ(name(static_cast<PeerState>(state)), "unknown");
  EXPECT_STREQ(name(TransferState::cancelled), "cancelled");
  EXPECT_STREQ(name(PeerState::lost), "lost");
}

}  // namespace
}  // namespace folio::test
