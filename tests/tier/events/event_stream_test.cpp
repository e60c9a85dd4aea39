// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/event_stream_test.cpp: an index at the end of a network says what the engine
/// has, whenever it came and whatever was lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "folio/tier/event_publisher.h"
#include "folio/tier/event_subscriber.h"
#include "tier/events/lossy_relay.h"
#include "tier/events/manual_publisher.h"
#include "tier/events/told_engine.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

struct Stream {
  EventFormat format = EventFormat::maps;
  NameForm names = NameForm::bytes;
  int32_t replay_batches = 10'000;
  double lost = 0;
  bool over_tcp = false;
};

/// An engine, its publisher, and a network.
class EventStream : public ::testing::Test {
 protected:
  void start(const Stream& stream) {
    const std::string any = "tcp://127.0.0.1:*";
    publisher_.emplace(EventPublisher::create(
                           {.endpoint = stream.over_tcp ? any : socket_in(folder_, "pub"),
                            .replay_endpoint = stream.over_tcp ? any : socket_in(folder_, "replay"),
                            .topic = "kv@test@model",
                            .replay_batches = stream.replay_batches,
                            .interval_ms = 1,
                            .format = stream.format,
                            .names = stream.names})
                           .value());
    engine_ = std::make_unique<ToldEngine>(*publisher_,
                                           folder_.path("disk" + std::to_string(num_engines_++)));
    if (stream.lost > 0)
      relay_ = std::make_unique<LossyRelay>(std::string(publisher_->endpoint()),
                                            socket_in(folder_, "relay"), stream.lost, rng_.next());
  }
  EventSubscriber subscribe(EventSubscriberOptions options = {}) {
    const std::string relayed = socket_in(folder_, "relay");
    options.endpoint = relay_ == nullptr ? publisher_->endpoint() : std::string_view(relayed);
    options.replay_endpoint = publisher_->replay_endpoint();
    options.topic = "kv@test";
    options.idle_check_ms = 20;
    options.request_timeout_ms = no_deadline_ms;
    return std::move(EventSubscriber::create(options)).value();
  }
  /// Until so many batches are out and `has_happened`. Never tells faster than the publisher sends:
  /// batches would grow without end on a slow machine.
  template <class Condition>
  void run(int64_t batches, EventSubscriber* subscriber, Condition has_happened) {
    ASSERT_TRUE(comes_true([&] {
      const EventPublisherFigures figures = publisher_->figures();
      if (figures.queued_events == 0)
        for (int64_t steps = rng_.between(1, 8); steps > 0; --steps) engine_->step(rng_);
      publisher_->flush();
      if (subscriber != nullptr) subscriber->poll(0).or_throw();
      return figures.published_batches >= batches && has_happened();
    }));
  }
  void run(int64_t batches, EventSubscriber* subscriber) {
    run(batches, subscriber, [] { return true; });
  }
  void expect_same(EventSubscriber& subscriber, NameForm form = NameForm::bytes) {
    engine_->finish();
    Contents expected;
    for (const auto& [name, media] : engine_->contents())
      expected[form == NameForm::bytes ? name
                                       : tier::name_of_last_64_bits(tier::last_64_bits(name))] =
          media;
    EXPECT_GT(expected.size(), 5U);
    publisher_->flush();
    const bool same = comes_true([&] {
      subscriber.poll(1).or_throw();
      return subscriber.is_current() && contents_of(subscriber.index()) == expected;
    });
    EXPECT_TRUE(same) << contents_of(subscriber.index()).size() << " of " << expected.size();
    EXPECT_EQ(publisher_->figures().dropped_events, 0);
    EXPECT_EQ(subscriber.index().figures().refused_events, 0);
    EXPECT_EQ(subscriber.index().figures().malformed_batches, 0);
    EXPECT_EQ(subscriber.figures().malformed_messages, 0);
  }

  TemporaryFolder folder_;
  int num_engines_ = 0;
  Rng rng_{test_seed()};
  std::optional<EventPublisher> publisher_;
  std::unique_ptr<ToldEngine> engine_;  // goes before the publisher that it tells
  std::unique_ptr<LossyRelay> relay_;
};

TEST_F(EventStream, rebuilds_what_pool_and_tiers_have) {
  start({.over_tcp = true});
  EventSubscriber subscriber = subscribe();
  run(150, &subscriber);
  expect_same(subscriber);
  EXPECT_GT(publisher_->figures().published_events, 100);
  EXPECT_EQ(subscriber.figures().lost_batches, 0);
}

TEST_F(EventStream, has_arrays_and_short_names_as_well) {
  start({.format = EventFormat::arrays, .names = NameForm::last_64_bits});
  EventSubscriber subscriber = subscribe();
  run(60, &subscriber);
  expect_same(subscriber, NameForm::last_64_bits);
}

TEST_F(EventStream, serves_who_comes_late) {
  start({.replay_batches = 2});
  run(60, nullptr);
  EventSubscriber subscriber = subscribe();
  run(80, &subscriber);
  expect_same(subscriber);
  EXPECT_GE(subscriber.figures().snapshots, 1);
}

TEST_F(EventStream, heals_who_loses_messages) {
  start({.lost = 0.3});
  EventSubscriber subscriber = subscribe();
  run(150, &subscriber,
      [&] { return relay_->lost() > 5 && subscriber.figures().replayed_batches > 0; });
  expect_same(subscriber);
  EXPECT_EQ(subscriber.figures().lost_batches, 0);
}

TEST_F(EventStream, heals_who_loses_messages_that_nobody_has_any_more) {
  start({.replay_batches = 0, .lost = 0.3});
  EventSubscriber subscriber = subscribe();
  run(150, &subscriber, [&] { return subscriber.figures().snapshots > 2; });
  expect_same(subscriber);
}

TEST_F(EventStream, heals_after_events_that_were_dropped_when_the_pool_tells_anew) {
  publisher_.emplace(EventPublisher::create({.endpoint = socket_in(folder_, "pub"),
                                             .replay_endpoint = socket_in(folder_, "replay"),
                                             .topic = "kv@test@model",
                                             .max_queued_events = 3,
                                             .interval_ms = 10'000,
                                             .names = NameForm::bytes})
                         .value());
  Sha256Names names = std::move(Sha256Names::create()).value();
  PagePool pool = std::move(PagePool::create({.num_pages = 16,
                                              .page_size = 2,
                                              .max_sequences = 2,
                                              .name = names.function(),
                                              .on_event = publisher_->add_pool().value()}))
                      .value();
  EventSubscriber subscriber = subscribe();
  ASSERT_TRUE(comes_true([&] {  // its request makes the publisher look, not in the midst of events
    subscriber.poll(1).or_throw();
    return subscriber.is_current();
  }));
  const std::vector<TokenId> prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const SequenceId id = pool.admit(prompt).value().id;
  pool.reserve(id, 11).or_throw();
  pool.commit(id, prompt).or_throw();
  publisher_->flush();
  ASSERT_TRUE(comes_true([&] { return publisher_->figures().dropped_events == 2; }));
  publisher_->tell_again(pool).or_throw();
  publisher_->flush();
  EXPECT_TRUE(comes_true([&] {
    subscriber.poll(1).or_throw();
    return subscriber.index().figures().names == 5;
  }));
}

TEST_F(EventStream, heals_after_events_that_were_dropped_when_all_places_tell_anew) {
  publisher_.emplace(EventPublisher::create({.endpoint = socket_in(folder_, "pub"),
                                             .replay_endpoint = socket_in(folder_, "replay"),
                                             .topic = "kv@test@model",
                                             .max_queued_events = 3,
                                             .interval_ms = 10'000,
                                             .names = NameForm::bytes})
                         .value());
  engine_ = std::make_unique<ToldEngine>(*publisher_, folder_.path("disk"));
  EventSubscriber subscriber = subscribe();
  ASSERT_TRUE(comes_true([&] {
    for (int i = 0; i < 50; ++i) engine_->step(rng_);
    publisher_->flush();
    subscriber.poll(0).or_throw();
    return publisher_->figures().dropped_events > 100 && engine_->contents().size() > 20;
  }));
  engine_->finish();
  publisher_->flush();
  ASSERT_TRUE(comes_true([&] { return publisher_->figures().queued_events == 0; }));
  engine_->tell_again(*publisher_);
  const Contents expected = engine_->contents();
  EXPECT_TRUE(comes_true([&] {
    publisher_->flush();
    subscriber.poll(1).or_throw();
    return subscriber.is_current() && contents_of(subscriber.index()) == expected;
  })) << contents_of(subscriber.index()).size()
      << " of " << expected.size();
}

TEST_F(EventStream, takes_a_publisher_that_begins_again_for_a_new_one) {
  start({});
  run(150, nullptr);
  EventSubscriber subscriber = subscribe();
  expect_same(subscriber);
  engine_.reset();
  publisher_.reset();
  start({});
  run(60, &subscriber);
  expect_same(subscriber);
  ASSERT_LT(publisher_->figures().published_batches, 150);
  EXPECT_EQ(subscriber.figures().restarts, 1);
}

/// Nobody reads while much is told; then it is read. Neither side waits for the other.
TEST_F(EventStream, a_slow_subscriber_loses_batches_and_nobody_waits_for_it) {
  start({.replay_batches = 1});
  EventSubscriber subscriber = subscribe({.high_water_mark = 1});
  run(150, nullptr);
  expect_same(subscriber);
}

TEST_F(EventStream, garbage_on_the_wire_is_counted) {
  ManualPublisher publisher(folder_);
  EventSubscriber subscriber = publisher.subscribe(0);
  ASSERT_TRUE(comes_true([&] { return publisher.take_request().has_value(); }));
  const std::string one = tier::bytes_of(1), two = tier::bytes_of(2),
                    odd = tier::bytes_of(uint64_t{1} << 63), end = tier::bytes_of(tier::no_batch);
  publisher.answer({}, "x");
  publisher.answer({"x", "", one}, "x");
  publisher.answer({"", "", "1234567"}, "x");
  publisher.answer({"", "", "", one}, "x");
  publisher.answer_batch(1, "no msgpack");
  publisher.end_answers();
  ASSERT_TRUE(comes_true([&] {
    subscriber.poll(1).or_throw();
    return subscriber.is_current();
  }));
  EXPECT_EQ(subscriber.figures().malformed_messages, 4);
  EXPECT_EQ(subscriber.index().figures().malformed_batches, 1);
  const ManualPublisher::Frames heads[] = {
      {}, {one}, {"", "12345678", two}, {"", "123"}, {"", odd}, {"", end}, {"", two}};
  ASSERT_TRUE(comes_true([&] {  // some go before the subscription has arrived
    for (const auto& head : heads) publisher.send(head, "\xc1");
    subscriber.poll(1).or_throw();
    return subscriber.figures().malformed_messages >= 10 &&
           subscriber.index().figures().malformed_batches >= 2;
  }));
  EXPECT_EQ(subscriber.index().figures().names, 0);
}

/// An answer is the first to tell of another publisher; its own batches come later.
TEST_F(EventStream, a_publisher_that_begins_again_is_one_restart_whoever_tells_first) {
  ManualPublisher publisher(folder_);
  EventSubscriber subscriber = publisher.subscribe(1);
  const auto follow = [&] {
    subscriber.poll(1).or_throw();
    if (publisher.take_request()) publisher.end_answers();
  };
  uint64_t last = 100;
  ASSERT_TRUE(comes_true([&] {
    if (subscriber.figures().live_batches == 0) publisher.send({"", tier::bytes_of(++last)}, "");
    follow();
    return subscriber.next_batch() == last + 1;
  }));
  EXPECT_GT(subscriber.figures().earlier_batches, 100);
  EXPECT_EQ(subscriber.figures().lost_batches, 0);
  ASSERT_TRUE(comes_true([&] {
    subscriber.poll(1).or_throw();
    if (const auto wanted = publisher.take_request()) {
      if (*wanted != tier::no_batch) publisher.answer_batch(3, "");
      publisher.end_answers();
    }
    return subscriber.figures().restarts > 0;
  }));
  publisher.send({"", tier::bytes_of(4)}, "");
  ASSERT_TRUE(comes_true([&] {
    follow();
    return subscriber.next_batch() == 5;
  }));
  EXPECT_EQ(subscriber.figures().restarts, 1);
  EXPECT_EQ(subscriber.figures().earlier_batches, 4);
}

/// It had no batch when a snapshot was asked for, and its first ones no more when they were.
TEST_F(EventStream, a_snapshot_is_asked_for_again_where_a_replay_begins_too_late) {
  ManualPublisher publisher(folder_);
  EventSubscriber subscriber = publisher.subscribe(0);
  const auto next_request = [&] {
    std::optional<uint64_t> wanted;
    EXPECT_TRUE(comes_true([&] {
      subscriber.poll(1).or_throw();
      return (wanted = publisher.take_request()).has_value();
    }));
    return wanted;
  };
  EXPECT_EQ(next_request(), tier::no_batch);
  publisher.end_answers();
  EXPECT_EQ(next_request(), 0U);
  publisher.answer_batch(7, "no msgpack");
  publisher.end_answers();
  EXPECT_EQ(next_request(), tier::no_batch);
  EXPECT_EQ(subscriber.index().figures().malformed_batches, 0) << "of a replay with a hole";
  publisher.answer_batch(7, "no msgpack");
  publisher.end_answers();
  EXPECT_TRUE(comes_true([&] {
    subscriber.poll(1).or_throw();
    return subscriber.is_current();
  }));
  EXPECT_EQ(subscriber.next_batch(), 8U);
  EXPECT_EQ(subscriber.figures().snapshots, 1);
  EXPECT_EQ(subscriber.figures().earlier_batches, 0);
}

TEST_F(EventStream, who_gives_no_snapshot_is_taken_with_holes) {
  ManualPublisher publisher(folder_);
  EventSubscriber subscriber = publisher.subscribe(0);
  int snapshots = 0, replays = 0;
  EXPECT_TRUE(comes_true([&] {
    subscriber.poll(1).or_throw();
    if (const auto wanted = publisher.take_request()) {
      ++(*wanted == tier::no_batch ? snapshots : replays);
      if (*wanted != tier::no_batch)
        for (const uint64_t number : {5U, 6U, 9U}) publisher.answer_batch(number, "no msgpack");
      publisher.end_answers();
    }
    return subscriber.is_current();
  }));
  EXPECT_EQ(snapshots, 2);
  EXPECT_EQ(replays, 2);
  EXPECT_EQ(subscriber.next_batch(), 10U);
  EXPECT_EQ(subscriber.figures().earlier_batches, 5);
  EXPECT_EQ(subscriber.figures().lost_batches, 2);
  EXPECT_EQ(subscriber.figures().snapshots, 0);
}

TEST_F(EventStream, knows_whether_a_publisher_is_there) {
  start({.replay_batches = 2, .over_tcp = true});
  EventSubscriber subscriber = subscribe();
  const auto is = [&](bool connected) {
    return comes_true([&] {
      subscriber.poll(1).or_throw();
      return subscriber.is_connected() == connected;
    });
  };
  EXPECT_FALSE(subscriber.is_connected());
  EXPECT_TRUE(is(true)) << "without a batch";
  run(60, &subscriber);
  expect_same(subscriber);
  engine_.reset();
  publisher_.reset();
  EXPECT_TRUE(is(false));
}

TEST_F(EventStream, takes_no_more_at_once_than_may_wait) {
  ManualPublisher publisher(folder_);
  EventSubscriber subscriber =
      EventSubscriber::create({.endpoint = publisher.endpoint(), .high_water_mark = 3}).value();
  uint64_t last = 0;
  int64_t taken = 0, most = 0;
  ASSERT_TRUE(comes_true([&] {
    for (int i = 0; i < 50; ++i) publisher.send({"", tier::bytes_of(++last)}, "");
    subscriber.poll(1).or_throw();
    const int64_t before = std::exchange(taken, subscriber.figures().live_batches);
    most = std::max(most, taken - before);
    return taken > 100;
  }));
  EXPECT_EQ(most, 3);
}

TEST_F(EventStream, of_a_publisher_that_does_not_answer_is_followed_all_the_same) {
  publisher_.emplace(EventPublisher::create({.endpoint = socket_in(folder_, "pub")}).value());
  const TierObserver tier = publisher_->add_tier(medium_cpu).value();
  const std::string nobody = socket_in(folder_, "nobody");
  EventSubscriber subscriber = EventSubscriber::create({.endpoint = publisher_->endpoint(),
                                                        .replay_endpoint = nobody,
                                                        .max_held_batches = 2,
                                                        .request_timeout_ms = 5})
                                   .value();
  EXPECT_TRUE(comes_true([&] {
    const PageName name = tier::name_of_last_64_bits(
        static_cast<uint64_t>(publisher_->figures().published_batches) + 1);
    tier.function(tier.context, TierChange::stored, {&name, 1});
    publisher_->flush();
    subscriber.poll(1).or_throw();
    return subscriber.index().figures().names > 5;
  }));
  EXPECT_GT(subscriber.figures().timeouts, 0);
}

TEST(EventSubscriber, refuses_options_that_cannot_be) {
  const auto refusal = [](const EventSubscriberOptions& options) {
    const Result<EventSubscriber> made = EventSubscriber::create(options);
    EXPECT_EQ(made.error().code(), Errc::invalid_argument);
    return std::string(made.error().message());
  };
  EXPECT_THAT(refusal({.endpoint = "x"}), HasSubstr("endpoint is x"));
  EXPECT_THAT(refusal({.endpoint = "tcp://127.0.0.1:99999"}), HasSubstr("PORT 0 .. 65535"));
  EXPECT_THAT(refusal({.endpoint = "tcp://*:1"}), HasSubstr("one that can be connected"));
  EXPECT_THAT(refusal({.replay_endpoint = "x"}), HasSubstr("replay_endpoint is x"));
  EXPECT_THAT(refusal({.replay_endpoint = "tcp://*:1"}), HasSubstr("replay_endpoint is tcp://*:1"));
  EXPECT_THAT(refusal({.topic = std::string(1025, 't')}), HasSubstr("topic has 1025 bytes"));
  EXPECT_THAT(refusal({.high_water_mark = -1}), HasSubstr("high_water_mark is -1"));
  EXPECT_THAT(refusal({.max_message_bytes = 0}), HasSubstr("max_message_bytes is 0"));
  EXPECT_THAT(refusal({.max_held_batches = 0}), HasSubstr("max_held_batches is 0"));
  EXPECT_THAT(refusal({.request_timeout_ms = 0}), HasSubstr("request_timeout_ms is 0"));
  EXPECT_THAT(refusal({.idle_check_ms = -1}), HasSubstr("idle_check_ms is -1"));
  EXPECT_THAT(refusal({.index = {.max_names = 0}}), HasSubstr("max_names is 0"));
}

}  // namespace
}  // namespace folio::test
