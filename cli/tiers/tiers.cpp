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

#include "folio/core/buffer.h"
#include "folio/names/sha256_names.h"
#include "folio/tier/cache_manager.h"
#include "parts/parallel.h"
#include "tiers/payload_pattern.h"
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

/// A payload as a shape of one plane: bytes by page and token.
KVShape payload_shape(int64_t payload_bytes, int32_t page_size) {
  return {.head_size = static_cast<int32_t>(payload_bytes / page_size),
          .page_size = page_size,
          .dtype = DType::i8,
          .is_mla = true};
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
      : choice_(choice),
        demand_(demand),
        names_(std::move(names)),
        shape_(payload_shape(choice.payload_bytes, demand.page_size)) {}

  Status make(TierKind kind, const Digest256& fingerprint) {
    auto made = make_tier(kind, choice_, demand_.page_bytes, io_pins(), fingerprint);
    if (!made) return made.error();
    Below& below = tiers_[static_cast<size_t>(kind)];
    below.made = std::move(*made);
    if (below.made.tier) below.first_pages = below.made.tier->figures().pages;
    return {};
  }

  void prepare(PoolOptions& options) override {
    options.name = names_.function();
    options.max_io_pins = static_cast<uint32_t>(io_pins());
  }
  double required_bytes(int64_t pages) const override {
    double bytes = static_cast<double>(pages) * static_cast<double>(choice_.payload_bytes);
    const MadeTier& host = tiers_[static_cast<size_t>(TierKind::host)].made;
    if (host.tier)
      bytes += static_cast<double>(std::min(host.most_pages, demand_.all_pages)) *
               static_cast<double>(choice_.payload_bytes);
    return bytes;
  }
  Status attach(PagePool& pool) override;

  Result<TieredAdmit> admit(std::span<const TokenId> prompt) override;
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
  using Counts = std::array<int64_t, num_tiers>;

  /// Loads and stores of a step: each of its pages in each tier, once more where its sequence ends,
  /// and those of one load.
  int64_t io_pins() const {
    constexpr int64_t most = int64_t{1} << 24;
    const auto tiers = static_cast<int64_t>(num_tiers);
    return std::min(((tiers + 1) * demand_.max_batch + 1) * demand_.longest_pages, most);
  }
  Counts loaded_pages() const {
    Counts counts = {};
    for (size_t t = 0; t < num_tiers; ++t)
      if (tiers_[t].made.tier) counts[t] = manager_->counters(tiers_[t].index)->loaded_pages;
    return counts;
  }
  MemorySpan page_at(SequenceId id, int64_t position) const {
    const uint32_t page = pool_->table().entries[pool_->row_start(id).value() + position];
    return {memory_.data() + int64_t{page} * choice_.payload_bytes, choice_.payload_bytes};
  }
  Status check_found(SequenceId id, std::span<const TokenId> prompt, const TieredAdmit& admit);
  void divide(const Counts& before, double seconds, TieredAdmit& admit);

  TierChoice choice_;
  TierDemand demand_;
  Sha256Names names_;
  KVShape shape_;
  std::array<Below, num_tiers> tiers_;
  PagePool* pool_ = nullptr;
  Buffer memory_;
  std::vector<KVPlanes> planes_;
  std::unique_ptr<CacheManager> manager_;  // dies before the tiers and the memory
  std::map<SequenceId, PagePattern> patterns_;
  int64_t checked_pages_ = 0;
  double wait_seconds_ = 0.0;
};

Status Pages::attach(PagePool& pool) {
  pool_ = &pool;
  auto memory = Buffer::allocate(int64_t{pool.num_pages()} * choice_.payload_bytes);
  if (!memory) return memory.error();
  memory_ = std::move(*memory);
  auto planes = make_planes(shape_, pool.num_pages(), memory_.span());
  if (!planes) return planes.error();
  planes_ = std::move(*planes);
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
  auto manager = CacheManager::create({.pool = &pool,
                                       .name = names_.function(),
                                       .planes = planes_,
                                       .tiers = tiers,
                                       .load_deadline_ms = choice_.load_deadline_ms,
                                       .store_deadline_ms = 0});
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
    admit.memory = admission->cached_tokens;
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
  divide(before, seconds, admit);
  if (Status s = check_found(admit.id, prompt, admit); !s.is_ok()) return s;
  return admit;
}

/// What came from which tier.
void Pages::divide(const Counts& before, double seconds, TieredAdmit& admit) {
  const Counts now = loaded_pages();
  for (size_t t = 0; t < num_tiers; ++t) {
    const int64_t of_tier = now[t] - before[t];
    if (of_tier == 0) continue;
    admit.tiers[t] = static_cast<int32_t>(of_tier * demand_.page_size);
    tiers_[t].load_seconds.push_back(seconds);
    if (choice_.gbytes_per_second[t] != 0.0)
      tiers_[t].modelled_seconds.push_back(static_cast<double>(of_tier) *
                                           static_cast<double>(demand_.page_bytes) /
                                           (choice_.gbytes_per_second[t] * 1e9));
  }
}

Status Pages::check_found(SequenceId id, std::span<const TokenId> prompt,
                          const TieredAdmit& admit) {
  if (damages_loads() && admit.found() > admit.memory) {
    const MemorySpan last = page_at(id, admit.found() / demand_.page_size - 1);
    static_cast<std::byte*>(last.data)[last.bytes - 1] ^= std::byte{1};
  }
  PagePattern& pattern = patterns_[id];
  const int64_t pages = admit.found() / demand_.page_size;
  for (int64_t p = 0; p < pages; ++p) {
    pattern.go_on(prompt.subspan(static_cast<size_t>(p * demand_.page_size),
                                 static_cast<size_t>(demand_.page_size)));
    ++checked_pages_;
    if (pattern.is_in(page_at(id, p))) continue;
    const bool is_loaded = p * demand_.page_size >= admit.memory;
    return {Errc::internal, fmt::format("page {} of {} that a prompt found has wrong bytes; it was "
                                        "{}",
                                        p, pages, is_loaded ? "loaded" : "in memory")};
  }
  return {};
}

Status Pages::commit(SequenceId id, std::span<const TokenId> written) {
  const auto length = pool_->length(id);
  if (!length) return length.error();
  PagePattern& pattern = patterns_[id];
  int64_t position = *length / demand_.page_size;
  // Pages that become full with these tokens.
  for (const TokenId token : written)
    if (pattern.add(token, demand_.page_size)) pattern.write_to(page_at(id, position++));
  Status s = manager_->commit(id, written);
  settle();  // a page that is stored while it is released would be cached out of order
  return s;
}

TieredFigures Pages::figures() const {
  const CacheManagerFigures manager = manager_->figures();
  TieredFigures figures{.page_bytes = demand_.page_bytes,
                        .payload_bytes = choice_.payload_bytes,
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
  const Digest256 fingerprint = digest_of(demand.fingerprint);
  auto names = Sha256Names::create({.fingerprint = fingerprint});
  if (!names) return names.error();
  auto pages = std::make_unique<Pages>(choice, demand, std::move(*names));
  for (const TierKind kind : {TierKind::host, TierKind::disk, TierKind::redis})
    if (Status s = pages->make(kind, fingerprint); !s.is_ok()) return s;
  return std::unique_ptr<TieredPages>(std::move(pages));
}

}  // namespace folio::cli
