// SPDX-License-Identifier: Apache-2.0
/// tier/events/no_events.cpp: publisher, index and subscriber where there is no ZeroMQ or no
/// nlohmann-json.
#include "folio/tier/event_publisher.h"
#include "folio/tier/event_subscriber.h"

namespace folio::inline v1::tier {
namespace {

Status refusal(const char* call) {
  return fail(Errc::unsupported,
              "{}: this build has no ZeroMQ or no nlohmann-json (Debian: libzmq3-dev, "
              "nlohmann-json3-dev)",
              call);
}

}  // namespace

// Nobody has an object of these classes.
struct EventPublisher::State {};
struct EventIndex::State {};
struct EventSubscriber::State {
  EventIndex index;
};

Result<EventPublisher> EventPublisher::create(const EventPublisherOptions&) noexcept {
  return refusal("EventPublisher::create");
}
EventPublisher::~EventPublisher() { delete state_; }
Result<EventFunction> EventPublisher::add_pool(std::string_view,
                                               std::span<const GroupOptions>) noexcept {
  return refusal("EventPublisher::add_pool");
}
Result<TierObserver> EventPublisher::add_tier(std::string_view) noexcept {
  return refusal("EventPublisher::add_tier");
}
Status EventPublisher::tell_again(const PagePool&, std::string_view) noexcept {
  return refusal("EventPublisher::tell_again");
}
Status EventPublisher::tell_again(Tier&, std::string_view) noexcept {
  return refusal("EventPublisher::tell_again");
}
Status EventPublisher::name_adapter(uint64_t, std::string_view) noexcept {
  return refusal("EventPublisher::name_adapter");
}
void EventPublisher::flush() noexcept {}
std::string_view EventPublisher::endpoint() const noexcept { return {}; }
std::string_view EventPublisher::replay_endpoint() const noexcept { return {}; }
EventPublisherFigures EventPublisher::figures() const noexcept { return {}; }

Result<EventIndex> EventIndex::create(const EventIndexOptions&) noexcept {
  return refusal("EventIndex::create");
}
EventIndex::~EventIndex() { delete state_; }
Status EventIndex::apply(std::span<const std::byte>) noexcept {
  return refusal("EventIndex::apply");
}
void EventIndex::clear() noexcept {}
int32_t EventIndex::find(std::span<const PageName>) const noexcept { return 0; }
int32_t EventIndex::find(std::span<const PageName>, std::string_view) const noexcept { return 0; }
int32_t EventIndex::num_media() const noexcept { return 0; }
std::string_view EventIndex::medium(int32_t) const noexcept { return {}; }
int32_t EventIndex::num_groups() const noexcept { return 0; }
IndexedGroup EventIndex::group(int32_t) const noexcept { return {}; }
void EventIndex::visit(void (*)(void*, const IndexedName&) noexcept, void*) const noexcept {}
EventIndexFigures EventIndex::figures() const noexcept { return {}; }

Result<EventSubscriber> EventSubscriber::create(const EventSubscriberOptions&) noexcept {
  return refusal("EventSubscriber::create");
}
EventSubscriber::~EventSubscriber() { delete state_; }
Status EventSubscriber::poll(int32_t) noexcept { return refusal("EventSubscriber::poll"); }
bool EventSubscriber::is_connected() const noexcept { return false; }
bool EventSubscriber::is_current() const noexcept { return true; }
uint64_t EventSubscriber::next_batch() const noexcept { return 0; }
const EventIndex& EventSubscriber::index() const noexcept { return state_->index; }
EventSubscriberFigures EventSubscriber::figures() const noexcept { return {}; }

}  // namespace folio::inline v1::tier
