// SPDX-License-Identifier: Apache-2.0
/// tier/events/publisher_thread.cpp: notes, batches, replays.
#include "tier/events/publisher_thread.h"

#include <unistd.h>

#include <chrono>
#include <new>
#include <utility>

namespace folio::inline v1::tier {
namespace {

constexpr int64_t events_of_a_batch = 1024;
constexpr int requests_at_once = 16;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

/// Whoever has one says what becomes of full batches.
class PublisherThread::Outlet final : public EventOut {
 public:
  using Emit = void (*)(void* context, const SharedBytes& payload, int64_t events);
  Outlet(const EventPublisherOptions& options, const AdapterNames& adapters, Emit emit,
         void* context)
      : writer_(options.format, options.names),
        adapters_(adapters),
        rank_(options.data_parallel_rank),
        emit_(emit),
        context_(context) {}

  void stored(const PageName& name, const Content& content, std::string_view medium) override {
    writer_.stored(name, content, medium, adapters_.of(content.adapter));
    end_full();
  }
  void removed(const PageName& name, uint32_t group, std::string_view medium) override {
    writer_.removed(name, medium, group);
    end_full();
  }
  void cleared() override {
    writer_.cleared();
    end_full();
  }
  void end() {
    const int64_t events = writer_.size();
    if (events == 0) return;
    emit_(context_,
          std::make_shared<const std::vector<uint8_t>>(writer_.finish(seconds_since_1970(), rank_)),
          events);
  }

 private:
  void end_full() {
    if (writer_.size() >= events_of_a_batch) end();
  }

  BatchWriter writer_;
  const AdapterNames& adapters_;
  int32_t rank_;
  Emit emit_;
  void* context_;
};

void PublisherThread::run(int wake, const std::atomic<bool>& closing) noexcept {
  for (bool last = false; !last;) {
    zmq_pollitem_t items[] = {{nullptr, wake, ZMQ_POLLIN, 0},
                              {sockets_.replay.get(), -1, ZMQ_POLLIN, 0}};
    zmq().poll(items, sockets_.replay.get() == nullptr ? 1 : 2, options_.interval_ms);
    uint64_t count = 0;
    if ((items[0].revents & ZMQ_POLLIN) != 0) static_cast<void>(!read(wake, &count, sizeof count));
    last = closing.load();
    publish_queued();
    if (sockets_.replay.get() != nullptr) serve_requests();
  }
}

EventPublisherFigures PublisherThread::figures() const noexcept {
  const std::lock_guard lock(mutex_);
  EventPublisherFigures figures = figures_;
  figures.queued_events = queue_.size();
  return figures;
}

// ---- Batches

void PublisherThread::publish_queued() noexcept {
  NoteQueue::Notes& notes = queue_.take();
  if (notes.notes.empty() && notes.dropped == 0) return;
  bool failed = false;
  try {
    Outlet out(
        options_, adapters_,
        [](void* self, const SharedBytes& payload, int64_t events) {
          static_cast<PublisherThread*>(self)->publish(payload, events);
        },
        this);
    const TokenId* tokens = notes.tokens.data();
    size_t retold = 0;
    for (const Note& note : notes.notes) {
      if (note.kind == Note::Kind::retold) {
        take(note.place, *notes.retellings[retold++], out);
      } else {
        take(note, {tokens, note.num_tokens}, out);
        tokens += note.num_tokens;
      }
    }
    out.end();
  } catch (const std::bad_alloc&) {
    failed = true;
  }
  if (failed || notes.dropped != 0) ++next_;  // a gap: whoever sees it asks for a snapshot
  const std::lock_guard lock(mutex_);
  figures_.dropped_events += notes.dropped;
  figures_.failed_batches += failed ? 1 : 0;
  figures_.names = ledger_.names();
}

void PublisherThread::take_companion(const Note& note, EventOut& out) {
  if (note.kind == Note::Kind::removed)
    ledger_.removed(note.place, note.name, note.group, out);
  else
    ledger_.stored(note.place, note.name, note.group, note.has_parent ? &note.parent : nullptr,
                   out);
}

void PublisherThread::take(const Note& note, std::span<const TokenId> tokens, EventOut& out) {
  if (note.group != 0) return take_companion(note, out);
  switch (note.kind) {
    case Note::Kind::stored:
      ledger_.stored(note.place, note.name,
                     {.parent = note.parent,
                      .has_parent = note.has_parent,
                      .adapter = note.adapter,
                      .tokens = {tokens.begin(), tokens.end()}},
                     out);
      break;
    case Note::Kind::removed: ledger_.removed(note.place, note.name, out); break;
    case Note::Kind::cleared: ledger_.cleared(note.place, out); break;
    case Note::Kind::retold: break;
  }
}

void PublisherThread::take(uint8_t place, const Retelling& retelling, EventOut& out) {
  if (!ledger_.is_pool(place)) return ledger_.retold(place, retelling.names, out);
  ledger_.cleared(place, out);
  const TokenId* tokens = retelling.tokens.data();
  for (const Note& note : retelling.notes) {
    take(note, {tokens, note.num_tokens}, out);
    tokens += note.num_tokens;
  }
}

void PublisherThread::publish(SharedBytes payload, int64_t events) {
  const std::string number = bytes_of(next_);
  const std::string_view frames[] = {topic_, number};
  const bool sent = sockets_.publish.send(frames, payload);
  keep(std::move(payload));
  ++next_;
  const std::lock_guard lock(mutex_);
  ++(sent ? figures_.published_batches : figures_.failed_batches);
  figures_.published_events += events;
}

void PublisherThread::keep(SharedBytes payload) {
  kept_bytes_ += std::ssize(*payload);
  kept_.push_back({next_, std::move(payload)});
  while (std::ssize(kept_) > options_.replay_batches || kept_bytes_ > options_.replay_bytes) {
    kept_bytes_ -= std::ssize(*kept_.front().payload);
    kept_.pop_front();
  }
  const std::lock_guard lock(mutex_);
  figures_.kept_batches = std::ssize(kept_);
  figures_.kept_bytes = kept_bytes_;
}

// ---- Replays

void PublisherThread::serve_requests() noexcept {
  for (int i = 0; i < requests_at_once; ++i) {
    try {
      const auto request = sockets_.replay.receive();
      if (!request) return;
      serve(*request);
    } catch (const std::bad_alloc&) {
      const std::lock_guard lock(mutex_);
      ++figures_.cut_replays;
    }
  }
}

/// [who asks, nothing, number]
void PublisherThread::serve(const std::vector<std::string>& request) {
  const std::optional<uint64_t> first =
      request.size() == 3 && request[1].empty() ? number_of(request[2]) : std::nullopt;
  if (!first) {
    const std::lock_guard lock(mutex_);
    ++figures_.refused_requests;
    return;
  }
  // Who expects a batch that is still to come has followed another publisher; and what has been
  // asked for may be gone.
  const uint64_t oldest = kept_.empty() ? next_ : kept_.front().number;
  if (*first == no_batch || *first > next_ || *first < oldest) {
    send_snapshot(request[0]);
  } else {
    replay(request[0], *first);
  }
}

bool PublisherThread::answer(std::string_view to, std::string_view topic, uint64_t number,
                             const SharedBytes& payload) {
  const std::string digits = bytes_of(number);
  const std::string_view frames[] = {to, {}, topic, digits};
  if (sockets_.replay.send(frames, payload)) return true;
  const std::lock_guard lock(mutex_);
  ++figures_.cut_replays;
  return false;
}

void PublisherThread::replay(std::string_view to, uint64_t first) {
  int64_t count = 0;
  for (const Batch& batch : kept_) {
    if (batch.number < first) continue;
    if (!answer(to, topic_, batch.number, batch.payload)) return;
    ++count;
  }
  if (!answer(to, {}, no_batch, std::make_shared<const std::vector<uint8_t>>())) return;
  const std::lock_guard lock(mutex_);
  figures_.replayed_batches += count;
}

void PublisherThread::send_snapshot(std::string_view to) {
  struct Answer {
    PublisherThread& self;
    std::string_view to;
    bool sent = true;
  } to_asker{*this, to};
  if (next_ != 0) {
    Outlet out(
        options_, adapters_,
        [](void* context, const SharedBytes& payload, int64_t) {
          auto& a = *static_cast<Answer*>(context);
          a.sent = a.sent && a.self.answer(a.to, a.self.topic_, a.self.next_ - 1, payload);
        },
        &to_asker);
    ledger_.tell_all(out);
    out.end();
  }
  if (!to_asker.sent || !answer(to, {}, no_batch, std::make_shared<const std::vector<uint8_t>>()))
    return;
  const std::lock_guard lock(mutex_);
  ++figures_.snapshots;
}

}  // namespace folio::inline v1::tier
