// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/event_index.cpp: `EventIndex`, what was told, and `EventSubscriber`, whose
/// index follows an engine over the network.
#include "folio/tier/event_index.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../pool.h"
#include "folio/tier/event_subscriber.h"
#include "of_process.h"
#include "tier_handle.h"
#include "tier_options.h"

namespace folio::python {
namespace {

// ---- what was told

/// An index, of its own or of a subscriber, which may be used by one thread at a time.
struct Told {
  std::mutex turn, mutex;
  std::optional<tier::EventIndex> own;
  std::optional<tier::EventSubscriber> subscriber;
  OfProcess process = {};

  ~Told() { process.end(subscriber); }
  /// Without the GIL. One after the other: who polls again and again lets in who waits.
  [[nodiscard]] std::unique_lock<std::mutex> lock() {
    if (subscriber) process.expect_here("EventSubscriber");
    const std::lock_guard next(turn);
    return std::unique_lock(mutex);
  }
  [[nodiscard]] const tier::EventIndex& index() const { return own ? *own : subscriber->index(); }
};
struct Index {
  std::shared_ptr<Told> told;

  template <class Function>
  auto with(Function&& function) const {
    const WithoutGil free;
    const auto locked = told->lock();
    return function(std::as_const(*told).index());
  }
  [[nodiscard]] tier::EventIndex& own() const {
    if (!told->own)
      throw Error(fail(Errc::busy, "EventIndex: it is a subscriber's, which alone changes it"));
    return *told->own;
  }
};
struct Subscriber {
  std::shared_ptr<Told> told;

  template <class Function>
  auto with(Function&& function) const {
    const WithoutGil free;
    const auto locked = told->lock();
    return function(*told->subscriber);
  }
};

/// A number of a dictionary, or 0.
int32_t number_in(const nb::dict& fields, const char* key, size_t i) {
  int32_t number = 0;
  if (fields.contains(key) && !nb::try_cast(fields[key], number))
    refuse_argument("groups[{}]: {}: expected an integer", i, key);
  return number;
}

tier::IndexedGroup indexed_group_of(nb::handle given, size_t i) {
  nb::dict fields;
  if (!nb::try_cast(given, fields)) refuse_argument("groups[{}]: expected a dictionary", i);
  for (const auto& [key, value] : fields) {
    std::string name;
    const char* const known[] = {"group", "rule", "window", "chunk", "block_size"};
    if (!nb::try_cast(key, name) ||
        std::find(std::begin(known), std::end(known), name) == std::end(known))
      refuse_argument("groups[{}]: expected group, rule, window, chunk or block_size, got {}", i,
                      nb::cast<std::string>(nb::repr(key)));
  }
  tier::IndexedGroup group;
  std::string rule;
  if (!fields.contains("rule") || !nb::try_cast(fields["rule"], rule))
    refuse_argument("groups[{}]: rule: expected text", i);
  group.rule = word_of<GroupRule>(rule, "groups: rule",
                                  {{"full", GroupRule::full},
                                   {"window", GroupRule::window},
                                   {"chunked", GroupRule::chunked},
                                   {"state", GroupRule::state}});
  group.has_rule = true;
  group.group = number_in(fields, "group", i);
  group.window = number_in(fields, "window", i);
  group.chunk = number_in(fields, "chunk", i);
  group.block_size = number_in(fields, "block_size", i);
  return group;
}

struct IndexArguments {
  int64_t max_names;
  int32_t max_media, block_size;
  bool counts_copies;
  const nb::sequence& groups;
};

/// `groups` gets what the options point to.
tier::EventIndexOptions index_options(const IndexArguments& given,
                                      std::vector<tier::IndexedGroup>& groups) {
  for (const nb::handle group : given.groups)
    groups.push_back(indexed_group_of(group, groups.size()));
  return {given.max_names, given.max_media, given.block_size, given.counts_copies, groups};
}

void make_index(Index* self, int64_t max_names, int32_t max_media, int32_t block_size,
                bool counts_copies, nb::sequence given) {
  std::vector<tier::IndexedGroup> groups;
  const auto options =
      index_options({max_names, max_media, block_size, counts_copies, given}, groups);
  auto told = std::make_shared<Told>();
  told->own = take(tier::EventIndex::create(options));
  new (self) Index{std::move(told)};
}

/// Bytes as everywhere; an integer stands for the last 64 bits.
std::vector<PageName> asked_names(nb::handle given) {
  if (!nb::isinstance<nb::sequence>(given) || nb::isinstance<nb::bytes>(given))
    refuse_argument("names: expected a sequence of bytes or integers");
  std::vector<PageName> names;
  for (const nb::handle each : nb::borrow<nb::sequence>(given)) {
    uint64_t last = 0;
    if (!nb::isinstance<nb::int_>(each)) {
      names.push_back(
          name_of(nb::borrow(each), "names: expected integers of 64 bits, or names of"));
      continue;
    }
    if (!nb::try_cast(each, last))
      refuse_argument("names[{}]: expected 64 bits, got {}", names.size(),
                      nb::cast<std::string>(nb::repr(each)));
    PageName& name = names.emplace_back();
    for (size_t i = 0; i < 8; ++i)
      name.bytes[name.bytes.size() - 1 - i] = static_cast<uint8_t>(last >> (8 * i));
  }
  return names;
}

int32_t find(const Index& self, nb::handle names, const std::optional<std::string>& medium) {
  const std::vector<PageName> asked = asked_names(names);
  return self.with([&](const tier::EventIndex& index) {
    return medium ? index.find(asked, *medium) : index.find(asked);
  });
}

std::vector<std::string> media(const Index& self) {
  return self.with([](const tier::EventIndex& index) {
    std::vector<std::string> all;
    all.reserve(static_cast<size_t>(index.num_media()));
    for (int32_t i = 0; i < index.num_media(); ++i) all.emplace_back(index.medium(i));
    return all;
  });
}

nb::list groups(const Index& self) {
  const auto all = self.with([](const tier::EventIndex& index) {
    std::vector<tier::IndexedGroup> told;
    told.reserve(static_cast<size_t>(index.num_groups()));
    for (int32_t i = 0; i < index.num_groups(); ++i) told.push_back(index.group(i));
    return told;
  });
  nb::list out;
  for (const tier::IndexedGroup& group : all) {
    nb::dict fields;
    fields["group"] = group.group;
    fields["rule"] = group.has_rule ? nb::object(nb::str(rule_name(group.rule))) : nb::none();
    fields["window"] = group.window;
    fields["chunk"] = group.chunk;
    fields["block_size"] = group.block_size;
    out.append(fields);
  }
  return out;
}

nb::list indexed_names(const Index& self) {
  struct Names {
    std::vector<tier::IndexedName> all;
    bool is_short = false;
  } names;
  self.with([&](const tier::EventIndex& index) {
    index.visit(
        [](void* into, const tier::IndexedName& name) noexcept {
          auto& [all, is_short] = *static_cast<Names*>(into);
          try {
            all.push_back(name);
          } catch (...) {
            is_short = true;
          }
        },
        &names);
  });
  if (names.is_short) throw std::bad_alloc();
  const std::vector<std::string> known = media(self);
  nb::list out;
  for (const tier::IndexedName& name : names.all) {
    nb::dict fields;
    fields["name"] = bytes_of_name(name.name);
    fields["parent"] = name.has_parent ? nb::object(bytes_of_name(name.parent)) : nb::none();
    fields["group"] = name.group;
    nb::list where;
    for (size_t i = 0; i < known.size(); ++i)
      if ((name.media >> i & 1) != 0) where.append(known[i]);
    fields["media"] = where;
    out.append(fields);
  }
  return out;
}

nb::dict index_figures(const Index& self) {
  const auto f = self.with([](const tier::EventIndex& index) { return index.figures(); });
  nb::dict out;
  out["batches"] = f.batches;
  out["events"] = f.events;
  out["malformed_batches"] = f.malformed_batches;
  out["refused_events"] = f.refused_events;
  out["ignored_events"] = f.ignored_events;
  out["untaken_names"] = f.untaken_names;
  out["sparse_events"] = f.sparse_events;
  out["unknown_kinds"] = f.unknown_kinds;
  out["names"] = f.names;
  out["stored_copies"] = f.stored_copies;
  out["removed_copies"] = f.removed_copies;
  return out;
}

void bind_index(nb::module_& m) {
  const tier::EventIndexOptions defaults;
  nb::class_<Index>(m, "EventIndex",
                    "What an engine has, as its events tell it: names, and where they are. Any "
                    "thread may call anything.")
      .def("__init__", &make_index, nb::kw_only(), nb::arg("max_names") = defaults.max_names,
           nb::arg("max_media") = defaults.max_media, nb::arg("block_size") = defaults.block_size,
           nb::arg("counts_copies") = defaults.counts_copies, nb::arg("groups") = nb::make_tuple(),
           R"(max_names, max_media: what is told beyond is not taken.

block_size: tokens of a name; 0: those of the smallest block told of. counts_copies: False for
engines that tell again of what they have. groups: rules that events do not tell: {"group": 0,
"rule": "full", "window", "chunked" or "state", "window", "chunk", "block_size"} each.)")
      .def(
          "apply",
          [](const Index& self, nb::bytes payload) {
            tier::EventIndex& own = self.own();
            self.with([&](const tier::EventIndex&) {
              own.apply({reinterpret_cast<const std::byte*>(payload.c_str()), payload.size()})
                  .or_throw();
            });
          },
          nb::arg("payload"), "A batch's payload, as vLLM, SGLang and EventPublisher encode it.")
      .def("clear",
           [](const Index& self) {
             tier::EventIndex& own = self.own();
             self.with([&](const tier::EventIndex&) { own.clear(); });
           })
      .def("find", &find, nb::arg("names"), nb::arg("medium").none() = nb::none(),
           nb::sig("def find(self, names: Sequence[bytes | int], medium: str | None = None) "
                   "-> int"),
           R"(How many of these, names of a prompt from its first block on, need no computing.

An integer is a name of an engine that tells the last 64 bits alone. medium: there; None: anywhere.
Give no name of the block that has the prompt's last token.)")
      .def_prop_ro("media", &media, "In the order in which they were told of.")
      .def("groups", &groups, nb::sig("def groups(self) -> list[dict[str, object]]"),
           "As events tell of them; rule None: not told.")
      .def("names", &indexed_names, nb::sig("def names(self) -> list[dict[str, object]]"),
           "{\"name\", \"parent\", \"group\", \"media\"} of each.")
      .def("figures", &index_figures,
           "Counts of batches, events, names, and copies that came and that went.");
}

// ---- over the network

void make_subscriber(Subscriber* self, const std::string& endpoint,
                     const std::string& replay_endpoint, const nb::bytes& topic,
                     int32_t high_water_mark, int64_t max_message_bytes, int32_t max_held_batches,
                     int32_t request_timeout_ms, int32_t idle_check_ms, int64_t max_names,
                     int32_t max_media, int32_t block_size, bool counts_copies,
                     nb::sequence given) {
  std::vector<tier::IndexedGroup> groups;
  tier::EventSubscriberOptions options;
  options.endpoint = endpoint;
  options.replay_endpoint = replay_endpoint;
  options.topic = {topic.c_str(), topic.size()};
  options.high_water_mark = high_water_mark;
  options.max_message_bytes = max_message_bytes;
  options.max_held_batches = max_held_batches;
  options.request_timeout_ms = request_timeout_ms;
  options.idle_check_ms = idle_check_ms;
  options.index = index_options({max_names, max_media, block_size, counts_copies, given}, groups);
  auto told = std::make_shared<Told>();
  told->subscriber = take(tier::EventSubscriber::create(options));
  new (self) Subscriber{std::move(told)};
}

/// How long others wait for who polls.
constexpr int64_t between_others_ms = 10;

/// What `poll` may change.
int64_t heard(const tier::EventSubscriberFigures& f) {
  return f.live_batches + f.replayed_batches + f.snapshots + f.malformed_messages;
}

bool poll_subscriber(const Subscriber& self, int64_t timeout_ms) {
  const Patience patience(timeout_ms);
  for (;;) {
    const int64_t slice_ms = std::min(patience.slice_ms(), between_others_ms);
    const bool has_come = self.with([&](tier::EventSubscriber& subscriber) {
      const int64_t before = heard(subscriber.figures());
      subscriber.poll(static_cast<int32_t>(slice_ms)).or_throw();
      return heard(subscriber.figures()) != before;
    });
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (has_come || slice_ms == 0) return has_come;
  }
}

nb::dict subscriber_figures(const Subscriber& self) {
  const auto f = self.with([](const tier::EventSubscriber& s) { return s.figures(); });
  nb::dict out;
  out["live_batches"] = f.live_batches;
  out["replayed_batches"] = f.replayed_batches;
  out["snapshots"] = f.snapshots;
  out["gaps"] = f.gaps;
  out["lost_batches"] = f.lost_batches;
  out["malformed_messages"] = f.malformed_messages;
  out["restarts"] = f.restarts;
  out["timeouts"] = f.timeouts;
  out["earlier_batches"] = f.earlier_batches;
  return out;
}

void bind_subscriber(nb::module_& m) {
  const tier::EventSubscriberOptions defaults;
  nb::class_<Subscriber>(m, "EventSubscriber",
                         "An index that follows an engine's events over ZeroMQ. Any thread may "
                         "call anything.")
      .def("__init__", &make_subscriber, nb::arg("endpoint") = "tcp://127.0.0.1:5557",
           nb::kw_only(), nb::arg("replay_endpoint") = "", nb::arg("topic") = nb::bytes("", 0),
           nb::arg("high_water_mark") = defaults.high_water_mark,
           nb::arg("max_message_bytes") = defaults.max_message_bytes,
           nb::arg("max_held_batches") = defaults.max_held_batches,
           nb::arg("request_timeout_ms") = defaults.request_timeout_ms,
           nb::arg("idle_check_ms") = defaults.idle_check_ms,
           nb::arg("max_names") = defaults.index.max_names,
           nb::arg("max_media") = defaults.index.max_media,
           nb::arg("block_size") = defaults.index.block_size,
           nb::arg("counts_copies") = defaults.index.counts_copies,
           nb::arg("groups") = nb::make_tuple(),
           R"(endpoint: of a publisher, vLLM's, SGLang's or folio's. replay_endpoint: "": what is
missed is lost. topic: what topics begin with. high_water_mark: batches that wait to be polled.
max_message_bytes: who sends a longer one is dropped. max_held_batches: while others are asked for,
each within request_timeout_ms. idle_check_ms: without a batch, until the replay endpoint is asked;
0: never. The others: as EventIndex. Raises Unsupported where ZeroMQ is missing.)")
      .def(
          "poll", &poll_subscriber, nb::arg("timeout_ms") = 0,
          "Takes what has come, at most high_water_mark batches, and waits so long at most for the "
          "first of it; negative: without end. Returns whether anything came. Other threads run "
          "meanwhile.")
      .def_prop_ro(
          "is_connected",
          [](const Subscriber& self) {
            return self.with([](const tier::EventSubscriber& s) { return s.is_connected(); });
          },
          "A publisher is there, as of the last poll, whether it has batches or not.")
      .def_prop_ro(
          "is_current",
          [](const Subscriber& self) {
            return self.with([](const tier::EventSubscriber& s) { return s.is_current(); });
          },
          "No request is under way, so that the index is what the last batch says.")
      .def_prop_ro(
          "next_batch",
          [](const Subscriber& self) {
            return self.with([](const tier::EventSubscriber& s) { return s.next_batch(); });
          },
          "The number that is expected; 0 before the first one.")
      .def_prop_ro(
          "index", [](const Subscriber& self) { return Index{self.told}; },
          "The EventIndex that poll changes, and nobody else.")
      .def("figures", &subscriber_figures,
           "Counts since the subscriber was made. \"lost_batches\": nobody had them any more; "
           "\"earlier_batches\": before the first one of this publisher, and in no snapshot.");
}

}  // namespace

void bind_event_index(nb::module_& m) {
  bind_index(m);
  bind_subscriber(m);
}

}  // namespace folio::python
