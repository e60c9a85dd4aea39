// SPDX-License-Identifier: Apache-2.0
/// tier/events/event_publisher.cpp: what pools and tiers say, noted for the publisher's thread.
#include "folio/tier/event_publisher.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

#include "tier/checks.h"
#include "tier/events/publisher_thread.h"
#include "tier/events/speaker.h"

namespace folio::inline v1::tier {

using tier::EventPlace;
using tier::Ledger;
using tier::NoteQueue;
using tier::Retelling;
using tier::Speaker;

namespace {

constexpr auto creating = "EventPublisher::create";
constexpr auto telling_again = "EventPublisher::tell_again";
constexpr int linger_ms = 500;
/// Answers beyond these wait for nobody: the receiver's request ends there.
constexpr int32_t waiting_answers = 4096;

struct FileCloser {
  int file = -1;
  ~FileCloser() {
    if (file >= 0) close(file);
  }
};

Status check(const EventPublisherOptions& o) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (Status s = tier::check_sockets(creating, o.endpoint, o.replay_endpoint, o.topic); !s.is_ok())
    return s;
  const tier::Range ranges[] = {
      {"attach", static_cast<int64_t>(o.attach), 0, 2},
      {"high_water_mark", o.high_water_mark, 1, most},
      {"replay_batches", o.replay_batches, 0, most},
      {"replay_bytes", o.replay_bytes, 0, std::numeric_limits<int64_t>::max()},
      {"max_queued_events", o.max_queued_events, 1, 1 << 24},
      {"interval_ms", o.interval_ms, 1, 10'000},
      {"data_parallel_rank", o.data_parallel_rank, 0, most},
      {"format", static_cast<int64_t>(o.format), 0, 1},
      {"names", static_cast<int64_t>(o.names), 0, 1},
  };
  return tier::check_ranges(creating, ranges);
}

/// What events say of groups.
Status check_groups(const char* call, std::span<const GroupOptions> groups) {
  if (Status s = check_memory(call, "groups", groups.data(), groups.size()); !s.is_ok()) return s;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].rule > (i == 0 ? GroupRule::full : GroupRule::state))
      return fail(Errc::invalid_argument, "{}: groups[{}].rule is {}, expected {}", call, i,
                  static_cast<int>(groups[i].rule), i == 0 ? "full (0)" : "0 .. 3");
    if (groups[i].rule == GroupRule::window && groups[i].window < 1)
      return fail(Errc::invalid_argument, "{}: groups[{}].window is {}, expected 1 or more", call,
                  i, groups[i].window);
  }
  return {};
}

bool binds(const EventPublisherOptions& o) {
  if (o.attach != SocketAttach::automatic) return o.attach == SocketAttach::bind;
  const auto has = [&](std::string_view some) { return o.endpoint.find(some) != o.endpoint.npos; };
  return has("*") || has("::") || has("//0.0.0.0:") || o.endpoint.starts_with("ipc://");
}

}  // namespace

struct EventPublisher::State {
  explicit State(const EventPublisherOptions& options)
      : queue(static_cast<size_t>(options.max_queued_events)) {}
  ~State() {
    closing.store(true);
    flush();
    if (thread.joinable()) thread.join();
  }
  void flush() const noexcept {
    const uint64_t one = 1;
    static_cast<void>(!write(wake.file, &one, sizeof one));
  }
  [[nodiscard]] Status open(const EventPublisherOptions& options, tier::PublisherSockets& sockets);
  [[nodiscard]] Result<Speaker*> add(const char* call, EventPlace place);
  /// To tell again of one that was added.
  [[nodiscard]] Result<const Speaker*> speaker_of(std::string_view medium, bool is_pool);

  tier::ZmqContext context;
  NoteQueue queue;
  tier::AdapterNames adapters{max_adapters};
  Ledger::Places places;
  std::array<Speaker, max_places> speakers;
  size_t num_places = 0;
  std::mutex adding;
  std::string endpoint, replay_endpoint;
  FileCloser wake;
  std::atomic<bool> closing = false;
  std::atomic<int64_t> unnamed_events = 0;
  std::unique_ptr<tier::PublisherThread> work;
  std::thread thread;
};

Status EventPublisher::State::open(const EventPublisherOptions& options,
                                   tier::PublisherSockets& sockets) {
  using Way = tier::ZmqSocket::Way;
  Result<tier::ZmqSocket> publish = tier::ZmqSocket::open(context, ZMQ_PUB);
  if (!publish) return publish.error();
  publish->set(ZMQ_SNDHWM, options.high_water_mark);
  publish->set(ZMQ_LINGER, linger_ms);
  const Way way = binds(options) ? Way::bind : Way::connect;
  if (Status s = publish->attach(way, std::string(options.endpoint), creating, "endpoint");
      !s.is_ok())
    return s;
  endpoint = publish->last_endpoint();
  sockets.publish = std::move(*publish);
  if (options.replay_endpoint.empty()) return {};
  Result<tier::ZmqSocket> replay = tier::ZmqSocket::open(context, ZMQ_ROUTER);
  if (!replay) return replay.error();
  // A request has 8 bytes; who asks for more than is sent to him waits for no more.
  replay->set(ZMQ_MAXMSGSIZE, int64_t{256});
  replay->set(ZMQ_SNDHWM, std::max(waiting_answers, options.replay_batches / 2 * 3));
  replay->set(ZMQ_ROUTER_MANDATORY, 1);
  if (Status s = replay->attach(Way::bind, std::string(options.replay_endpoint), creating,
                                "replay_endpoint");
      !s.is_ok())
    return s;
  replay_endpoint = replay->last_endpoint();
  sockets.replay = std::move(*replay);
  return {};
}

Result<EventPublisher> EventPublisher::create(const EventPublisherOptions& options) noexcept {
  if (Status s = check(options); !s.is_ok()) return s;
  if (Status s = tier::load_zmq(creating); !s.is_ok()) return s;
  try {
    auto state = std::make_unique<State>(options);
    state->wake.file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (state->wake.file < 0)
      return fail(Errc::io, "{}: no eventfd to be had: {}", creating, std::strerror(errno));
    tier::PublisherSockets sockets;
    if (Status s = state->open(options, sockets); !s.is_ok()) return s;
    state->work = std::make_unique<tier::PublisherThread>(
        options, std::move(sockets), state->places, state->adapters, state->queue);
    state->thread = std::thread([s = state.get()] { s->work->run(s->wake.file, s->closing); });
    return EventPublisher(state.release());
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "{}: no memory for {} events", creating,
                options.max_queued_events);
  } catch (const std::system_error& e) {
    return fail(Errc::io, "{}: no thread to be had: {}", creating, e.what());
  }
}

EventPublisher::~EventPublisher() { delete state_; }

// ---- Places

Result<Speaker*> EventPublisher::State::add(const char* call, EventPlace place) {
  const std::string& medium = place.medium;
  const std::lock_guard lock(adding);
  for (size_t i = 0; i < num_places; ++i)
    if (places[i].medium == medium)
      return fail(Errc::invalid_argument, "{}: medium is {}, expected one that no place has yet",
                  call, medium);
  if (num_places == places.size())
    return fail(Errc::invalid_argument,
                "{}: {} is beyond the {} places that a publisher has, expected "
                "another publisher",
                call, medium, max_places);
  places[num_places] = std::move(place);
  Speaker& speaker = speakers[num_places];
  speaker = {&queue, &unnamed_events, static_cast<uint8_t>(num_places)};
  ++num_places;
  return &speaker;
}

Result<const Speaker*> EventPublisher::State::speaker_of(std::string_view medium, bool is_pool) {
  if (Status s = tier::check_label(telling_again, "medium", medium); !s.is_ok()) return s;
  const std::lock_guard lock(adding);
  for (size_t i = 0; i < num_places; ++i)
    if (places[i].is_pool == is_pool && places[i].medium == medium) return &speakers[i];
  return fail(Errc::invalid_argument, "{}: medium is {}, expected one of {}", telling_again, medium,
              is_pool ? "add_pool" : "add_tier");
}

Result<EventFunction> EventPublisher::add_pool(std::string_view medium,
                                               std::span<const GroupOptions> groups) noexcept {
  constexpr auto call = "EventPublisher::add_pool";
  if (state_ == nullptr) return tier::moved_from(call);
  if (Status s = check_groups(call, groups); !s.is_ok()) return s;
  if (Status s = tier::check_label(call, "medium", medium); !s.is_ok()) return s;
  try {
    const Result<Speaker*> speaker =
        state_->add(call, {std::string(medium), true, {groups.begin(), groups.end()}});
    if (!speaker) return speaker.error();
    return EventFunction{Speaker::hear, *speaker};
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "EventPublisher::add_pool: no memory");
  }
}

Result<TierObserver> EventPublisher::add_tier(std::string_view medium) noexcept {
  constexpr auto call = "EventPublisher::add_tier";
  if (state_ == nullptr) return tier::moved_from(call);
  if (Status s = tier::check_label(call, "medium", medium); !s.is_ok()) return s;
  try {
    const Result<Speaker*> speaker = state_->add(call, {std::string(medium), false});
    if (!speaker) return speaker.error();
    return TierObserver{Speaker::watch, *speaker};
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "EventPublisher::add_tier: no memory");
  }
}

// ---- What a pool has

namespace {

/// Snapshots tell contents in no order, and of parents the contents alone.
struct Gathering {
  const Speaker& speaker;
  std::unique_ptr<Retelling> retelling = std::make_unique<Retelling>();
  std::vector<uint64_t> parents = {};  ///< of each note
  std::map<uint64_t, PageName> names = {};
  bool is_short_of_memory = false;

  static void visit(void* self, const PoolEvent& event, std::span<const TokenId> tokens) noexcept {
    auto& gathering = *static_cast<Gathering*>(self);
    if (!Speaker::is_named(event)) return;
    try {
      if (event.group == 0) gathering.names.emplace(event.content, event.name);
      gathering.parents.push_back(event.parent);
      Retelling& retelling = *gathering.retelling;
      retelling.notes.push_back(gathering.speaker.note_of(event));
      retelling.notes.back().num_tokens = static_cast<uint32_t>(tokens.size());
      retelling.tokens.insert(retelling.tokens.end(), tokens.begin(), tokens.end());
    } catch (const std::bad_alloc&) {
      gathering.is_short_of_memory = true;
    }
  }
  void name_parents() {
    for (size_t i = 0; i < parents.size(); ++i) {
      const auto at = names.find(parents[i]);
      if (at == names.end() || retelling->notes[i].group != 0) continue;
      retelling->notes[i].has_parent = true;
      retelling->notes[i].parent = at->second;
    }
  }
};

}  // namespace

Status EventPublisher::tell_again(const PagePool& pool, std::string_view medium) noexcept {
  if (state_ == nullptr) return tier::moved_from(telling_again);
  const Result<const Speaker*> found = state_->speaker_of(medium, true);
  if (!found) return found.error();
  const Speaker* const speaker = *found;
  try {
    Gathering gathering{*speaker};
    if (const Result<uint64_t> last = pool.snapshot({Gathering::visit, &gathering}); !last)
      return last.error();
    if (gathering.is_short_of_memory) throw std::bad_alloc();
    gathering.name_parents();
    state_->queue.put(speaker->place, std::move(gathering.retelling));
    return {};
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "{}: no memory for {} pages", telling_again, pool.num_pages());
  }
}

// ---- What a tier has

namespace {

/// Goes into the queue while the tier is locked: no change is noted between.
struct NamesOfTier {
  NoteQueue& queue;
  uint8_t place = 0;
  bool is_short_of_memory = false;

  static void visit(void* self, std::span<const PageName> names) noexcept {
    auto& to = *static_cast<NamesOfTier*>(self);
    try {
      auto retelling = std::make_unique<Retelling>();
      retelling->names.assign(names.begin(), names.end());
      std::ranges::sort(retelling->names);
      to.queue.put(to.place, std::move(retelling));
    } catch (const std::bad_alloc&) {
      to.is_short_of_memory = true;
    }
  }
};

}  // namespace

Status EventPublisher::tell_again(Tier& tier, std::string_view medium) noexcept {
  if (state_ == nullptr) return tier::moved_from(telling_again);
  const Result<const Speaker*> speaker = state_->speaker_of(medium, false);
  if (!speaker) return speaker.error();
  NamesOfTier names{state_->queue, (*speaker)->place};
  if (Status s = tier.visit_names({NamesOfTier::visit, &names}); !s.is_ok()) return s;
  if (!names.is_short_of_memory) return {};
  return fail(Errc::out_of_memory, "{}: no memory for the names of {}", telling_again, medium);
}

// ---- Adapters

Status EventPublisher::name_adapter(uint64_t adapter, std::string_view lora_name) noexcept {
  constexpr auto call = "EventPublisher::name_adapter";
  if (state_ == nullptr) return tier::moved_from(call);
  if (adapter == 0) return fail(Errc::invalid_argument, "{}: adapter is 0, which is none", call);
  const bool is_null = lora_name.data() == nullptr && !lora_name.empty();
  if (is_null || lora_name.size() > 256 ||
      !std::ranges::all_of(lora_name, [](char c) { return c >= ' ' && c <= '~'; }))
    return fail(Errc::invalid_argument,
                "{}: lora_name has {} bytes, expected at most 256 printable characters of ASCII",
                call, lora_name.size());
  try {
    if (state_->adapters.put(adapter, lora_name)) return {};
    return fail(Errc::invalid_argument, "{}: {} adapters have a name, expected no more", call,
                max_adapters);
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "{}: no memory", call);
  }
}

// ---- The rest

void EventPublisher::flush() noexcept {
  if (state_ != nullptr) state_->flush();
}

std::string_view EventPublisher::endpoint() const noexcept {
  return state_ == nullptr ? std::string_view() : state_->endpoint;
}

std::string_view EventPublisher::replay_endpoint() const noexcept {
  return state_ == nullptr ? std::string_view() : state_->replay_endpoint;
}

EventPublisherFigures EventPublisher::figures() const noexcept {
  if (state_ == nullptr) return {};
  EventPublisherFigures figures = state_->work->figures();
  figures.unnamed_events = state_->unnamed_events.load(std::memory_order_relaxed);
  return figures;
}

}  // namespace folio::inline v1::tier
