// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/handovers.cpp: `HandoverSender` and `HandoverReceiver`, which hand sequences
/// from a process that prefills to one that decodes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../array.h"
#include "cache_figures.h"
#include "folio/tier/transfer.h"
#include "layers.h"
#include "pool_user.h"
#include "tier_handle.h"
#include "tier_options.h"
#include "transport_handle.h"

namespace folio::python {
namespace {

/// Memory that a transport knows, until its end is gone: the next one may have it then.
class Regions {
 public:
  explicit Regions(tier::Transport* transport) : transport_(transport) {}
  Regions(Regions&& other) noexcept
      : transport_(other.transport_), all_(std::exchange(other.all_, {})) {}
  Regions& operator=(Regions&&) = delete;
  ~Regions() {
    if (!process_.is_here()) return;
    // one that a transfer touches stays, and its memory with the transport
    for (const tier::TransferRegion& region : all_)
      static_cast<void>(transport_->remove_region(region.id));
  }
  void add(std::span<std::byte> bytes) {
    all_.reserve(all_.size() + 1);
    all_.push_back({take(transport_->add_region(bytes)), bytes});
  }
  [[nodiscard]] std::span<const tier::TransferRegion> all() const { return all_; }

 private:
  OfProcess process_;
  tier::Transport* transport_;
  std::vector<tier::TransferRegion> all_;
};

/// `Made` is a HandoverSender or HandoverReceiver.
template <class Made>
struct End : PoolUser {
  std::unique_ptr<LentTransport> transport;
  Regions regions;
  std::optional<Made> made;
  uint64_t seen = 0;

  ~End() { end_user(*this, made); }
};
using Sender = End<tier::HandoverSender>;
using Receiver = End<tier::HandoverReceiver>;

/// Calls function(end), which nobody else calls meanwhile.
template <class Made, class Function>
auto with_end(nb::handle_t<End<Made>> self, Function&& function) {
  auto& end = nb::cast<End<Made>&>(self);
  const CallOfUser call(self, end);
  return function(*end.made);
}

/// What both ends are given.
struct EndArguments {
  nb::handle_t<TransportHandle> transport;
  nb::handle_t<Pool> pool;
  nb::handle planes;
  const nb::sequence& groups;
  const nb::sequence& regions;
  const nb::bytes& model;
  int32_t first_head, total_heads;
  int64_t idle_ms;
};

/// Makes an end in place; `create(TransferEnd)` gives it.
template <class Made, class Create>
void make_end(End<Made>* self, const EndArguments& given, Create&& create) {
  const nb::ft_object_guard locked(given.pool);
  auto& pool = nb::cast<Pool&>(given.pool);
  const Layers layers(given.planes, given.groups, pool.pool, Layers::User::transfer);
  const Memories memories(given.regions, "regions");
  auto lent = std::make_unique<LentTransport>(nb::borrow(given.transport));
  lent->handle().memory.append(memories.keep);
  Regions regions(lent->get());
  for (const std::span<std::byte> bytes : memories.spans) regions.add(bytes);
  tier::TransferEnd end;
  end.transport = lent->get();
  end.pool = &pool.pool;
  end.planes = layers.planes();
  end.groups = layers.of_transfer();
  end.regions = regions.all();
  end.model = digest_of(given.model, "model");
  end.first_head = given.first_head;
  end.total_heads = given.total_heads;
  end.name = name_function_of(pool.callables.get());
  end.idle_ms = given.idle_ms;
  Made made = take(create(end));
  new (self) End<Made>{{nb::borrow(given.pool), nb::make_tuple(layers.memory(), memories.keep)},
                       std::move(lent),
                       std::move(regions),
                       std::move(made)};
}

int64_t now_ms(std::optional<int64_t> given) {
  using std::chrono::milliseconds;
  return given.value_or(
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

template <class Made>
void poll_end(nb::handle_t<End<Made>> self, std::optional<int64_t> now) {
  with_end(self, [&](Made& end) {
    nb::cast<End<Made>&>(self).seen = Completions::of_process().count();
    end.poll(now_ms(now));
  });
}

template <class Made>
bool wait_end(nb::handle_t<End<Made>> self, int64_t timeout_ms) {
  return wait_for_completion(seen_by<End<Made>>(self), timeout_ms);
}

template <class Made>
void def_poll(nb::class_<End<Made>>& type) {
  type.def("poll", &poll_end<Made>, nb::arg("now_ms").none() = nb::none(),
           "Several times within idle_ms. now_ms: of a clock that does not go back; None: the "
           "system's.")
      .def("wait", &wait_end<Made>, nb::arg("timeout_ms") = -1,
           "Until something may have come for poll, so long at most; negative: without end. "
           "Returns whether. Other threads run meanwhile.");
}

template <class Made, class Function, class... Extra>
void def_init(nb::class_<End<Made>>& type, Function function, const Extra&... extra) {
  type.def("__init__", function, nb::arg("transport"), nb::arg("pool"),
           nb::arg("planes").none() = nb::none(), nb::kw_only(),
           nb::arg("groups") = nb::make_tuple(), nb::arg("regions") = nb::make_tuple(),
           nb::arg("model") = nb::bytes("", 0), nb::arg("first_head") = 0,
           nb::arg("total_heads") = 0, nb::arg("idle_ms") = 10'000, extra...);
}

// ---- the end that has the sequence

void make_sender(Sender* self, nb::handle_t<TransportHandle> transport, nb::handle_t<Pool> pool,
                 nb::handle planes, nb::sequence groups, nb::sequence regions, nb::bytes model,
                 int32_t first_head, int32_t total_heads, int64_t idle_ms, uint32_t max_handovers,
                 uint32_t max_posts, int64_t post_bytes) {
  make_end(self,
           {transport, pool, planes, groups, regions, model, first_head, total_heads, idle_ms},
           [&](const tier::TransferEnd& end) {
             return tier::HandoverSender::create({end, max_handovers, max_posts, post_bytes});
           });
}

uint64_t begin(nb::handle_t<Sender> self, uint32_t peer, uint64_t request, SequenceId sequence,
               nb::handle prompt, const nb::bytes& salt, uint64_t adapter, nb::sequence spans) {
  ReadOptions read(salt, adapter);
  read.add_spans(spans);
  const std::vector<TokenId> tokens = int32_of(prompt, "prompt");
  return with_end(self, [&](tier::HandoverSender& sender) {
    return take(sender.begin({peer}, request, sequence, tokens, read.options)).value;
  });
}

std::vector<tier::HandoverEnd> take_ends(nb::handle_t<Sender> self) {
  std::vector<tier::HandoverEnd> all;
  with_end(self, [&](tier::HandoverSender& sender) {
    for (size_t count = 64; count == 64;) {
      const size_t before = all.size();
      all.resize(before + 64);
      count = sender.take_ends(std::span(all).subspan(before));
      all.resize(before + count);
    }
  });
  return all;
}

nb::dict sender_figures(nb::handle_t<Sender> self) {
  const auto f = with_end(self, [](tier::HandoverSender& sender) { return sender.figures(); });
  nb::dict out;
  out["begun"] = f.begun;
  out["ended"] = counts_by_name<tier::HandoverOutcome>(f.ended);
  out["sent_pieces"] = f.sent_pieces;
  out["sent_bytes"] = f.sent_bytes;
  out["skipped_tokens"] = f.skipped_tokens;
  out["refused_messages"] = f.refused_messages;
  out["late_messages"] = f.late_messages;
  out["handovers"] = f.handovers;
  out["posts"] = f.posts;
  out["pinned_pages"] = f.pinned_pages;
  return out;
}

constexpr const char* end_text =
    R"(transport: all its messages are the end's. pool: with max_io_pins.

planes: a KVCache, or a sequence of Pages, one a layer, which are equal but for their places; or
groups, of all the pool's: as of CacheManager, with "first_head" and "total_heads", and of states
"state_parts", bytes of a head of each part, instead of "hit_interval"; behind them those whose
layers lie in the pages of another group, its number in "on_pages_of". regions: KVCaches, or
contiguous arrays, in which the planes lie: registered with the transport now, so before its address
is told. model: at most 32 bytes that stand for the model, equal on both ends. first_head: the first
KV head of the planes, of total_heads; 0: all are here. idle_ms: a handover of which nothing is
heard for so long ends. Pages are named as the pool names them.)";

void bind_sender(nb::module_& m) {
  nb::class_<tier::HandoverEnd>(m, "HandoverEnd", "How a handover ended, for its sender.")
      .def_prop_ro("id", [](const tier::HandoverEnd& end) { return end.id.value; })
      .def_prop_ro(
          "outcome", [](const tier::HandoverEnd& end) { return tier::name(end.outcome); },
          "\"done\", \"refused\", \"busy\" (it may be taken later), \"cancelled\", \"late\", "
          "\"lost\" or \"failed\".")
      .def_prop_ro(
          "reason", [](const tier::HandoverEnd& end) { return fault_text(end.reason); },
          "\"\" when done.");
  const tier::HandoverSenderOptions defaults;
  nb::class_<Sender> type(m, "HandoverSender",
                          R"(Hands sequences to a HandoverReceiver of another process.

begin before prefill, push of each layer of each chunk, finish; poll, and take_ends. One thread
calls, the one that calls the pool; wait may be another's.)",
                          nb::type_slots(slots_of_user<Sender>));
  def_init(type, &make_sender, nb::arg("max_handovers") = defaults.max_handovers,
           nb::arg("max_posts") = defaults.max_posts, nb::arg("post_bytes") = defaults.post_bytes,
           end_text);
  def_poll(type);
  type.def("begin", &begin, nb::arg("peer"), nb::arg("request"), nb::arg("sequence"),
           nb::arg("prompt"), nb::kw_only(), nb::arg("salt") = nb::bytes("", 0),
           nb::arg("adapter") = 0, nb::arg("spans") = nb::make_tuple(),
           R"(Announces to a peer the sequence that is to have the tokens `prompt`: its number.

peer: of transport.connect. request: stands for it at the receiver. Tokens that the sequence has
already are complete in all layers. Keep it until the handover has ended.)")
      .def(
          "push",
          [](nb::handle_t<Sender> self, uint64_t id, int32_t layer, int32_t first, int32_t count) {
            with_end(self, [&](tier::HandoverSender& sender) {
              sender.push({id}, layer, first, count).or_throw();
            });
          },
          nb::arg("id"), nb::arg("layer"), nb::arg("first_token"), nb::arg("count"),
          "K and V of these tokens are in the cache's layer: they go when their page is full, or "
          "the prompt's last.")
      .def(
          "push_layer",
          [](nb::handle_t<Sender> self, uint64_t id, int32_t layer) {
            with_end(self, [&](tier::HandoverSender& sender) {
              sender.push_layer({id}, layer).or_throw();
            });
          },
          nb::arg("id"), nb::arg("layer"), "All tokens that the layer has not had.")
      .def(
          "finish",
          [](nb::handle_t<Sender> self, uint64_t id, nb::handle output) {
            const std::vector<TokenId> tokens = int32_of(output, "output");
            with_end(self,
                     [&](tier::HandoverSender& sender) { sender.finish({id}, tokens).or_throw(); });
          },
          nb::arg("id"), nb::arg("output") = nb::make_tuple(),
          "All layers are complete. output: tokens behind the prompt that the receiver goes on "
          "with.")
      .def(
          "cancel",
          [](nb::handle_t<Sender> self, uint64_t id) {
            with_end(self, [&](tier::HandoverSender& sender) { sender.cancel({id}); });
          },
          nb::arg("id"))
      .def("take_ends", &take_ends, "Handovers that have ended since the last call.")
      .def("figures", &sender_figures, "Counts since the sender was made, and what is there now.");
}

// ---- the end that gets it

void make_receiver(Receiver* self, nb::handle_t<TransportHandle> transport, nb::handle_t<Pool> pool,
                   nb::handle planes, nb::sequence groups, nb::sequence regions, nb::bytes model,
                   int32_t first_head, int32_t total_heads, int64_t idle_ms,
                   const std::string& landing, uint32_t staging_slots, int64_t staging_slot_bytes,
                   uint32_t max_handovers, int32_t max_tokens, int64_t total_ms) {
  tier::HandoverReceiverOptions options;
  options.landing = word_of<tier::Landing>(
      landing, "landing", {{"direct", tier::Landing::direct}, {"staged", tier::Landing::staged}});
  options.staging_slots = staging_slots;
  options.staging_slot_bytes = staging_slot_bytes;
  options.max_handovers = max_handovers;
  options.max_tokens = max_tokens;
  options.total_ms = total_ms;
  make_end(self,
           {transport, pool, planes, groups, regions, model, first_head, total_heads, idle_ms},
           [&](const tier::TransferEnd& end) {
             options.end = end;
             return tier::HandoverReceiver::create(options);
           });
}

std::vector<tier::ReceivedSequence> take_sequences(nb::handle_t<Receiver> self) {
  std::vector<tier::ReceivedSequence> all;
  with_end(self, [&](tier::HandoverReceiver& receiver) {
    tier::ReceivedSequence one[1];
    while (receiver.take(one) == 1) all.push_back(std::move(one[0]));
  });
  return all;
}

/// tier::ArrivingSequence, as something that Python may keep.
struct Arriving {
  uint64_t request;
  SequenceId id;
  std::vector<TokenId> tokens;
  int32_t cached_tokens, layers_ready;
};

std::vector<Arriving> arriving(nb::handle_t<Receiver> self) {
  std::vector<Arriving> all;
  with_end(self, [&](tier::HandoverReceiver& receiver) {
    std::vector<tier::ArrivingSequence> some(static_cast<size_t>(receiver.figures().sequences));
    some.resize(receiver.arriving(some));
    for (const tier::ArrivingSequence& one : some)
      all.push_back({one.request,
                     one.id,
                     {one.tokens.begin(), one.tokens.end()},
                     one.cached_tokens,
                     one.layers_ready});
  });
  return all;
}

nb::dict receiver_figures(nb::handle_t<Receiver> self) {
  const auto f = with_end(self, [](tier::HandoverReceiver& r) { return r.figures(); });
  nb::dict out;
  out["announced"] = f.announced;
  out["accepted"] = f.accepted;
  out["refused"] = f.refused;
  out["busy"] = f.busy;
  out["committed"] = f.committed;
  out["failed"] = f.failed;
  out["direct_pieces"] = f.direct_pieces;
  out["staged_pieces"] = f.staged_pieces;
  out["bytes"] = f.bytes;
  out["corrupt_pieces"] = f.corrupt_pieces;
  out["refused_messages"] = f.refused_messages;
  out["late_messages"] = f.late_messages;
  out["refused_peers"] = f.refused_peers;
  out["lost_peers"] = f.lost_peers;
  out["handovers"] = f.handovers;
  out["sequences"] = f.sequences;
  out["used_slots"] = f.used_slots;
  out["pinned_pages"] = f.pinned_pages;
  return out;
}

void bind_sequences(nb::module_& m) {
  using Received = tier::ReceivedSequence;
  nb::class_<Received>(m, "ReceivedSequence",
                       "A sequence that has come: the pool has committed its tokens.")
      .def_ro("request", &Received::request)
      .def_ro("id", &Received::id)
      .def_ro("tokens", &Received::tokens)
      .def_ro("output", &Received::output, "As its sender finished it.")
      .def_ro("cached_tokens", &Received::cached_tokens, "Of `tokens`: did not have to come.");
  nb::class_<Arriving>(m, "ArrivingSequence",
                       "A sequence that is coming: it has room in the pool, to be read alone.")
      .def_ro("request", &Arriving::request)
      .def_ro("id", &Arriving::id)
      .def_ro("tokens", &Arriving::tokens)
      .def_ro("cached_tokens", &Arriving::cached_tokens)
      .def_ro("layers_ready", &Arriving::layers_ready,
              "Leading layers that are there, of all tokens: advice, void where the handover "
              "fails.");
}

void bind_receiver(nb::module_& m) {
  bind_sequences(m);
  const tier::HandoverReceiverOptions defaults;
  nb::class_<Receiver> type(m, "HandoverReceiver",
                            R"(Gets sequences from HandoverSenders of other processes.

poll, then take; arriving, to begin with the first layers while others come. One thread calls, the
one that calls the pool; wait may be another's. Gone before the transport is, it leaves pages to
which a peer may still write: end what is under way by cancel and poll.)",
                            nb::type_slots(slots_of_user<Receiver>));
  def_init(type, &make_receiver, nb::arg("landing") = "direct",
           nb::arg("staging_slots") = defaults.staging_slots,
           nb::arg("staging_slot_bytes") = defaults.staging_slot_bytes,
           nb::arg("max_handovers") = defaults.max_handovers,
           nb::arg("max_tokens") = defaults.max_tokens, nb::arg("total_ms") = defaults.total_ms,
           R"(As HandoverSender. landing: "direct": into pages, where bytes need no conversion;
"staged": into slots of its own, of which there are staging_slots. staging_slot_bytes: 0: as the
planes need. max_tokens: of a prompt. total_ms: from an announcement to its end.)");
  def_poll(type);
  type.def("take", &take_sequences,
           "Sequences that have come since the last call: they are the caller's from now on.")
      .def("arriving", &arriving, "What is on its way, in the order of requests.")
      .def(
          "cancel",
          [](nb::handle_t<Receiver> self, uint64_t request) {
            with_end(self, [&](tier::HandoverReceiver& r) { r.cancel(request); });
          },
          nb::arg("request"), "Ends all handovers of a request.")
      .def("figures", &receiver_figures,
           "Counts since the receiver was made, and what is there now.")
      .def(
          "last_fault",
          [](nb::handle_t<Receiver> self) {
            return fault_text(
                with_end(self, [](tier::HandoverReceiver& r) { return r.last_fault(); }));
          },
          "Why a peer or a handover was refused or failed, the latest; \"\": none.");
}

}  // namespace

void bind_handovers(nb::module_& m) {
  bind_sender(m);
  bind_receiver(m);
}

}  // namespace folio::python
