// SPDX-License-Identifier: Apache-2.0
/// folio/tier/event_publisher.h: tells routers what a pool and its tiers have, as vLLM tells them.
///
/// What becomes findable at a *place* (a pool, a tier) or ceases to be goes out on a ZeroMQ PUB
/// socket, in batches that have numbers, encoded as vLLM encodes its KV cache events
/// (docs/event_stream.md): vLLM's own subscriber and the routers that read it read these. Numbers
/// have no gap but where events were lost. Who has missed batches asks a ROUTER socket for them.
///
/// Threads: the pool and the tiers call what they were given here from whatever thread they have;
/// other calls may come from any thread. None of them waits: events are noted in memory that was
/// taken beforehand, and a thread of the publisher's encodes and sends them. A subscriber that is
/// slow loses batches; where the publisher's own thread does not keep up, events are dropped,
/// counted, and leave a gap between batches. A publisher that was moved from refuses calls as
/// invalid_argument, and has no endpoints.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "folio/core/export.h"
#include "folio/core/status.h"
#include "folio/pool/page_pool.h"
#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

/// What routers know the places of pages by.
inline constexpr std::string_view medium_gpu = "GPU";          ///< a pool's memory
inline constexpr std::string_view medium_cpu = "CPU";          ///< a tier in the host's memory
inline constexpr std::string_view medium_storage = "STORAGE";  ///< disk

enum class SocketAttach : uint8_t {
  /// Binds an endpoint that has `*`, `::` or 0.0.0.0 (vLLM connects that one, SGLang binds it), or
  /// begins with ipc://
  automatic = 0,
  bind = 1,
  connect = 2,
};

/// How an event is encoded.
enum class EventFormat : uint8_t {
  maps = 0,    ///< fields by name: vLLM 0.24 and later
  arrays = 1,  ///< fields by place: vLLM until 0.23
};

/// How a name is encoded.
enum class NameForm : uint8_t {
  last_64_bits = 0,  ///< an integer, as vLLM has it by default; Dynamo reads no other
  bytes = 1,         ///< all 32; vLLM with VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0, llm-d
};

/// Texts are copied.
struct EventPublisherOptions {
  std::string_view endpoint = "tcp://*:5557";  ///< tcp:// or ipc://; port *: a free one
  SocketAttach attach = SocketAttach::automatic;
  std::string_view replay_endpoint = {};  ///< is bound; none: nothing is replayed
  std::string_view topic = {};            ///< the first frame of each message: <= 1024 bytes, any
  int32_t high_water_mark = 100'000;      ///< batches that wait for one subscriber, >= 1
  int32_t replay_batches = 10'000;        ///< that are kept, >= 0
  int64_t replay_bytes = int64_t{256} << 20;  ///< of these, >= 0
  int32_t max_queued_events = 1 << 16;        ///< that wait for the publisher's thread, >= 1
  int32_t interval_ms = 10;                   ///< between two looks of that thread, 1 .. 10,000
  int32_t data_parallel_rank = 0;             ///< >= 0
  EventFormat format = EventFormat::maps;
  NameForm names = NameForm::last_64_bits;
};

/// Since the publisher was made, but for `names` and what is `queued` and `kept`.
struct EventPublisherFigures {
  int64_t published_batches = 0, published_events = 0;
  int64_t dropped_events = 0;  ///< for want of room in the queue
  int64_t unnamed_events = 0;  ///< of pages that have no name: nobody can ask for them
  int64_t failed_batches = 0;  ///< that the socket did not take, or there was no memory for
  int64_t replayed_batches = 0, snapshots = 0;
  int64_t refused_requests = 0;  ///< of the replay socket, malformed
  int64_t cut_replays = 0;       ///< whose receiver did not keep up
  int64_t names = 0;             ///< that are somewhere
  int64_t queued_events = 0, kept_batches = 0, kept_bytes = 0;
  bool operator==(const EventPublisherFigures&) const = default;
};

class FOLIO_EXPORT EventPublisher {
 public:
  static constexpr int max_places = 8;
  static constexpr int max_adapters = 1 << 16;  ///< that have a name

  /// Errors: invalid_argument for options out of range and endpoints that are none; busy for one
  /// that is taken; io; out_of_memory; unsupported in a build without ZeroMQ or nlohmann-json,
  /// and where ZeroMQ cannot be loaded
  [[nodiscard]] static Result<EventPublisher> create(
      const EventPublisherOptions& options = {}) noexcept;
  EventPublisher(EventPublisher&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  EventPublisher& operator=(EventPublisher&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  /// Publishes what is queued, and waits at most half a second for it to go out. Pools and tiers
  /// that have a function of the publisher's must have gone, or call nothing any more.
  ~EventPublisher();

  /// For PoolOptions::on_event of one pool, which needs names. Valid while the publisher lives, or
  /// the one that it is moved to. Errors: invalid_argument for a medium that is not 1 .. 64
  /// printable characters of ASCII, or another place's, and where there are max_places; for groups
  /// that no pool has; out_of_memory.
  /// `groups`: of a pool with several its PoolOptions::groups, copied: what events say of them. A
  /// group that is not among them is told as of a kind that is not known.
  [[nodiscard]] Result<EventFunction> add_pool(std::string_view medium = medium_gpu,
                                               std::span<const GroupOptions> groups = {}) noexcept;
  /// For TierOptions::on_change of one tier; otherwise as add_pool.
  [[nodiscard]] Result<TierObserver> add_tier(std::string_view medium) noexcept;

  /// Tells anew what a pool has, since events of it were dropped: by the pool's thread, between two
  /// of its calls. O(pages). Errors: invalid_argument for a medium that is no pool's of this
  /// publisher; out_of_memory
  [[nodiscard]] Status tell_again(const PagePool& pool,
                                  std::string_view medium = medium_gpu) noexcept;

  /// What a tier has, likewise; of Tier::visit_names. Events tell of what the tier has more or less
  /// than was told. Any thread, whatever the tier does meanwhile. Errors: invalid_argument for a
  /// medium that is no tier's of this publisher; unsupported for a tier that does not know its
  /// names; out_of_memory
  [[nodiscard]] Status tell_again(Tier& tier, std::string_view medium) noexcept;

  /// From now on `lora_name` of events whose pages are of this adapter (SequenceOptions::adapter);
  /// an empty text: none. Copied. Routers ask for an adapter's pages by that name. Errors:
  /// invalid_argument for adapter 0, a name that is not at most 256 printable characters of ASCII,
  /// or the one beyond max_adapters; out_of_memory
  [[nodiscard]] Status name_adapter(uint64_t adapter, std::string_view lora_name) noexcept;

  /// The thread looks now: for the end of a step.
  void flush() noexcept;

  /// As bound, with the port that was free: valid while this object lives. Empty: none.
  [[nodiscard]] std::string_view endpoint() const noexcept;
  [[nodiscard]] std::string_view replay_endpoint() const noexcept;
  [[nodiscard]] EventPublisherFigures figures() const noexcept;

 private:
  struct FOLIO_LOCAL State;
  explicit EventPublisher(State* state) noexcept : state_(state) {}
  State* state_ = nullptr;
};

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::EventFormat;
using tier::EventPublisher;
using tier::EventPublisherFigures;
using tier::EventPublisherOptions;
using tier::medium_cpu;
using tier::medium_gpu;
using tier::medium_storage;
using tier::NameForm;
using tier::SocketAttach;
}  // namespace folio::inline v1
