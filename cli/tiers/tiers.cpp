// SPDX-License-Identifier: Apache-2.0
/// cli/tiers/tiers.cpp: a CacheManager over tiers, and pages whose bytes can be foretold.
#include "tiers/tiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <numeric>
#include <thread>

#include "folio/names/sha256_names.h"
#include "folio/tier/cache_manager.h"
#include "parts/parallel.h"
#include "tiers/payload_pages.h"
#include "tiers/tier_media.h"

namespace folio::cli {
namespace {

/// Of all that names and records depend on beside tokens.
Digest256 digest_of(const std::string& fingerprint) {
  Digest256 digest;
  uint64_t hash = 0;
  size_t at = 0;
  for (const char c : fingerprint) {
    hash = mix(hash ^ static_cast<uint8_t>(c));
    digest.bytes[at++ % digest.bytes.size()] ^= static_cast<uint8_t>(hash);
  }
  return digest;
}

/// The test build that must fail damages what has been loaded.
constexpr bool damages_loads() {
#ifdef FOLIO_MUTANT_DAMAGED_LOAD
  return true;
#else
  return false;
#endif
}

/// Counts by the names of an enumeration that counts from 0.
template <class Reason, size_t Count>
ReasonCounts named(const int64_t (&counts)[Count]) {
  ReasonCounts result;
  for (size_t i = 0; i < Count; ++i) result.emplace_back(name(static_cast<Reason>(i)), counts[i]);
  return result;
}

class Pages final : public TieredPages {
 public:
  Pages(const TierChoice& choice, const TierDemand& demand, Sha256Names names)
      : choice_(choice), demand_(demand), names_(std::move(names)) {}

  Status make(TierKind kind, const Digest256& fingerprint) {
    auto made = make_tier(kind, choice_, {demand_.kinds, io_pins(), fingerprint});
    if (!made) return made.error();
    Below& below = tiers_[static_cast<size_t>(kind)];
    below.made = std::move(*made);
    if (below.made.tier) below.first_pages = below.made.tier->figures().pages;
    return {};
  }

  void prepare(PoolOptions& options) override {
    options.name = names_.function();
    options.max_io_pins =
        static_cast<uint32_t>(io_pins() + std::ssize(demand_.kinds) * choice_.spares());
    if (demand_.kinds.size() > 1) ++options.max_sequences;  // a load's
  }
  double required_bytes(const PoolOptions& options) const override;
  Status attach(PagePool& pool) override;

  Result<TieredAdmit> admit(std::span<const TokenId> prompt) override;
  Status start_over(SequenceId id) override {
    patterns_[id] = PagePattern();
    return pool_->trim(id, 0);
  }
  Status commit(SequenceId id, std::span<const TokenId> written) override;
  Status release(SequenceId id) override {
    patterns_.erase(id);
    Status s = manager_->release(id);
    settle();
    return s;
  }
  /// Waits until tiers have ended all that they were handed, before the manager hears of any of it:
  /// what it does at a poll depends on which pages have ended by then.
  void wait_for_tiers() const {
    const auto sum = [](const auto& counts) {
      return std::accumulate(std::begin(counts), std::end(counts), int64_t{0});
    };
    for (const Below& below : tiers_) {
      if (!below.made.tier) continue;
      const TierCounters manager = manager_->counters(below.index).value();
      const int64_t handed_over = manager.loading_pages + manager.storing_pages +
                                  sum(manager.load_outcomes) + sum(manager.store_outcomes);
      for (;;) {
        const TierFigures tier = below.made.tier->figures();
        if (sum(tier.load_outcomes) + sum(tier.store_outcomes) == handed_over) break;
        std::this_thread::yield();
      }
    }
  }
  /// Waits until no page is under way.
  void settle() {
    const Timed timed(wait_seconds_);
    for (;;) {
      wait_for_tiers();
      manager_->poll();
      const CacheManagerFigures figures = manager_->figures();
      if (figures.loads + figures.stores == 0) return;
    }
  }
  TieredFigures figures() const override;

 private:
  struct Below {
    MadeTier made;
    size_t index = 0;  ///< of the manager's tiers
    int64_t first_pages = 0;
    std::vector<double> load_seconds, modelled_seconds;
  };
  /// Of each tier, pages by kind.
  using Counts = std::array<PagesByKind, num_tiers>;

  /// Loads and stores of a step: each of its pages in each tier, once more where its sequence ends,
  /// and those of one load.
  int64_t io_pins() const {
    constexpr int64_t most = int64_t{1} << 24;
    const auto tiers = static_cast<int64_t>(num_tiers);
    int64_t longest = 0;
    for (const PageKind& kind : demand_.kinds) longest += kind.longest_pages;
    return std::min(((tiers + 1) * demand_.max_batch + 1) * longest, most);
  }
  /// `tokens` of the leading kind; all others are the second one.
  PagesByKind by_kind(int64_t pages, int64_t tokens) const {
    if (demand_.kinds.size() == 1) return {pages};
    const int64_t leading = tokens / demand_.page_size;
    return {leading, pages - leading};
  }
  Counts loaded_pages() const {
    Counts counts;
    for (size_t t = 0; t < num_tiers; ++t) {
      if (!tiers_[t].made.tier) continue;
      const TierCounters counters = manager_->counters(tiers_[t].index).value();
      counts[t] = by_kind(counters.loaded_pages, counters.loaded_tokens);
    }
    return counts;
  }
  Status check_found(std::span<const TokenId> prompt, const TieredAdmit& admit, bool has_loaded);
  /// Whether anything was loaded.
  bool divide(const Counts& before, double seconds, TieredAdmit& admit);

  TierChoice choice_;
  TierDemand demand_;
  Sha256Names names_;
  std::array<Below, num_tiers> tiers_;
  PagePool* pool_ = nullptr;
  PayloadPages payloads_;
  std::unique_ptr<CacheManager> manager_;  // dies before the tiers and the memory
  std::map<SequenceId, PagePattern> patterns_;
  int64_t checked_pages_ = 0;
  double wait_seconds_ = 0.0;
};

double Pages::required_bytes(const PoolOptions& options) const {
  const MadeTier& host = tiers_[static_cast<size_t>(TierKind::host)].made;
  double bytes = 0.0, in_host = 0.0;
  for (const PageKind& kind : demand_.kinds) {
    const int64_t pages =
        options.arena_bytes != 0 ? options.arena_bytes / kind.page_bytes : options.num_pages;
    bytes += static_cast<double>(pages) * static_cast<double>(kind.payload_bytes);
    in_host += static_cast<double>(kind.all_pages) * static_cast<double>(kind.payload_bytes);
  }
  if (host.tier) bytes += std::min(in_host, static_cast<double>(host.most_bytes));
  return bytes;
}

Status Pages::attach(PagePool& pool) {
  pool_ = &pool;
  auto payloads = PayloadPages::create(pool, demand_.kinds);
  if (!payloads) return payloads.error();
  payloads_ = std::move(*payloads);
  const StorePolicy policy = static_cast<StorePolicy>(choice_.store);
  std::vector<TierOfCache> tiers;
  for (Below& below : tiers_) {
    if (!below.made.tier) continue;
    below.index = tiers.size();
    tiers.push_back({.tier = below.made.tier.get(),
                     .policy = policy,
                     .min_hits = choice_.min_hits,
                     .promotes = choice_.promotes,
                     .max_store_bytes = int64_t{1} << 50});
  }
  CacheManagerOptions options{.pool = &pool,
                              .name = names_.function(),
                              .tiers = tiers,
                              .load_deadline_ms = choice_.load_deadline_ms,
                              .store_deadline_ms = 0,
                              .spare_pages = choice_.spares()};
  payloads_.describe(options, choice_.hit_interval);
  auto manager = CacheManager::create(options);
  if (!manager && manager.error().code() == Errc::out_of_pages)
    return {Errc::invalid_argument,
            fmt::format("--spare-pages: the pool has no {} pages of each kind to spare",
                        choice_.spares())};
  if (!manager) return manager.error();
  manager_ = std::make_unique<CacheManager>(std::move(*manager));
  return {};
}

Result<TieredAdmit> Pages::admit(std::span<const TokenId> prompt) {
  const Counts before = loaded_pages();
  TieredAdmit admit;
  double seconds = 0.0;
  {
    const Timed timed(seconds);
    const auto admission = manager_->admit(prompt);
    if (!admission) return admission.error();
    admit.id = admission->id;
    admit.completed = -admission->cached_tokens;
    while (manager_->load_state(admit.id) == LoadState::loading) {
      if (choice_.load_deadline_ms == 0)
        wait_for_tiers();
      else
        std::this_thread::yield();
      manager_->poll();
    }
  }
  wait_seconds_ += seconds;
  settle();  // what the load leaves: promotions, and pages that a tier still writes to
  const bool has_loaded = divide(before, seconds, admit);
  if (Status s = check_found(prompt, admit, has_loaded); !s.is_ok()) return s;
  return admit;
}

/// What came from which tier. All that is found beside is memory's; where it has its leading pages
/// alone, pages of other groups came.
bool Pages::divide(const Counts& before, double seconds, TieredAdmit& admit) {
  const Counts now = loaded_pages();
  bool has_loaded = false;
  admit.memory = pool_->length(admit.id).value();
  for (size_t t = 0; t < num_tiers; ++t) {
    PagesByKind of_tier = now[t];
    for (size_t k = 0; k < of_tier.size(); ++k) of_tier[k] -= before[t][k];
    const int64_t bytes = model_bytes(demand_.kinds, of_tier);
    if (bytes == 0) continue;
    has_loaded = true;
    admit.tiers[t] = static_cast<int32_t>(of_tier.front() * demand_.page_size);
    admit.memory -= admit.tiers[t];
    tiers_[t].load_seconds.push_back(seconds);
    if (choice_.gbytes_per_second[t] != 0.0)
      tiers_[t].modelled_seconds.push_back(static_cast<double>(bytes) /
                                           (choice_.gbytes_per_second[t] * 1e9));
  }
  admit.completed += admit.memory;
  return has_loaded;
}

Status Pages::check_found(std::span<const TokenId> prompt, const TieredAdmit& admit,
                          bool has_loaded) {
  if (damages_loads() && has_loaded) payloads_.damage(admit.id, admit.found());
  const auto tokens = prompt.first(static_cast<size_t>(admit.found()));
  const auto fault = payloads_.fault_of(admit.id, tokens, patterns_[admit.id], checked_pages_);
  if (!fault) return {};
  const bool is_loaded =
      fault->group == 0 ? fault->page * demand_.page_size >= admit.memory : has_loaded;
  return {Errc::internal,
          fmt::format("page {} of {}{} that a prompt found {}; it was {}", fault->page,
                      admit.found() / demand_.page_size,
                      fault->group == 0 ? "" : fmt::format(", of group {},", fault->group),
                      fault->is_missing ? "is not in its row" : "has wrong bytes",
                      is_loaded ? "loaded" : "in memory")};
}

Status Pages::commit(SequenceId id, std::span<const TokenId> written) {
  const auto length = pool_->length(id);
  if (!length) return length.error();
  PagePattern& pattern = patterns_[id];
  int64_t position = *length / demand_.page_size;
  // Pages that become full with these tokens.
  for (const TokenId token : written)
    if (pattern.add(token, demand_.page_size)) payloads_.fill(id, position++, pattern);
  const int64_t tokens = *length + std::ssize(written);
  if (tokens % demand_.page_size == 0) payloads_.fill_states(id, tokens, pattern);
  Status s = manager_->commit(id, written);
  settle();  // a page that is stored while it is released would be cached out of order
  return s;
}

TieredFigures Pages::figures() const {
  const CacheManagerFigures manager = manager_->figures();
  TieredFigures figures{.kinds = demand_.kinds,
                        .asked_pages = manager.asked_pages,
                        .found_pages = manager.found_pages,
                        .loaded_pages = manager.loaded_pages,
                        .lost_pages = manager.lost_pages,
                        .stored_pages = manager.stored_pages,
                        .unstored_pages = manager.unstored_pages,
                        .checked_pages = checked_pages_,
                        .wait_seconds = wait_seconds_};
  for (size_t t = 0; t < num_tiers; ++t) {
    const Below& below = tiers_[t];
    if (!below.made.tier) continue;
    const TierFigures tier = below.made.tier->figures();
    const TierCounters counters = manager_->counters(below.index).value();
    const Status fault = below.made.tier->last_fault();
    figures.tiers[t] = {.is_used = true,
                        .place = below.made.place,
                        .most_pages = below.made.most_pages,
                        .first_pages = below.first_pages,
                        .pages = tier.pages,
                        .stored_pages = counters.stored_pages,
                        .loaded_pages = counters.loaded_pages,
                        .dropped_pages = tier.dropped_pages,
                        .stored_by_kind = by_kind(counters.stored_pages, counters.stored_tokens),
                        .loaded_by_kind = by_kind(counters.loaded_pages, counters.loaded_tokens),
                        .promoted_pages = counters.promoted_pages,
                        .stored_bytes = counters.stored_bytes,
                        .loaded_bytes = counters.loaded_bytes,
                        .load_outcomes = named<TierOutcome>(counters.load_outcomes),
                        .store_outcomes = named<TierOutcome>(counters.store_outcomes),
                        .not_loaded = named<LoadRefusal>(counters.not_loaded),
                        .not_stored = named<StoreRefusal>(counters.not_stored),
                        .load_rests = named<RestReason>(counters.load_rests.begun),
                        .store_rests = named<RestReason>(counters.store_rests.begun),
                        .last_fault = fault.is_ok() ? "" : std::string(fault.message()),
                        .load_seconds = below.load_seconds,
                        .modelled_seconds = below.modelled_seconds};
  }
  return figures;
}

}  // namespace

Result<std::unique_ptr<TieredPages>> make_tiered_pages(const TierChoice& choice,
                                                       const TierDemand& demand) {
  TierDemand full = demand;
  choose_payloads(choice, full.kinds);
  for (const PageKind& kind : full.kinds)
    if (full.kinds.size() > 1 || choice.payload_bytes == 0)
      full.fingerprint += fmt::format("; {} bytes as {}", kind.page_bytes, kind.payload_bytes);
  const Digest256 fingerprint = digest_of(full.fingerprint);
  auto names = Sha256Names::create({.fingerprint = fingerprint});
  if (!names) return names.error();
  auto pages = std::make_unique<Pages>(choice, full, std::move(*names));
  for (const TierKind kind : {TierKind::host, TierKind::disk, TierKind::redis})
    if (Status s = pages->make(kind, fingerprint); !s.is_ok()) return s;
  return std::unique_ptr<TieredPages>(std::move(pages));
}

}  // namespace folio::cli
