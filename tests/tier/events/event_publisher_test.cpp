// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/event_publisher_test.cpp: what goes out on a publisher's sockets, to whom, and
/// what does not.
#include "folio/tier/event_publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "folio/names/sha256_names.h"
#include "tier/events/event_helpers.h"
#include "tier/events/wire.h"
#include "tier/events/zmq_socket.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
using tier::Json;
using tier::ZmqSocket;
using Frames = std::vector<std::string>;

EventPublisher make(const EventPublisherOptions& options) {
  return std::move(EventPublisher::create(options)).value();
}

void store(const TierObserver& tier, const PageName& name) {
  tier.function(tier.context, TierChange::stored, {&name, 1});
}
void remove(const TierObserver& tier, const PageName& name) {
  tier.function(tier.context, TierChange::removed, {&name, 1});
}
void wait_until_sent(EventPublisher& publisher, int64_t batches) {
  ASSERT_TRUE(comes_true([&] {
    publisher.flush();
    return publisher.figures().published_batches >= batches;
  }));
}

/// A plain socket, as anybody has it.
class Client {
 public:
  Client(int type, std::string_view endpoint, std::string_view topic = {})
      : socket_(ZmqSocket::open(context_, type).value()) {
    if (type == ZMQ_SUB) socket_.set(ZMQ_SUBSCRIBE, topic);
    socket_.attach(ZmqSocket::Way::connect, std::string(endpoint), "Client", "endpoint").or_throw();
  }
  void send(const std::vector<std::string_view>& frames, std::string_view last) {
    const auto bytes = std::make_shared<const std::vector<uint8_t>>(last.begin(), last.end());
    ASSERT_TRUE(comes_true([&] { return socket_.send(frames, bytes); }));
  }
  Frames receive() {
    std::optional<Frames> frames;
    EXPECT_TRUE(comes_true([&] { return (frames = socket_.receive()).has_value(); }));
    return frames.value_or(Frames());
  }
  /// What answers a request: numbers, and payloads.
  std::vector<std::pair<uint64_t, std::string>> ask(uint64_t first) {
    send({{}}, tier::bytes_of(first));
    std::vector<std::pair<uint64_t, std::string>> answers;
    for (;;) {
      const Frames frames = receive();
      if (frames.size() != 4) return answers;
      answers.emplace_back(tier::number_of(frames[2]).value(), frames[3]);
      if (answers.back().first == tier::no_batch) return answers;
    }
  }

 private:
  tier::ZmqContext context_;
  ZmqSocket socket_;
};

Json read(const std::string& payload) { return Json::from_msgpack(payload); }

/// Publishes until the subscriber hears it: a subscription takes its time.
void meet(const TierObserver& tier, EventPublisher& publisher, Client& subscriber) {
  std::thread hears([&] { subscriber.receive(); });
  std::atomic<bool> heard = false;
  std::thread publishes([&] {
    while (!heard) {
      store(tier, name_of(1000));
      remove(tier, name_of(1000));
      publisher.flush();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  hears.join();
  heard = true;
  publishes.join();
}

TEST(EventPublisher, sends_topic_number_and_batch) {
  const TemporaryFolder folder;
  const std::string topic("kv@pod\0@model", 13);
  EventPublisher publisher =
      make({.endpoint = socket_in(folder, "pub"), .topic = topic, .data_parallel_rank = 3});
  const TierObserver tier = publisher.add_tier(medium_cpu).value();
  Client subscriber(ZMQ_SUB, publisher.endpoint(), topic);
  meet(tier, publisher, subscriber);
  store(tier, name_of(7));
  publisher.flush();
  uint64_t last = 0;
  for (bool found = false; !found;) {
    const Frames frames = subscriber.receive();
    ASSERT_EQ(frames.size(), 3U);
    EXPECT_EQ(frames[0], topic);
    const uint64_t number = tier::number_of(frames[1]).value();
    EXPECT_TRUE(last == 0 || number == last + 1);
    last = number;
    const Json batch = read(frames[2]);
    EXPECT_GT(batch[0].get<double>(), 1.7e9);
    EXPECT_EQ(batch[2], 3);
    for (const Json& event : batch[1])
      found = found || (event["type"] == "BlockStored" && event["block_hashes"][0] == 0);
  }
}

TEST(EventPublisher, replays_what_it_has_and_gives_snapshots) {
  const TemporaryFolder folder;
  EventPublisher publisher = make({.endpoint = socket_in(folder, "pub"),
                                   .replay_endpoint = socket_in(folder, "replay"),
                                   .replay_batches = 3,
                                   .names = NameForm::bytes});
  const TierObserver tier = publisher.add_tier(medium_cpu).value();
  Client client(ZMQ_DEALER, publisher.replay_endpoint());
  EXPECT_EQ(client.ask(0).size(), 1U) << "the end alone";
  EXPECT_EQ(client.ask(tier::no_batch).size(), 1U) << "nothing to tell of";
  for (uint32_t i = 0; i < 5; ++i) {
    store(tier, name_of(i));
    ASSERT_NO_FATAL_FAILURE(wait_until_sent(publisher, i + 1));
  }
  auto answers = client.ask(2);
  ASSERT_EQ(answers.size(), 4U);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(answers[i].first, 2 + i);
  EXPECT_EQ(answers[3].second, "");
  EXPECT_EQ(client.ask(4).size(), 2U);
  EXPECT_EQ(client.ask(5).size(), 1U);
  EXPECT_EQ(client.ask(1).size(), 2U) << "a snapshot for what has gone";
  // Of batches that are still to come somebody knows who knew another publisher.
  EXPECT_EQ(client.ask(6).size(), 2U);
  EXPECT_EQ(client.ask(std::numeric_limits<int64_t>::max()).size(), 2U);
  answers = client.ask(tier::no_batch);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].first, 4U);
  const Json events = read(answers[0].second)[1];
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(events[0]["type"], "AllBlocksCleared");
  EXPECT_EQ(events[1]["type"], "BlockStored");
  // counted behind the last answer
  EXPECT_TRUE(comes_true([&] { return publisher.figures().snapshots == 5; }));
  const EventPublisherFigures figures = publisher.figures();
  EXPECT_EQ(figures.kept_batches, 3);
  EXPECT_EQ(figures.replayed_batches, 4);
  EXPECT_EQ(figures.names, 5);
}

TEST(EventPublisher, refuses_requests_that_are_none) {
  const TemporaryFolder folder;
  EventPublisher publisher =
      make({.endpoint = socket_in(folder, "pub"), .replay_endpoint = socket_in(folder, "replay")});
  Client client(ZMQ_DEALER, publisher.replay_endpoint());
  client.send({}, tier::bytes_of(0));
  client.send({{}}, "1234567");
  client.send({{}}, "123456789");
  client.send({{}}, "");
  client.send({"x"}, tier::bytes_of(0));
  client.send({{}, tier::bytes_of(0)}, tier::bytes_of(0));
  client.send(std::vector<std::string_view>(1000), tier::bytes_of(0));
  EXPECT_EQ(client.ask(0).size(), 1U);
  EXPECT_EQ(publisher.figures().refused_requests, 7);
  Client loud(ZMQ_DEALER, publisher.replay_endpoint());
  loud.send({{}}, std::string(1 << 20, 'x'));  // ZeroMQ ends the connection
  EXPECT_EQ(client.ask(0).size(), 1U);
}

TEST(EventPublisher, keeps_no_more_bytes_than_it_may) {
  const TemporaryFolder folder;
  EventPublisher publisher = make({.endpoint = socket_in(folder, "pub"),
                                   .replay_endpoint = socket_in(folder, "replay"),
                                   .replay_bytes = 1000});
  const TierObserver tier = publisher.add_tier(medium_cpu).value();
  for (uint32_t i = 0; i < 20; ++i) {
    store(tier, name_of(i));
    ASSERT_NO_FATAL_FAILURE(wait_until_sent(publisher, i + 1));
  }
  EXPECT_LE(publisher.figures().kept_bytes, 1000);
  EXPECT_GE(publisher.figures().kept_batches, 2);
}

/// Nobody reads, the queue is small: nothing waits, what has no room is counted, and a gap says so.
TEST(EventPublisher, never_waits_and_leaves_a_gap_where_it_dropped_events) {
  const TemporaryFolder folder;
  EventPublisher publisher = make({.endpoint = socket_in(folder, "pub"),
                                   .replay_endpoint = socket_in(folder, "replay"),
                                   .high_water_mark = 1,
                                   .max_queued_events = 4,
                                   .interval_ms = 10'000});
  const TierObserver tier = publisher.add_tier(medium_cpu).value();
  const Client stuck(ZMQ_SUB, publisher.endpoint());
  std::vector<PageName> names;
  for (uint32_t i = 0; i < 100'000; ++i) names.push_back(name_of(i));
  tier.function(tier.context, TierChange::stored, names);
  ASSERT_NO_FATAL_FAILURE(wait_until_sent(publisher, 1));
  EventPublisherFigures figures;
  ASSERT_TRUE(comes_true([&] {
    publisher.flush();
    figures = publisher.figures();
    return figures.dropped_events + figures.published_events == 100'000;
  }));
  EXPECT_GT(figures.dropped_events, 0);
  store(tier, name_of(200'000));
  ASSERT_NO_FATAL_FAILURE(wait_until_sent(publisher, figures.published_batches + 1));
  Client client(ZMQ_DEALER, publisher.replay_endpoint());
  const auto answers = client.ask(0);
  ASSERT_GE(answers.size(), 3U);
  bool has_gap = false;  // where it looked at the queue while names came, between any two of them
  for (size_t i = 1; i + 1 < answers.size(); ++i)
    has_gap = has_gap || answers[i].first > answers[i - 1].first + 1;
  EXPECT_TRUE(has_gap);
}

TEST(EventPublisher, tells_names_of_a_pool_once_and_what_tiers_have_with_tokens) {
  const TemporaryFolder folder;
  EventPublisher publisher = make({.endpoint = socket_in(folder, "pub"),
                                   .replay_endpoint = socket_in(folder, "replay"),
                                   .names = NameForm::bytes});
  const EventFunction pool = publisher.add_pool().value();
  const TierObserver tier = publisher.add_tier(medium_storage).value();
  const auto tell = [&](PoolEventKind kind, uint32_t name, std::vector<TokenId> tokens = {}) {
    const PoolEvent event{.adapter = 9,
                          .name = name_of(name),
                          .parent_name = name_of(99),
                          .kind = kind,
                          .has_name = kind != PoolEventKind::cleared,
                          .has_parent_name = true};
    pool.function(pool.context, event, tokens);
  };
  tell(PoolEventKind::stored, 1, {5, 6});
  tell(PoolEventKind::stored, 1, {5, 6});  // another content of the same name
  store(tier, name_of(1));
  store(tier, name_of(1));
  tell(PoolEventKind::removed, 1);
  tell(PoolEventKind::removed, 1);
  tell(PoolEventKind::removed, 1);
  tell(PoolEventKind::stored, 2, {7, 8});
  pool.function(pool.context, {.kind = PoolEventKind::stored}, {});  // without a name
  tell(PoolEventKind::cleared, 0);                                   // the tier has something still
  remove(tier, name_of(1));
  tell(PoolEventKind::cleared, 0);
  ASSERT_NO_FATAL_FAILURE(wait_until_sent(publisher, 1));
  ASSERT_TRUE(comes_true([&] {
    publisher.flush();
    return publisher.figures().published_events == 7;
  }));
  Json events = Json::array();
  Client client(ZMQ_DEALER, publisher.replay_endpoint());
  for (const auto& [number, payload] : client.ask(0)) {
    if (number == tier::no_batch) continue;
    const Json batch = read(payload);
    for (const Json& event : batch[1]) {
      const size_t blocks = event.contains("block_hashes") ? event["block_hashes"].size() : 1;
      for (size_t i = 0; i < blocks; ++i)
        events.push_back({event["type"], event.value("medium", ""),
                          event.contains("token_ids") ? event["token_ids"] : Json()});
    }
  }
  EXPECT_EQ(events, Json::array({{"BlockStored", "GPU", {5, 6}},
                                 {"BlockStored", "STORAGE", {5, 6}},
                                 {"BlockRemoved", "GPU", nullptr},
                                 {"BlockStored", "GPU", {7, 8}},
                                 {"BlockRemoved", "GPU", nullptr},
                                 {"BlockRemoved", "STORAGE", nullptr},
                                 {"AllBlocksCleared", "", nullptr}}));
  EXPECT_EQ(publisher.figures().unnamed_events, 1);
  EXPECT_EQ(publisher.figures().names, 0);
}

/// What a snapshot says is in the index at the end.
EventIndex index_of(EventPublisher& publisher) {
  EventIndex index = std::move(EventIndex::create()).value();
  Client client(ZMQ_DEALER, publisher.replay_endpoint());
  for (const auto& [number, payload] : client.ask(tier::no_batch))
    if (number != tier::no_batch)
      index.apply(std::as_bytes(std::span(payload.data(), payload.size()))).or_throw();
  return index;
}

TEST(EventPublisher, calls_adapters_by_their_names) {
  const TemporaryFolder folder;
  EventPublisher publisher =
      make({.endpoint = socket_in(folder, "pub"), .replay_endpoint = socket_in(folder, "replay")});
  const EventFunction pool = publisher.add_pool().value();
  publisher.name_adapter(7, "tales").or_throw();
  publisher.name_adapter(8, "verses").or_throw();
  publisher.name_adapter(8, "").or_throw();
  for (const uint64_t adapter : {uint64_t{0}, uint64_t{7}, uint64_t{8}})
    pool.function(pool.context,
                  {.content = adapter + 1,
                   .adapter = adapter,
                   .name = name_of(static_cast<uint32_t>(adapter)),
                   .has_name = true},
                  {});
  wait_until_sent(publisher, 1);
  Client client(ZMQ_DEALER, publisher.replay_endpoint());
  std::map<int, Json> names;
  for (const auto& [number, payload] : client.ask(0)) {
    if (number == tier::no_batch) break;
    const Json batch = read(payload);
    for (const Json& event : batch[1])
      names[event["lora_id"].is_null() ? 0 : event["lora_id"].get<int>()] = event["lora_name"];
  }
  EXPECT_EQ(names, (std::map<int, Json>{{0, nullptr}, {7, "tales"}, {8, nullptr}}));
  const auto refusal = [&](uint64_t adapter, std::string_view name) {
    return std::string(publisher.name_adapter(adapter, name).message());
  };
  EXPECT_THAT(refusal(0, "none"), HasSubstr("adapter is 0"));
  EXPECT_THAT(refusal(1, std::string(257, 'n')), HasSubstr("lora_name has 257 bytes"));
  EXPECT_THAT(refusal(1, "a\nb"), HasSubstr("lora_name has 3 bytes"));
  EXPECT_THAT(refusal(1, std::string_view(nullptr, 3)), HasSubstr("lora_name has 3 bytes"));
  for (uint64_t i = 1; i < EventPublisher::max_adapters; ++i)
    publisher.name_adapter(100 + i, "n").or_throw();
  EXPECT_THAT(refusal(1, "one more"), HasSubstr("65536 adapters have a name"));
  EXPECT_TRUE(publisher.name_adapter(7, "other").is_ok()) << "one that has a name gets another";
}

/// A tier of a test, that has what it is told to have.
class ListedTier final : public Tier {
 public:
  std::vector<PageName> names;
  int32_t find(std::span<const PageName>) noexcept override { return 0; }
  Result<TierTicket> load(std::span<const TierPage>, int64_t, LoadOrder) noexcept override {
    return TierTicket();
  }
  uint32_t landed(TierTicket) const noexcept override { return 0; }
  Result<TierTicket> store(std::span<const TierPage>) noexcept override { return TierTicket(); }
  Status drop(std::span<const PageName>) noexcept override { return {}; }
  Status visit_names(tier::NameVisitor visitor) noexcept override {
    if (is_silent) return Tier::visit_names(visitor);
    visitor.function(visitor.context, names);
    return {};
  }
  void cancel(TierTicket) noexcept override {}
  size_t poll(std::span<TierCompletion>) noexcept override { return 0; }
  TierFigures figures() const noexcept override { return {}; }
  Status last_fault() const noexcept override { return {}; }
  bool is_silent = false;
};

TEST(EventPublisher, tells_anew_what_a_tier_has_and_no_more_than_has_changed) {
  const TemporaryFolder folder;
  EventPublisher publisher = make({.endpoint = socket_in(folder, "pub"),
                                   .replay_endpoint = socket_in(folder, "replay"),
                                   .names = NameForm::bytes});
  const TierObserver cpu = publisher.add_tier("CPU").value();
  const TierObserver disk = publisher.add_tier("STORAGE").value();
  for (const uint32_t n : {1U, 2U, 3U}) store(cpu, name_of(n));
  store(disk, name_of(2));
  ListedTier tier;
  tier.names = {name_of(4), name_of(1), name_of(3)};  // 2 is lost, 4 was never told
  publisher.tell_again(tier, "CPU").or_throw();
  remove(cpu, name_of(3));  // behind it
  ASSERT_TRUE(comes_true([&] {
    publisher.flush();
    return publisher.figures().published_events == 7;
  }));
  EXPECT_EQ(contents_of(index_of(publisher)),
            (Contents{{name_of(1), {"CPU"}}, {name_of(2), {"STORAGE"}}, {name_of(4), {"CPU"}}}));
  EXPECT_EQ(publisher.figures().names, 3);
  tier.names.clear();
  publisher.tell_again(tier, "CPU").or_throw();
  ASSERT_TRUE(comes_true([&] {
    publisher.flush();
    return publisher.figures().names == 1;
  }));
  EXPECT_THAT(std::string(publisher.tell_again(tier, "GPU").message()),
              HasSubstr("medium is GPU, expected one of add_tier"));
  tier.is_silent = true;
  EXPECT_EQ(publisher.tell_again(tier, "CPU").code(), Errc::unsupported);
}

TEST(EventPublisher, tells_anew_what_a_pool_has) {
  const TemporaryFolder folder;
  EventPublisher publisher = make({.endpoint = socket_in(folder, "pub"),
                                   .replay_endpoint = socket_in(folder, "replay"),
                                   .names = NameForm::bytes});
  Sha256Names names = Sha256Names::create().value();
  PagePool pool = std::move(PagePool::create({.num_pages = 8,
                                              .page_size = 2,
                                              .max_sequences = 2,
                                              .name = names.function(),
                                              .on_event = publisher.add_pool().value()}))
                      .value();
  EXPECT_THAT(std::string(publisher.tell_again(pool, "CPU").message()),
              HasSubstr("medium is CPU, expected one of add_pool"));
  const TokenId prompt[] = {1, 2, 3, 4, 5};
  const SequenceId id = pool.admit(prompt).value().id;
  pool.reserve(id, 5).or_throw();
  pool.commit(id, prompt).or_throw();
  publisher.tell_again(pool).or_throw();
  ASSERT_TRUE(comes_true([&] {
    publisher.flush();
    return publisher.figures().published_events == 5;
  }));
  EventIndex index = std::move(EventIndex::create()).value();
  Json last;
  Client client(ZMQ_DEALER, publisher.replay_endpoint());
  for (const auto& [number, payload] : client.ask(0)) {
    if (number == tier::no_batch) continue;
    last = read(payload)[1];
    index.apply(std::as_bytes(std::span(payload.data(), payload.size()))).or_throw();
  }
  const PageName chain[] = {pool.name(id, 0).value(), pool.name(id, 1).value()};
  EXPECT_EQ(index.find(chain, "GPU"), 2);
  EXPECT_EQ(index.figures().names, 2);
  index.visit(
      [](void* first, const IndexedName& n) noexcept {
        EXPECT_EQ(n.has_parent, n.name != *static_cast<const PageName*>(first));
      },
      const_cast<PageName*>(&chain[0]));
  EXPECT_EQ(last[last.size() - 3]["type"], "AllBlocksCleared");
  EXPECT_EQ(last[last.size() - 2]["token_ids"].size(), 2U);
}

}  // namespace
}  // namespace folio::test
