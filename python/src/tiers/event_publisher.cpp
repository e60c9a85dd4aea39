// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/event_publisher.cpp: `EventPublisher`: what a pool and its tiers have, told.
#include "folio/tier/event_publisher.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "../pool.h"
#include "of_process.h"
#include "tier_handle.h"
#include "tier_options.h"

namespace folio::python {
namespace {

struct Publisher {
  std::optional<tier::EventPublisher> made;
  OfProcess process = {};

  ~Publisher() {
    const WithoutGil free;  // it waits for what is queued to go out
    process.end(made);
  }
  [[nodiscard]] tier::EventPublisher& here() {
    process.expect_here("EventPublisher");
    return *made;
  }
};

void make_publisher(Publisher* self, const std::string& endpoint, const std::string& attach,
                    const std::string& replay_endpoint, const nb::bytes& topic,
                    int32_t high_water_mark, int32_t replay_batches, int64_t replay_bytes,
                    int32_t max_queued_events, int32_t interval_ms, int32_t data_parallel_rank,
                    const std::string& format, const std::string& names) {
  using tier::EventFormat, tier::NameForm, tier::SocketAttach;
  tier::EventPublisherOptions options;
  options.endpoint = endpoint;
  options.attach = word_of<SocketAttach>(attach, "attach",
                                         {{"automatic", SocketAttach::automatic},
                                          {"bind", SocketAttach::bind},
                                          {"connect", SocketAttach::connect}});
  options.replay_endpoint = replay_endpoint;
  options.topic = {topic.c_str(), topic.size()};
  options.high_water_mark = high_water_mark;
  options.replay_batches = replay_batches;
  options.replay_bytes = replay_bytes;
  options.max_queued_events = max_queued_events;
  options.interval_ms = interval_ms;
  options.data_parallel_rank = data_parallel_rank;
  options.format = word_of<EventFormat>(
      format, "format", {{"maps", EventFormat::maps}, {"arrays", EventFormat::arrays}});
  options.names = word_of<NameForm>(
      names, "names", {{"last_64_bits", NameForm::last_64_bits}, {"bytes", NameForm::bytes}});
  new (self) Publisher{take(tier::EventPublisher::create(options))};
}

PoolObserver add_pool(nb::handle_t<Publisher> self, const std::string& medium,
                      nb::sequence groups) {
  const std::vector<GroupOptions> given = groups_of(groups);
  auto& publisher = nb::cast<Publisher&>(self).here();
  return {{take(publisher.add_pool(medium, given)), nb::borrow(self)}};
}

TierObserver add_tier(nb::handle_t<Publisher> self, const std::string& medium) {
  auto& publisher = nb::cast<Publisher&>(self).here();
  return {{take(publisher.add_tier(medium)), nb::borrow(self)}};
}

void tell_again(Publisher& self, nb::handle place, const std::string& medium) {
  if (nb::isinstance<Pool>(place)) {
    const nb::ft_object_guard locked(place);
    self.here().tell_again(nb::cast<const Pool&>(place).pool, medium).or_throw();
  } else if (nb::isinstance<TierHandle>(place)) {
    nb::cast<TierHandle&>(place).with_tier(
        [&](tier::Tier& tier) { self.here().tell_again(tier, medium).or_throw(); });
  } else {
    refuse_argument("place: expected a PagePool or a Tier");
  }
}

nb::dict publisher_figures(Publisher& self) {
  const tier::EventPublisherFigures f = self.here().figures();
  nb::dict out;
  out["published_batches"] = f.published_batches;
  out["published_events"] = f.published_events;
  out["dropped_events"] = f.dropped_events;
  out["unnamed_events"] = f.unnamed_events;
  out["failed_batches"] = f.failed_batches;
  out["replayed_batches"] = f.replayed_batches;
  out["snapshots"] = f.snapshots;
  out["refused_requests"] = f.refused_requests;
  out["cut_replays"] = f.cut_replays;
  out["names"] = f.names;
  out["queued_events"] = f.queued_events;
  out["kept_batches"] = f.kept_batches;
  out["kept_bytes"] = f.kept_bytes;
  return out;
}

}  // namespace

void bind_event_publisher(nb::module_& m) {
  nb::class_<PoolObserver>(m, "PoolObserver",
                           "For on_event of one PagePool, which calls it without Python; keeps its "
                           "publisher.")
      .def(
          "__call__",
          [](const PoolObserver& self, const PoolEvent& event, const std::vector<TokenId>& tokens) {
            self.function.function(self.function.context, event, tokens);
          },
          nb::arg("event"), nb::arg("tokens"), "For an on_event of Python's that does more.");
  nb::class_<TierObserver>(m, "TierObserver", "For on_change of one Tier; keeps its publisher.");
  const tier::EventPublisherOptions defaults;
  nb::class_<Publisher>(m, "EventPublisher",
                        R"(Tells routers what a pool and its tiers have, as vLLM tells them.

Over ZeroMQ, by a thread of its own; lives as long as anything that has a function of it. Any thread
may call anything.)")
      .def("__init__", &make_publisher, nb::arg("endpoint") = "tcp://*:5557", nb::kw_only(),
           nb::arg("attach") = "automatic", nb::arg("replay_endpoint") = "",
           nb::arg("topic") = nb::bytes("", 0),
           nb::arg("high_water_mark") = defaults.high_water_mark,
           nb::arg("replay_batches") = defaults.replay_batches,
           nb::arg("replay_bytes") = defaults.replay_bytes,
           nb::arg("max_queued_events") = defaults.max_queued_events,
           nb::arg("interval_ms") = defaults.interval_ms,
           nb::arg("data_parallel_rank") = defaults.data_parallel_rank, nb::arg("format") = "maps",
           nb::arg("names") = "last_64_bits",
           R"(endpoint: tcp:// or ipc://; port *: a free one. attach: "bind", "connect" or
"automatic": binds what has *, :: or 0.0.0.0, or begins with ipc://. replay_endpoint: who has missed
batches asks there; "": nobody can. topic: the first frame of each message. high_water_mark: batches
that wait for one subscriber. replay_batches, replay_bytes: that are kept. max_queued_events: that
wait for the thread, which looks every interval_ms. format: "maps" (vLLM 0.24 and later) or
"arrays". names: "last_64_bits" or "bytes". Raises Unsupported where ZeroMQ is missing.)")
      .def("add_pool", &add_pool, nb::arg("medium") = "GPU", nb::arg("groups") = nb::make_tuple(),
           "For on_event of one PagePool, which has `name`. groups: those of the pool.")
      .def("add_tier", &add_tier, nb::arg("medium"),
           "For on_change of one Tier. Routers know \"CPU\" and \"STORAGE\".")
      .def("tell_again", &tell_again, nb::arg("place"), nb::arg("medium"),
           "What a PagePool or a Tier has, since events of it were dropped; of a pool from its "
           "thread.")
      .def(
          "name_adapter",
          [](Publisher& self, uint64_t adapter, const std::string& lora_name) {
            self.here().name_adapter(adapter, lora_name).or_throw();
          },
          nb::arg("adapter"), nb::arg("lora_name"),
          "What events say of an adapter's pages from now on; \"\": nothing.")
      .def(
          "flush", [](Publisher& self) { self.here().flush(); },
          "The thread looks now: for the end of a step.")
      .def_prop_ro(
          "endpoint", [](Publisher& self) { return std::string(self.here().endpoint()); },
          "As bound, with the port that was free.")
      .def_prop_ro("replay_endpoint",
                   [](Publisher& self) { return std::string(self.here().replay_endpoint()); })
      .def("figures", &publisher_figures, "Counts since the publisher was made.");
}

}  // namespace folio::python
