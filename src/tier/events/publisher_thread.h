// SPDX-License-Identifier: Apache-2.0
/// tier/events/publisher_thread.h: what the thread of a publisher does: batches from notes, and
/// answers to who has missed some.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "folio/tier/event_publisher.h"
#include "tier/events/adapter_names.h"
#include "tier/events/ledger.h"
#include "tier/events/note_queue.h"
#include "tier/events/zmq_socket.h"

namespace folio::inline v1::tier {

struct PublisherSockets {
  ZmqSocket publish;
  ZmqSocket replay;  ///< may be none
};

/// Sends what is in a queue. All but `figures` belongs to the one thread.
class PublisherThread {
 public:
  PublisherThread(const EventPublisherOptions& options, PublisherSockets sockets,
                  const Ledger::Places& places, const AdapterNames& adapters, NoteQueue& queue)
      : options_(options),
        topic_(options.topic),
        sockets_(std::move(sockets)),
        adapters_(adapters),
        queue_(queue),
        ledger_(places) {
    options_.endpoint = options_.replay_endpoint = options_.topic = {};  // the caller's
  }

  /// Until `closing`; what is queued then is sent. `wake` is an eventfd.
  void run(int wake, const std::atomic<bool>& closing) noexcept;
  [[nodiscard]] EventPublisherFigures figures() const noexcept;

 private:
  struct Batch {
    uint64_t number;
    SharedBytes payload;
  };
  /// Batches as they fill.
  class Outlet;

  void publish_queued() noexcept;
  void take(const Note& note, std::span<const TokenId> tokens, EventOut& out);
  void take_companion(const Note& note, EventOut& out);
  void take(uint8_t place, const Retelling& retelling, EventOut& out);
  void publish(SharedBytes payload, int64_t events);
  void keep(SharedBytes payload);
  void serve_requests() noexcept;
  void serve(const std::vector<std::string>& request);
  void replay(std::string_view to, uint64_t first);
  void send_snapshot(std::string_view to);
  /// False where the receiver does not keep up.
  bool answer(std::string_view to, std::string_view topic, uint64_t number,
              const SharedBytes& payload);

  EventPublisherOptions options_;
  const std::string topic_;
  PublisherSockets sockets_;
  const AdapterNames& adapters_;
  NoteQueue& queue_;
  Ledger ledger_;
  std::deque<Batch> kept_;
  int64_t kept_bytes_ = 0;
  uint64_t next_ = 0;  ///< batch
  mutable std::mutex mutex_;
  EventPublisherFigures figures_;  ///< under the mutex
};

}  // namespace folio::inline v1::tier
