// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/cache_manager.cpp: `CacheManager`, and `TierBelow`, a tier with what a manager
/// does with it.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <poll.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../array.h"
#include "cache_figures.h"
#include "layers.h"
#include "pool_user.h"
#include "tier_handle.h"
#include "tier_options.h"

namespace folio::python {
namespace {

using tier::CacheManager;

struct TierBelow {
  nb::object tier;
  tier::TierOfCache options;
};

/// Tiers that a manager has, until it is gone.
class LentTiers {
 public:
  LentTiers() = default;
  LentTiers(const LentTiers&) = delete;
  LentTiers& operator=(const LentTiers&) = delete;
  ~LentTiers() { give_back(); }

  tier::Tier* add(const nb::object& tier, const nb::object& memory) {
    tiers_.reserve(tiers_.size() + 1);
    tier::Tier* const lent = nb::cast<TierHandle&>(tier).lend_to_manager(memory);
    tiers_.push_back(tier);
    return lent;
  }
  void give_back() {
    const std::vector<nb::object> gone = std::exchange(tiers_, {});
    for (const nb::object& tier : gone) nb::cast<TierHandle&>(tier).take_back();
  }
  [[nodiscard]] const std::vector<nb::object>& all() const { return tiers_; }

 private:
  std::vector<nb::object> tiers_;
};

struct Manager : PoolUser {
  LentTiers tiers = {};
  std::optional<CacheManager> made = std::nullopt;

  ~Manager() { end_user(*this, made); }
  [[nodiscard]] CacheManager& open() {
    if (!made) throw Error(fail(Errc::invalid_argument, "CacheManager: it is closed"));
    return *made;
  }
};

using Self = nb::handle_t<Manager>;

/// Calls function(manager), which nobody else calls meanwhile.
template <class Function>
auto with_manager(Self self, Function&& function) {
  auto& manager = nb::cast<Manager&>(self);
  const CallOfUser call(self, manager);
  return function(manager.open());
}

TierBelow below(nb::handle_t<TierHandle> tier, const std::string& policy, bool promotes,
                int32_t min_hits, int64_t max_store_bytes, int32_t faults_to_rest,
                int64_t first_rest_ms, int64_t longest_rest_ms) {
  using tier::StorePolicy;
  TierBelow below{nb::borrow(tier), {}};
  below.options.policy = word_of<StorePolicy>(policy, "policy",
                                              {{"none", StorePolicy::none},
                                               {"write_through", StorePolicy::write_through},
                                               {"write_back", StorePolicy::write_back},
                                               {"at_eviction", StorePolicy::at_eviction}});
  below.options.promotes = promotes;
  below.options.min_hits = min_hits;
  below.options.max_store_bytes = max_store_bytes;
  below.options.faults_to_rest = faults_to_rest;
  below.options.first_rest_ms = first_rest_ms;
  below.options.longest_rest_ms = longest_rest_ms;
  return below;
}

/// A Tier alone is one to write back to.
std::vector<TierBelow> tiers_below(const nb::sequence& given) {
  std::vector<TierBelow> all;
  for (const nb::handle tier : given) {
    if (nb::isinstance<TierBelow>(tier)) {
      all.push_back(nb::cast<const TierBelow&>(tier));
    } else if (nb::isinstance<TierHandle>(tier)) {
      all.push_back({nb::borrow(tier), {}});
    } else {
      refuse_argument("tiers[{}]: expected a Tier, or what tiers.below gives", all.size());
    }
    for (size_t i = 0; i + 1 < all.size(); ++i)
      if (all[i].tier.is(all.back().tier))
        refuse_argument("tiers[{}]: it is tiers[{}], expected each once", all.size() - 1, i);
  }
  return all;
}

struct Options {
  int64_t load_deadline_ms, store_deadline_ms;
  int32_t min_load_pages;
  std::string load_order;
  int32_t spare_pages;
  int64_t close_wait_ms;

  [[nodiscard]] tier::CacheManagerOptions read() const {
    tier::CacheManagerOptions options;
    options.load_deadline_ms = load_deadline_ms;
    options.store_deadline_ms = store_deadline_ms;
    options.min_load_pages = min_load_pages;
    options.load_order = word_of<tier::LoadOrder>(
        load_order, "load_order",
        {{"pages", tier::LoadOrder::pages}, {"extents", tier::LoadOrder::extents}});
    options.spare_pages = spare_pages;
    options.close_wait_ms = close_wait_ms;
    return options;
  }
};

void make_manager(Manager* self, nb::handle_t<Pool> pool, nb::handle planes, nb::sequence tiers,
                  nb::sequence groups, int64_t load_deadline_ms, int64_t store_deadline_ms,
                  int32_t min_load_pages, const std::string& load_order, int32_t spare_pages,
                  int64_t close_wait_ms) {
  tier::CacheManagerOptions options = Options{load_deadline_ms, store_deadline_ms, min_load_pages,
                                              load_order,       spare_pages,       close_wait_ms}
                                          .read();
  const nb::ft_object_guard locked(pool);
  PagePool& of = nb::cast<Pool&>(pool).pool;
  const Layers layers(planes, groups, of, Layers::User::cache);
  const std::vector<TierBelow> given = tiers_below(tiers);
  new (self) Manager{{nb::borrow(pool), layers.memory()}};
  try {
    std::vector<tier::TierOfCache> of_cache;
    for (const TierBelow& tier : given) {
      of_cache.push_back(tier.options);
      of_cache.back().tier = self->tiers.add(tier.tier, self->memory);
    }
    options.pool = &of;
    options.planes = layers.planes();
    options.groups = layers.of_cache();
    options.tiers = of_cache;
    self->made = take(CacheManager::create(options));
  } catch (...) {
    self->~Manager();
    throw;
  }
}

tier::TieredAdmission admit(Self self, nb::handle prompt, const nb::bytes& salt, uint64_t adapter,
                            nb::sequence retention, nb::handle decode, nb::sequence spans) {
  ReadOptions read(salt, adapter, retention, decode);
  read.add_spans(spans);
  const std::vector<TokenId> tokens = int32_of(prompt, "prompt");
  return with_manager(self, [&](CacheManager& m) { return take(m.admit(tokens, read.options)); });
}

int32_t prefetch(Self self, nb::handle prompt, const nb::bytes& salt, uint64_t adapter,
                 nb::sequence retention, nb::handle decode, nb::sequence spans) {
  ReadOptions read(salt, adapter, retention, decode);
  read.add_spans(spans);
  const std::vector<TokenId> tokens = int32_of(prompt, "prompt");
  return with_manager(self,
                      [&](CacheManager& m) { return take(m.prefetch(tokens, read.options)); });
}

const char* state_name(tier::LoadState state) {
  switch (state) {
    case tier::LoadState::none: return "none";
    case tier::LoadState::loading: return "loading";
    case tier::LoadState::loaded: return "loaded";
    case tier::LoadState::cut_short: return "cut_short";
  }
  return "?";
}

void poll_manager(Self self) {
  auto& manager = nb::cast<Manager&>(self);
  const CallOfUser call(self, manager);
  CacheManager& open = manager.open();
  for (const nb::object& tier : manager.tiers.all()) nb::cast<TierHandle&>(tier).clear_signal();
  open.poll();
}

bool is_idle_now(const CacheManager& manager) {
  const tier::CacheManagerFigures figures = manager.figures();
  return figures.loads == 0 && figures.stores == 0;
}

/// Until a tier has something, for `timeout_ms` or until a signal comes; negative: without end.
/// False: the time is over, or nothing is under way.
bool wait_for_tiers(Self self, int64_t timeout_ms) {
  auto& manager = nb::cast<Manager&>(self);
  std::vector<nb::object> tiers;  // kept, whatever others do
  {
    const nb::ft_object2_guard locked(self, manager.pool);
    manager.process.expect_here("CacheManager");
    const CacheManager& open = manager.open();
    tiers = manager.tiers.all();
    if (!manager.is_called && is_idle_now(open)) return false;
  }
  std::vector<pollfd> signals;
  signals.reserve(tiers.size());
  for (const nb::object& tier : tiers)
    signals.push_back({nb::cast<TierHandle&>(tier).signal(), POLLIN, 0});
  const Patience patience(timeout_ms);
  for (;;) {
    const int64_t slice_ms = patience.slice_ms();
    int ready = 0;
    {
      const WithoutGil free;
      ready = ::poll(signals.data(), signals.size(), static_cast<int>(slice_ms));
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (ready > 0) return true;
    if (slice_ms == 0) return false;
    const nb::ft_object_guard locked(self);
    static_cast<void>(manager.open());  // another thread may have closed it
  }
}

void close_manager(Self self, int64_t timeout_ms) {
  auto& manager = nb::cast<Manager&>(self);
  const Patience patience(timeout_ms);
  for (;;) {
    {
      const CallOfUser call(self, manager);
      if (!manager.made) return;
    }
    poll_manager(self);
    const bool is_idle = with_manager(self, [](CacheManager& m) { return is_idle_now(m); });
    if (is_idle || patience.slice_ms() == 0) break;
    wait_for_tiers(self, patience.slice_ms());
  }
  const CallOfUser call(self, manager);
  manager.made.reset();
  manager.tiers.give_back();
}

template <class Function, class... Extra>
void def_of_prompt(nb::class_<Manager>& type, const char* name, Function function,
                   const Extra&... extra) {
  type.def(name, function, nb::arg("prompt"), nb::kw_only(), nb::arg("salt") = nb::bytes("", 0),
           nb::arg("adapter") = 0, nb::arg("retention") = nb::make_tuple(),
           nb::arg("decode_retention") = nb::none(), nb::arg("spans") = nb::make_tuple(), extra...);
}

void bind_loads(nb::class_<Manager>& type) {
  def_of_prompt(type, "admit", &admit,
                R"(As PagePool.admit, and looks in tiers for what memory has not.

While pages are on their way (`loading_tokens`) the sequence has room for them, and commit raises
Error with code "busy"; load_state says when that is over.)");
  def_of_prompt(type, "prefetch", &prefetch,
                "A hint that such a prompt will come: what only tiers have is loaded, so that "
                "admit finds it. Returns the tokens on their way.");
  type.def(
          "resume",
          [](Self self, SequenceId id, nb::handle given) {
            const std::vector<TokenId> tokens = int32_of(given, "tokens");
            return with_manager(self, [&](CacheManager& m) { return take(m.resume(id, tokens)); });
          },
          nb::arg("id"), nb::arg("tokens"), "As PagePool.resume, and looks in tiers as admit does.")
      .def("poll", &poll_manager,
           "Once a step: commits what has come, ends what is over or late, and hands over stores "
           "that wait. Waits for nothing.")
      .def("wait", &wait_for_tiers, nb::arg("timeout_ms") = -1,
           R"(Until a tier has something for poll, so long at most; negative: without end.

False: the time is over, or nothing is under way. Deadlines are looked at by poll. Other threads run
meanwhile.)")
      .def(
          "load_state",
          [](Self self, SequenceId id) {
            return with_manager(self,
                                [&](CacheManager& m) { return state_name(m.load_state(id)); });
          },
          nb::arg("id"),
          "\"none\", \"loading\", \"loaded\" or \"cut_short\": the sequence's length "
          "is what there is; the rest is to be computed.")
      .def(
          "layers_ready",
          [](Self self, SequenceId id) {
            return with_manager(self, [&](CacheManager& m) { return m.layers_ready(id); });
          },
          nb::arg("id"),
          "Leading layers that are in memory for all tokens of the load: advice, void where it is "
          "cut short.")
      .def(
          "cancel_load",
          [](Self self, SequenceId id) {
            with_manager(self, [&](CacheManager& m) { m.cancel_load(id).or_throw(); });
          },
          nb::arg("id"), "The engine computes what has not come yet.");
}

void bind_stores(nb::class_<Manager>& type) {
  type.def(
          "commit",
          [](Self self, SequenceId id, nb::handle given, bool merge) {
            const std::vector<TokenId> tokens = int32_of(given, "tokens");
            with_manager(self, [&](CacheManager& m) {
              m.commit(id, tokens, merge ? Merge::allowed : Merge::refused).or_throw();
            });
          },
          nb::arg("id"), nb::arg("tokens"), nb::kw_only(), nb::arg("merge") = false,
          "As PagePool.commit, and pages are stored as policies say.")
      .def(
          "preempt",
          [](Self self, SequenceId id) {
            with_manager(self, [&](CacheManager& m) { m.preempt(id).or_throw(); });
          },
          nb::arg("id"), "As PagePool.preempt, likewise.")
      .def(
          "release",
          [](Self self, SequenceId id) {
            with_manager(self, [&](CacheManager& m) { m.release(id).or_throw(); });
          },
          nb::arg("id"), "As PagePool.release, likewise.")
      .def(
          "give_up_stores",
          [](Self self) {
            return with_manager(self, [](CacheManager& m) { return m.give_up_stores(); });
          },
          "For an engine that is short of pages: those that wait to be stored are not. Returns how "
          "many.")
      .def(
          "figures",
          [](Self self) {
            return with_manager(self, [](CacheManager& m) { return figures_of(m.figures()); });
          },
          "Counts of pages, of all tiers; `loads` and `stores` are calls of tiers under way and "
          "stores that wait.")
      .def(
          "counters",
          [](Self self, size_t tier) {
            return with_manager(
                self, [&](CacheManager& m) { return counters_of(take(m.counters(tier))); });
          },
          nb::arg("tier"), "Of the tier with this index.")
      .def("close", &close_manager, nb::arg("timeout_ms") = 30'000,
           R"(Waits for what is under way, so long at most, cancels the rest and gives tiers back.

Every later call raises Error. The pool stays as it is.)")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> CacheManager"))
      .def(
          "__exit__", [](Self self, nb::args) { close_manager(self, 30'000); }, nb::arg("args"),
          nb::sig("def __exit__(self, *args: object) -> None"))
      .def_prop_ro(
          "pool", [](const Manager& m) { return m.pool; }, nb::sig("def pool(self, /) -> PagePool"))
      .def_prop_ro(
          "tiers", [](const Manager& m) { return m.tiers.all(); },
          nb::sig("def tiers(self, /) -> list[Tier]"), "In their order; none once it is closed.");
}

void bind_below(nb::module_& m) {
  const tier::TierOfCache defaults;
  nb::class_<TierBelow>(m, "TierBelow", "A tier, and what a CacheManager does with it.")
      .def_ro("tier", &TierBelow::tier, nb::for_getter(nb::sig("def tier(self, /) -> Tier")));
  m.def("below", &below, nb::arg("tier"), nb::arg("policy") = "write_back", nb::kw_only(),
        nb::arg("promotes") = false, nb::arg("min_hits") = defaults.min_hits,
        nb::arg("max_store_bytes") = defaults.max_store_bytes,
        nb::arg("faults_to_rest") = defaults.faults_to_rest,
        nb::arg("first_rest_ms") = defaults.first_rest_ms,
        nb::arg("longest_rest_ms") = defaults.longest_rest_ms,
        R"(A tier below a CacheManager, and when full pages are stored there.

policy: "write_through": when they become full, or have been found min_hits times; "write_back":
when a sequence that has them ends; "at_eviction": when the pool evicts them, as far as spare_pages
go; "none". promotes: pages that come from a tier behind this one are stored here. max_store_bytes:
of the pool, held for pages that wait to be stored or are being stored. faults_to_rest: loads or
stores in a row that fail; there are none then for first_rest_ms, which doubles up to
longest_rest_ms.)");
}

}  // namespace

void bind_cache_manager(nb::module_& m) {
  bind_below(m);
  nb::class_<tier::TieredAdmission>(m, "TieredAdmission", "What admit found.")
      .def_ro("id", &tier::TieredAdmission::id)
      .def_ro("cached_tokens", &tier::TieredAdmission::cached_tokens,
              "In memory: the sequence's length.")
      .def_ro("loading_tokens", &tier::TieredAdmission::loading_tokens,
              "Behind these, on their way.");
  const tier::CacheManagerOptions defaults;
  nb::class_<Manager> type(m, "CacheManager",
                           R"(A pool, and the tiers below it: admit finds pages there, too.

The engine calls admit, commit, preempt, resume and release of the manager instead of the pool's,
and poll once a step; everything else of the pool. Keeps pool, planes and tiers; nobody else may
store to the tiers, load from them or close them. One thread calls it, the one that calls the pool;
wait may be another's.)",
                           nb::type_slots(slots_of_user<Manager>));
  type.def("__init__", &make_manager, nb::arg("pool"), nb::arg("planes").none() = nb::none(),
           nb::arg("tiers") = nb::make_tuple(), nb::kw_only(), nb::arg("groups") = nb::make_tuple(),
           nb::arg("load_deadline_ms") = defaults.load_deadline_ms,
           nb::arg("store_deadline_ms") = defaults.store_deadline_ms,
           nb::arg("min_load_pages") = defaults.min_load_pages, nb::arg("load_order") = "extents",
           nb::arg("spare_pages") = defaults.spare_pages,
           nb::arg("close_wait_ms") = defaults.close_wait_ms,
           R"(pool: with prefix_reuse, name and max_io_pins: pages that transfers hold at once.

planes: a KVCache, or a sequence of Pages, one a layer: where the pool's pages are. tiers: the
fastest first, each a Tier, which is written back to, or what tiers.below gives. groups: of a pool
with groups, instead of planes, in its order: {"planes": Pages of layers, or "states": arrays with
pages along the first axis, "layers": their numbers in the model, "hit_interval": tokens} each.
load_deadline_ms, store_deadline_ms: 0: none. min_load_pages: fewer are computed. load_order:
"pages" or "extents", layer by layer where the tier can. spare_pages: for "at_eviction".
close_wait_ms: for tiers that do not answer, when the manager goes without close.)");
  bind_loads(type);
  bind_stores(type);
}

}  // namespace folio::python
