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

bool binds(const EventPublisherOptions& o) {
  if (o.attach != SocketAttach::automatic) return o.attach == SocketAttach::bind;
  return o.endpoint.find('*') != std::string_view::npos ||
         o.endpoint.find("::") != std::string_view::npos || o.endpoint.starts_with("ipc://");
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
  [[nodiscard]] Result<Speaker*> add(const char* call, std::string_view medium, bool is_pool);

  tier::ZmqContext context;
  NoteQueue queue;
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
  try {
    auto state = std::make_unique<State>(options);
    state->wake.file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (state->wake.file < 0)
      return fail(Errc::io, "{}: no eventfd to be had: {}", creating, std::strerror(errno));
    tier::PublisherSockets sockets;
    if (Status s = state->open(options, sockets); !s.is_ok()) return s;
    state->work = std::make_unique<tier::PublisherThread>(options, std::move(sockets),
                                                          state->places, state->queue);
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

Result<Speaker*> EventPublisher::State::add(const char* call, std::string_view medium,
                                            bool is_pool) {
  if (Status s = tier::check_label(call, "medium", medium); !s.is_ok()) return s;
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
  places[num_places] = {std::string(medium), is_pool};
  Speaker& speaker = speakers[num_places];
  speaker = {&queue, &unnamed_events, static_cast<uint8_t>(num_places)};
  ++num_places;
  return &speaker;
}

Result<EventFunction> EventPublisher::add_pool(std::string_view medium) noexcept {
  if (state_ == nullptr) return tier::moved_from("EventPublisher::add_pool");
  try {
    const Result<Speaker*> speaker = state_->add("EventPublisher::add_pool", medium, true);
    if (!speaker) return speaker.error();
    return EventFunction{Speaker::hear, *speaker};
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "EventPublisher::add_pool: no memory");
  }
}

Result<TierObserver> EventPublisher::add_tier(std::string_view medium) noexcept {
  if (state_ == nullptr) return tier::moved_from("EventPublisher::add_tier");
  try {
    const Result<Speaker*> speaker = state_->add("EventPublisher::add_tier", medium, false);
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
    if (!event.has_name) return;
    try {
      gathering.names.emplace(event.content, event.name);
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
      if (at == names.end()) continue;
      retelling->notes[i].has_parent = true;
      retelling->notes[i].parent = at->second;
    }
  }
};

}  // namespace

Status EventPublisher::tell_again(const PagePool& pool, std::string_view medium) noexcept {
  if (state_ == nullptr) return tier::moved_from("EventPublisher::tell_again");
  if (Status s = tier::check_label("EventPublisher::tell_again", "medium", medium); !s.is_ok())
    return s;
  const Speaker* speaker = nullptr;
  {
    const std::lock_guard lock(state_->adding);
    for (size_t i = 0; i < state_->num_places; ++i)
      if (state_->places[i].is_pool && state_->places[i].medium == medium)
        speaker = &state_->speakers[i];
  }
  if (speaker == nullptr)
    return fail(Errc::invalid_argument,
                "EventPublisher::tell_again: medium is {}, expected one of add_pool", medium);
  try {
    Gathering gathering{*speaker};
    if (const Result<uint64_t> last = pool.snapshot({Gathering::visit, &gathering}); !last)
      return last.error();
    if (gathering.is_short_of_memory) throw std::bad_alloc();
    gathering.name_parents();
    state_->queue.put(speaker->place, std::move(gathering.retelling));
    return {};
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "EventPublisher::tell_again: no memory for {} pages",
                pool.num_pages());
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
