// SPDX-License-Identifier: Apache-2.0
/// tests/tier/hostile/events_test.cpp: callers who give publishers, indices and subscribers what
/// they cannot use, or have moved them away.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folio/names/sha256_names.h"
#include "folio/tier/event_publisher.h"
#include "folio/tier/host_tier.h"
#include "tier/events/event_helpers.h"
#include "tier/events/wire.h"
#include "tier/hostile/refusals.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using tier::IndexedGroup;

// ---- Indices

/// Has a name, of a medium.
EventIndex filled_index() {
  EventIndex index = std::move(EventIndex::create()).value();
  tier::BatchWriter writer(EventFormat::maps, NameForm::bytes);
  writer.stored(name_of(1), {}, "GPU");
  const std::vector<uint8_t> batch = writer.finish(1, 0);
  index.apply(std::as_bytes(std::span(batch))).or_throw();
  return index;
}

TEST(HostileEventIndex, is_not_made_of_options_that_cannot_be) {
  for (const int64_t names : {least_int64, int64_t{-1}, int64_t{0}})
    expect_refusal(EventIndex::create({.max_names = names}), "max_names is ");
  for (const int32_t media : {least_int32, -1, 0, 33, most_int32})
    expect_refusal(EventIndex::create({.max_media = media}), "max_media is ");
  EXPECT_TRUE(EventIndex::create({.max_names = most_int64, .max_media = 32}));
  for (const int32_t tokens : {least_int32, -1})
    expect_refusal(EventIndex::create({.block_size = tokens}), "block_size is ");
  EXPECT_TRUE(EventIndex::create({.block_size = most_int32}));
  expect_refusal(EventIndex::create({.groups = null_span<const IndexedGroup>()}),
                 "EventIndex::create: groups is null");
  const auto refuses = [](const char* part, IndexedGroup group) {
    expect_refusal(EventIndex::create({.groups = {&group, 1}}), part);
  };
  for (const int32_t bad : {least_int32, -1, EventIndex::max_groups, most_int32})
    refuses("groups has group ", {.group = bad, .has_rule = true});
  refuses("no rule of group 0", {.has_rule = false});
  refuses("no rule of group 0", {.rule = static_cast<GroupRule>(4), .has_rule = true});
  for (const int32_t bad : {least_int32, -1, 0}) {
    refuses("window of group 0 is ", {.rule = GroupRule::window, .has_rule = true, .window = bad});
    refuses("chunk of group 0 is ", {.rule = GroupRule::chunked, .has_rule = true, .chunk = bad});
    if (bad != 0) refuses("block_size of group 0 is ", {.has_rule = true, .block_size = bad});
  }
  const IndexedGroup largest{
      .rule = GroupRule::window, .has_rule = true, .window = most_int32, .block_size = most_int32};
  EXPECT_TRUE(EventIndex::create({.groups = {&largest, 1}}));
}

TEST(HostileEventIndex, bears_what_is_nowhere) {
  EventIndex index = filled_index();
  expect_refusal(index.apply(null_span<const std::byte>()),
                 "EventIndex::apply: payload is null, expected memory of size 3");
  expect_refusal(index.apply({}), "EventIndex::apply: 0 bytes are no batch");
  const PageName names[] = {name_of(1)};
  EXPECT_EQ(index.find(null_span<const PageName>()), 0);
  EXPECT_EQ(index.find(null_span<const PageName>(), "GPU"), 0);
  EXPECT_EQ(index.find(names, null_text()), 0);
  EXPECT_EQ(index.find(names, {}), 0);
  EXPECT_EQ(index.find(names, cut_text), 0);
  for (const int32_t i : {least_int32, -1, 1, most_int32}) {
    EXPECT_EQ(index.medium(i), "");
    EXPECT_FALSE(index.group(i).has_rule);
  }
  EXPECT_EQ(index.num_groups(), 1);
  EXPECT_TRUE(index.group(0).has_rule);
  index.visit(nullptr, nullptr);
  EXPECT_EQ(index.find(names, "GPU"), 1);
  EXPECT_EQ(index.num_media(), 1);
}

void expect_nothing(const EventIndex& index) {
  const PageName names[] = {name_of(1)};
  EXPECT_EQ(index.find(names), 0);
  EXPECT_EQ(index.find(names, "GPU"), 0);
  EXPECT_EQ(index.num_media(), 0);
  EXPECT_EQ(index.medium(0), "");
  EXPECT_EQ(index.num_groups(), 0);
  EXPECT_FALSE(index.group(0).has_rule);
  EXPECT_EQ(index.figures(), EventIndexFigures());
  index.visit([](void*, const IndexedName&) noexcept { ADD_FAILURE() << "a name"; }, nullptr);
}

TEST(HostileEventIndex, that_was_moved_from_has_nothing) {
  EventIndex index = filled_index();
  EventIndex other = std::move(index);
  expect_nothing(index);
  expect_refusal(index.apply({}), "EventIndex::apply: the object was moved from");
  index.clear();
  index = std::move(other);
  EXPECT_EQ(index.figures().names, 1);
  expect_nothing(other);
}

// ---- Publishers

class HostilePublisher : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string endpoint_ = socket_in(folder_, "pub"), replay_ = socket_in(folder_, "replay");
  EventPublisher publisher_ =
      std::move(EventPublisher::create({.endpoint = endpoint_, .replay_endpoint = replay_}))
          .value();
  Sha256Names names_ = Sha256Names::create().value();
  PagePool make_pool() {
    return std::move(PagePool::create({.num_pages = 4,
                                       .page_size = 2,
                                       .max_sequences = 2,
                                       .name = names_.function(),
                                       .event_capacity = 4}))
        .value();
  }
};

TEST_F(HostilePublisher, is_not_made_of_options_that_cannot_be) {
  const std::string at = socket_in(folder_, "other");
  const auto refuses = [&](const char* part, const auto& change) {
    EventPublisherOptions options{.endpoint = at};
    change(options);
    expect_refusal(EventPublisher::create(options), part);
  };
  for (const std::string_view bad : {null_text(), std::string_view(), cut_text}) {
    refuses("endpoint is ", [&](auto& o) { o.endpoint = bad; });
    if (!bad.empty()) refuses("replay_endpoint is ", [&](auto& o) { o.replay_endpoint = bad; });
  }
  const std::string longer = "ipc://" + std::string(2000, 'e');
  refuses("endpoint is ", [&](auto& o) { o.endpoint = longer; });
  refuses("topic has 3 bytes", [](auto& o) { o.topic = null_text(); });
  refuses("topic has 2006 bytes", [&](auto& o) { o.topic = longer; });
  for (const int32_t bad : {least_int32, -1}) {
    refuses("replay_batches is ", [&](auto& o) { o.replay_batches = bad; });
    refuses("replay_bytes is ", [&](auto& o) { o.replay_bytes = bad; });
    refuses("data_parallel_rank is ", [&](auto& o) { o.data_parallel_rank = bad; });
    refuses("high_water_mark is ", [&](auto& o) { o.high_water_mark = bad; });
  }
  refuses("high_water_mark is 0", [](auto& o) { o.high_water_mark = 0; });
  for (const int32_t bad : {least_int32, -1, 0, most_int32}) {
    refuses("max_queued_events is ", [&](auto& o) { o.max_queued_events = bad; });
    refuses("interval_ms is ", [&](auto& o) { o.interval_ms = bad; });
  }
  refuses("attach is 255", [](auto& o) { o.attach = static_cast<SocketAttach>(255); });
  refuses("format is 255", [](auto& o) { o.format = static_cast<EventFormat>(255); });
  refuses("names is 255", [](auto& o) { o.names = static_cast<NameForm>(255); });
}

TEST_F(HostilePublisher, has_places_that_routers_can_read) {
  const PagePool pool = make_pool();
  const std::string longer(65, 'm');
  const std::string_view bad[] = {null_text(), {},         cut_text, "a\nb",
                                  "\xff\xfe",  "\xc3\xa4", longer};
  for (const std::string_view medium : bad) {
    expect_refusal(publisher_.add_pool(medium), "EventPublisher::add_pool: medium has ");
    expect_refusal(publisher_.add_tier(medium), "EventPublisher::add_tier: medium has ");
    expect_refusal(publisher_.tell_again(pool, medium), "EventPublisher::tell_again: medium has ");
  }
  ASSERT_TRUE(publisher_.add_pool());
  expect_refusal(publisher_.add_pool(), "medium is GPU, expected one that no place has yet");
  expect_refusal(publisher_.tell_again(pool, "CPU"), "medium is CPU, expected one of add_pool");
  EXPECT_TRUE(publisher_.add_tier("CPU"));
  EXPECT_TRUE(publisher_.tell_again(pool).is_ok());
}

TEST_F(HostilePublisher, has_names_of_adapters_that_routers_can_read) {
  const std::string longer(257, 'n');
  const std::string_view bad[] = {null_text(), cut_text, "a\nb", "\xff\xfe", "\xc3\xa4", longer};
  for (const std::string_view name : bad)
    expect_refusal(publisher_.name_adapter(1, name),
                   "EventPublisher::name_adapter: lora_name has ");
  expect_refusal(publisher_.name_adapter(0, "none"), "adapter is 0");
  EXPECT_TRUE(publisher_.name_adapter(UINT64_MAX, "").is_ok());
  EXPECT_TRUE(publisher_.name_adapter(UINT64_MAX, std::string(256, 'n')).is_ok());
}

TEST_F(HostilePublisher, tells_nothing_of_a_tier_that_is_none_of_its_own) {
  const std::unique_ptr<Tier> tier = make_host_tier({.max_bytes = 1 << 20}).value();
  ASSERT_TRUE(publisher_.add_pool());
  ASSERT_TRUE(publisher_.add_tier("CPU"));
  for (const std::string_view medium : {"GPU", "STORAGE"})
    expect_refusal(publisher_.tell_again(*tier, medium), "expected one of add_tier");
  for (const std::string_view medium : {null_text(), std::string_view(), cut_text})
    expect_refusal(publisher_.tell_again(*tier, medium), "EventPublisher::tell_again: medium has ");
  EXPECT_TRUE(publisher_.tell_again(*tier, "CPU").is_ok());
}

TEST_F(HostilePublisher, tells_nothing_of_a_pool_that_was_moved_from) {
  PagePool pool = make_pool();
  ASSERT_TRUE(publisher_.add_pool());
  const PagePool taken = std::move(pool);
  EXPECT_EQ(publisher_.tell_again(pool).code(), Errc::invalid_argument);
  EXPECT_TRUE(publisher_.tell_again(taken).is_ok());
}

TEST_F(HostilePublisher, bears_events_that_nobody_tells) {
  const EventFunction pool = publisher_.add_pool().value();
  const TierObserver tier = publisher_.add_tier("CPU").value();
  const PageName name = name_of(1);
  tier.function(tier.context, TierChange::stored, null_span<const PageName>());
  tier.function(tier.context, TierChange::removed, {&name, 1});
  pool.function(pool.context, {.name = name, .has_name = true}, null_span<const TokenId>());
  const auto names = [&] {
    publisher_.flush();
    return publisher_.figures().names;
  };
  ASSERT_TRUE(comes_true([&] { return names() == 1; }));
  EXPECT_EQ(publisher_.figures().dropped_events, 0);
}

TEST_F(HostilePublisher, that_was_moved_from_refuses_every_call) {
  const PagePool pool = make_pool();
  ASSERT_TRUE(publisher_.add_pool());
  EventPublisher other = std::move(publisher_);
  expect_refusal(publisher_.add_pool("A"), "EventPublisher::add_pool: the object was moved from");
  expect_refusal(publisher_.add_tier("A"), "EventPublisher::add_tier: the object was moved from");
  expect_refusal(publisher_.tell_again(pool),
                 "EventPublisher::tell_again: the object was moved from");
  const std::unique_ptr<Tier> tier = make_host_tier({.max_bytes = 1 << 20}).value();
  expect_refusal(publisher_.tell_again(*tier, "CPU"),
                 "EventPublisher::tell_again: the object was moved from");
  expect_refusal(publisher_.name_adapter(1, "n"),
                 "EventPublisher::name_adapter: the object was moved from");
  publisher_.flush();
  EXPECT_EQ(publisher_.endpoint(), "");
  EXPECT_EQ(publisher_.replay_endpoint(), "");
  EXPECT_EQ(publisher_.figures(), EventPublisherFigures());
  publisher_ = std::move(other);
  EXPECT_EQ(publisher_.endpoint(), endpoint_);
  EXPECT_EQ(publisher_.replay_endpoint(), replay_);
  EXPECT_TRUE(publisher_.tell_again(pool).is_ok());
  EXPECT_EQ(other.endpoint(), "");
}

// ---- Subscribers

class HostileSubscriber : public HostilePublisher {};

TEST_F(HostileSubscriber, is_not_made_of_options_that_cannot_be) {
  const auto refuses = [&](const char* part, const auto& change) {
    EventSubscriberOptions options{.endpoint = endpoint_};
    change(options);
    expect_refusal(EventSubscriber::create(options), part);
  };
  for (const std::string_view bad : {null_text(), std::string_view(), cut_text}) {
    refuses("endpoint is ", [&](auto& o) { o.endpoint = bad; });
    if (!bad.empty()) refuses("replay_endpoint is ", [&](auto& o) { o.replay_endpoint = bad; });
  }
  refuses("topic has 3 bytes", [](auto& o) { o.topic = null_text(); });
  for (const int32_t bad : {least_int32, -1, 0}) {
    refuses("high_water_mark is ", [&](auto& o) { o.high_water_mark = bad; });
    refuses("max_message_bytes is ", [&](auto& o) { o.max_message_bytes = bad; });
    refuses("max_held_batches is ", [&](auto& o) { o.max_held_batches = bad; });
    refuses("request_timeout_ms is ", [&](auto& o) { o.request_timeout_ms = bad; });
    refuses("max_names is ", [&](auto& o) { o.index.max_names = bad; });
    refuses("max_media is ", [&](auto& o) { o.index.max_media = bad; });
    if (bad != 0) refuses("idle_check_ms is ", [&](auto& o) { o.idle_check_ms = bad; });
  }
}

TEST_F(HostileSubscriber, waits_for_no_time_that_is_negative) {
  EventSubscriber subscriber = std::move(EventSubscriber::create({.endpoint = endpoint_})).value();
  for (const int32_t ms : {least_int32, -1, 0}) EXPECT_TRUE(subscriber.poll(ms).is_ok());
}

TEST_F(HostileSubscriber, that_was_moved_from_has_nothing) {
  EventSubscriber subscriber =
      std::move(EventSubscriber::create({.endpoint = endpoint_, .replay_endpoint = replay_}))
          .value();
  ASSERT_TRUE(publisher_.add_pool());
  ASSERT_TRUE(comes_true([&] { return subscriber.poll(1).is_ok() && subscriber.is_current(); }));
  const EventSubscriberFigures figures = subscriber.figures();
  EventSubscriber other = std::move(subscriber);
  expect_refusal(subscriber.poll(1), "EventSubscriber::poll: the object was moved from");
  EXPECT_FALSE(subscriber.is_connected());
  EXPECT_TRUE(subscriber.is_current());
  EXPECT_EQ(subscriber.next_batch(), 0U);
  expect_nothing(subscriber.index());
  EXPECT_EQ(subscriber.figures(), EventSubscriberFigures());
  subscriber = std::move(other);
  EXPECT_EQ(subscriber.figures(), figures);
  EXPECT_TRUE(subscriber.poll(0).is_ok());
  expect_nothing(other.index());
}

}  // namespace
}  // namespace folio::test
