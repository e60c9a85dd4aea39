// SPDX-License-Identifier: Apache-2.0
/// tests/tier/without_libraries_test.cpp: what stands for a medium whose library is missing says
/// so. It is compiled here whatever there is, and the library has no part in this program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "folio/tier/event_publisher.h"
#include "folio/tier/event_subscriber.h"
#include "folio/tier/prometheus.h"
#include "folio/tier/redis_tier.h"
#include "folio/tier/transports.h"
#include "tier/disk/plain_file_io.h"

namespace folio::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A reference that the linker has to satisfy.
template <typename Function>
void refer_to(Function function) {
  const volatile Function kept = function;
  EXPECT_TRUE(kept != nullptr);
}

TEST(WithoutLibraries, tiers_in_redis_name_hiredis_and_openssl) {
  const auto refused = AllOf(StartsWith("make_redis_tier: "), HasSubstr("hiredis"),
                             HasSubstr("OpenSSL"), HasSubstr("libhiredis-dev, libssl-dev"));
  for (const Status& s : {make_redis_tier(RedisOptions{}, TierOptions{}).error(),
                          make_redis_tier("redis://localhost", TierOptions{}).error(),
                          make_redis_tier("no URL", TierOptions{}).error()}) {
    EXPECT_EQ(s.code(), Errc::unsupported);
    EXPECT_THAT(s.message(), refused);
  }
}

TEST(WithoutLibraries, the_transport_names_ucx) {
  const Status s = make_ucx_transport().error();
  EXPECT_EQ(s.code(), Errc::unsupported);
  EXPECT_THAT(s.message(), AllOf(StartsWith("make_ucx_transport: "), HasSubstr("libucx-dev")));
}

TEST(WithoutLibraries, publisher_index_and_subscriber_name_zeromq_and_nlohmann_json) {
  const auto refused = AllOf(HasSubstr("ZeroMQ"), HasSubstr("nlohmann-json"),
                             HasSubstr("libzmq3-dev, nlohmann-json3-dev"));
  const Status publisher = EventPublisher::create().error();
  EXPECT_EQ(publisher.code(), Errc::unsupported);
  EXPECT_THAT(publisher.message(), AllOf(StartsWith("EventPublisher::create: "), refused));
  const Status index = EventIndex::create().error();
  EXPECT_EQ(index.code(), Errc::unsupported);
  EXPECT_THAT(index.message(), AllOf(StartsWith("EventIndex::create: "), refused));
  const Status subscriber = EventSubscriber::create().error();
  EXPECT_EQ(subscriber.code(), Errc::unsupported);
  EXPECT_THAT(subscriber.message(), AllOf(StartsWith("EventSubscriber::create: "), refused));
}

// Nobody has an object to call these of; programs that call them link all the same.
TEST(WithoutLibraries, every_call_of_the_stream_of_events_links) {
  refer_to(&EventPublisher::add_pool);
  refer_to(&EventPublisher::add_tier);
  refer_to<Status (EventPublisher::*)(const PagePool&, std::string_view) noexcept>(
      &EventPublisher::tell_again);
  refer_to<Status (EventPublisher::*)(Tier&, std::string_view) noexcept>(
      &EventPublisher::tell_again);
  refer_to(&EventPublisher::name_adapter);
  refer_to(&EventPublisher::flush);
  refer_to(&EventPublisher::endpoint);
  refer_to(&EventPublisher::replay_endpoint);
  refer_to(&EventPublisher::figures);

  using Names = std::span<const PageName>;
  refer_to<int32_t (EventIndex::*)(Names) const noexcept>(&EventIndex::find);
  refer_to<int32_t (EventIndex::*)(Names, std::string_view) const noexcept>(&EventIndex::find);
  refer_to(&EventIndex::apply);
  refer_to(&EventIndex::clear);
  refer_to(&EventIndex::num_media);
  refer_to(&EventIndex::medium);
  refer_to(&EventIndex::num_groups);
  refer_to(&EventIndex::group);
  refer_to(&EventIndex::visit);
  refer_to(&EventIndex::figures);

  refer_to(&EventSubscriber::poll);
  refer_to(&EventSubscriber::is_current);
  refer_to(&EventSubscriber::next_batch);
  refer_to(&EventSubscriber::index);
  refer_to(&EventSubscriber::figures);
}

TEST(WithoutLibraries, the_exposition_names_prometheus_cpp) {
  const Status s = prometheus_text({}).error();
  EXPECT_EQ(s.code(), Errc::unsupported);
  EXPECT_THAT(s.message(), AllOf(StartsWith("prometheus_text: "), HasSubstr("prometheus-cpp-dev")));
}

// A tier that does so: tests/cli/without_libraries_test.py.
TEST(WithoutLibraries, files_are_read_and_written_by_the_systems_own_calls) {
  EXPECT_EQ(tier::make_uring_file_io(2, 0), nullptr);
  const auto io = tier::make_file_io(2, 0);
  EXPECT_NE(dynamic_cast<tier::PlainFileIo*>(io.get()), nullptr);
}

}  // namespace
}  // namespace folio::test
