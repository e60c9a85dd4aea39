// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/event_publisher_refusals_test.cpp: options of which no publisher is made, and
/// places that it does not take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>

#include "folio/tier/event_publisher.h"
#include "tier/events/event_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

TEST(EventPublisher, refuses_endpoints_that_are_none_or_taken) {
  const TemporaryFolder folder;
  const auto refusal = [](const EventPublisherOptions& options) {
    const Result<EventPublisher> made = EventPublisher::create(options);
    EXPECT_EQ(made.error().code(), Errc::invalid_argument);
    return std::string(made.error().message());
  };
  const std::string with_zero("ipc://a\0b", 9);
  for (const std::string_view endpoint :
       {std::string_view(), std::string_view(""), std::string_view("5557"),
        std::string_view("tcp:/x"), std::string_view("inproc://x"), std::string_view("pgm://x"),
        std::string_view(with_zero)}) {
    EXPECT_THAT(refusal({.endpoint = endpoint}), HasSubstr("endpoint is"));
    if (endpoint.empty()) continue;
    EXPECT_THAT(refusal({.endpoint = socket_in(folder, "x"), .replay_endpoint = endpoint}),
                HasSubstr("replay_endpoint is"));
  }
  for (const char* endpoint : {"tcp://*", "tcp://*:", "tcp://*:65536", "tcp://*:-1", "tcp://*:x1"})
    EXPECT_THAT(refusal({.endpoint = endpoint}), HasSubstr("PORT 0 .. 65535"));
  EXPECT_THAT(refusal({.endpoint = "tcp://no host*:1"}), HasSubstr("one that can be bound"));
  EXPECT_THAT(refusal({.endpoint = "tcp://*:1", .attach = SocketAttach::connect}),
              HasSubstr("one that can be connected"));
  EXPECT_THAT(refusal({.endpoint = "ipc://" + std::string(300, 'x')}), HasSubstr("be bound"));
  EXPECT_THAT(refusal({.endpoint = "ipc://" + std::string(2000, 'x')}),
              HasSubstr("at most 1024 bytes"));
  EXPECT_EQ(EventPublisher::create({.endpoint = "ipc:///no/such/folder/x"}).error().code(),
            Errc::io);

  EventPublisher publisher = EventPublisher::create({.endpoint = "tcp://127.0.0.1:*",
                                                     .replay_endpoint = "tcp://127.0.0.1:*"})
                                 .value();
  EXPECT_THAT(std::string(publisher.endpoint()), HasSubstr("tcp://127.0.0.1:"));
  const Result<EventPublisher> second =
      EventPublisher::create({.endpoint = publisher.endpoint(), .attach = SocketAttach::bind});
  EXPECT_EQ(second.error().code(), Errc::busy);
  EXPECT_THAT(std::string(second.error().message()), HasSubstr("in use"));
  std::string anywhere(publisher.endpoint());
  anywhere.replace(anywhere.find("127.0.0.1"), 9, "0.0.0.0");
  EXPECT_EQ(EventPublisher::create({.endpoint = anywhere}).error().code(), Errc::busy) << "binds";
  EXPECT_EQ(EventPublisher::create(
                {.endpoint = "tcp://127.0.0.1:*", .replay_endpoint = publisher.replay_endpoint()})
                .error()
                .code(),
            Errc::busy);
}

TEST(EventPublisher, refuses_options_that_cannot_be) {
  const TemporaryFolder folder;
  const std::string endpoint = socket_in(folder, "pub");
  const auto refusal = [&](EventPublisherOptions options) {
    options.endpoint = endpoint;
    const Result<EventPublisher> made = EventPublisher::create(options);
    EXPECT_EQ(made.error().code(), Errc::invalid_argument);
    return std::string(made.error().message());
  };
  EXPECT_THAT(refusal({.topic = std::string_view(nullptr, 5)}), HasSubstr("topic has 5 bytes"));
  EXPECT_THAT(refusal({.topic = std::string(1025, 't')}), HasSubstr("topic has 1025 bytes"));
  EXPECT_THAT(refusal({.high_water_mark = 0}), HasSubstr("high_water_mark is 0"));
  EXPECT_THAT(refusal({.replay_batches = -1}), HasSubstr("replay_batches is -1"));
  EXPECT_THAT(refusal({.replay_bytes = -1}), HasSubstr("replay_bytes is -1"));
  EXPECT_THAT(refusal({.max_queued_events = 0}), HasSubstr("max_queued_events is 0"));
  EXPECT_THAT(refusal({.max_queued_events = std::numeric_limits<int32_t>::max()}),
              HasSubstr("max_queued_events is 2147483647"));
  EXPECT_THAT(refusal({.interval_ms = 0}), HasSubstr("interval_ms is 0"));
  EXPECT_THAT(refusal({.data_parallel_rank = -1}), HasSubstr("data_parallel_rank is -1"));
  EXPECT_THAT(refusal({.attach = static_cast<SocketAttach>(3)}), HasSubstr("attach is 3"));
  EXPECT_THAT(refusal({.format = static_cast<EventFormat>(9)}), HasSubstr("format is 9"));
  EXPECT_THAT(refusal({.names = static_cast<NameForm>(2)}), HasSubstr("names is 2"));

  EventPublisher publisher = EventPublisher::create({.endpoint = endpoint}).value();
  const auto place = [&](std::string_view medium) {
    const Status refused = publisher.add_tier(medium).error();
    EXPECT_EQ(refused.code(), Errc::invalid_argument);
    return std::string(refused.message());
  };
  EXPECT_THAT(place({}), HasSubstr("medium has 0 bytes"));
  EXPECT_THAT(place(std::string(65, 'm')), HasSubstr("medium has 65 bytes"));
  EXPECT_TRUE(publisher.add_pool());
  EXPECT_THAT(place("GPU"), HasSubstr("expected one that no place has yet"));
  for (int i = 1; i < EventPublisher::max_places; ++i)
    EXPECT_TRUE(publisher.add_tier(std::to_string(i)));
  EXPECT_THAT(place("one more"), HasSubstr("beyond the 8 places"));
  EXPECT_EQ(publisher.add_pool("9").error().code(), Errc::invalid_argument);
}

}  // namespace
}  // namespace folio::test
