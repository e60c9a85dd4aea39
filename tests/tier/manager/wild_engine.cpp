// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/wild_engine.cpp: which call comes next, what tiers do, and what must hold.
#include "tier/manager/wild_engine.h"

#include <algorithm>

#include "folio/cache/copy.h"
#include "folio/core/execution.h"

namespace folio::test {
namespace {

constexpr size_t max_sequences = 8;

KVShape shape() {
  return {.num_layers = 1,
          .num_heads = 1,
          .head_size = 8,
          .page_size = WildEngine::page_size,
          .dtype = DType::i8};
}

PoolOptions any_pool(Rng& rng, NameFunction name) {
  return {.num_pages = static_cast<uint32_t>(rng.between(6, 20)),
          .page_size = WildEngine::page_size,
          .max_sequences = max_sequences,
          .max_namespaces = static_cast<uint32_t>(rng.between(1, 4)),
          .eviction = static_cast<Eviction>(rng.between(0, 3)),
          .name = name,
          .watermark_pages = rng.chance(0.2) ? 1U : 0U,
          .lookahead_tokens = rng.chance(0.3) ? rng.int_between(1, 5) : 0,
          .min_partial_tokens = rng.int_between(0, 2),
          .max_spans = 3,
          .max_io_pins = static_cast<uint32_t>(rng.between(3, 30))};
}

}  // namespace

// ---- Life

WildEngine::WildEngine(Rng& rng)
    : rng_(rng),
      most_sequences_(static_cast<size_t>(rng.between(2, 6))),
      pool_(std::move(PagePool::create(any_pool(rng, known_.function()))).value()),
      memory_(Buffer::allocate(page_bytes(shape()).value() * pool_.num_pages()).value()),
      planes_(make_planes(shape(), pool_.num_pages(), memory_.span()).value()),
      manager_(make_manager()) {
  for (ManualTier& tier : tiers_) tier.ends_at_once = false;
}

TierOfCache WildEngine::any(ManualTier& tier) {
  return {.tier = &tier,
          .policy = static_cast<StorePolicy>(rng_.between(rng_.chance(0.8) ? 1 : 0, 2)),
          .min_hits = rng_.chance(0.2) ? 1 : 0,
          .promotes = rng_.chance(0.5),
          .max_store_bytes = rng_.between(2, 20) * page_bytes(shape()).value(),
          .faults_to_rest = 5,
          .first_rest_ms = 1,
          .longest_rest_ms = 2};
}

CacheManager WildEngine::make_manager() {
  const TierOfCache below[] = {any(tiers_[0]), any(tiers_[1])};
  return CacheManager::create({.pool = &pool_,
                               .planes = planes_,
                               .tiers = below,
                               .load_deadline_ms = rng_.chance(0.5) ? 20 : 0,
                               .store_deadline_ms = rng_.chance(0.5) ? 20 : 0,
                               .min_load_pages = rng_.chance(0.2) ? 2 : 1,
                               .clock = clock_.clock()})
      .value();
}

void WildEngine::finish() {
  while (!steps_.empty()) end_step();
  for (ManualTier& tier : tiers_) {
    tier.ends_at_once = true;
    tier.load_outcome = tier.store_outcome = TierOutcome::done;
    tier.is_closed = false;
  }
  while (manager_.figures().loads + manager_.figures().stores != 0) manager_.poll();
  check();
  for (const Sequence& s : sequences_) expect(manager_.release(s.id), "release");
  sequences_.clear();
  while (manager_.figures().loads + manager_.figures().stores != 0) manager_.poll();
  manager_.poll();
  run_copies();
  run_copies();  // those that were taken last have run
  const PoolStats stats = pool_.stats();
  if (stats.used_pages != 0 || stats.sequences != 0) blame("pages or sequences are held");
  expect(pool_.check_invariants(), "invariants");
  for (const ManualTier& tier : tiers_) check_tier(tier);
}

void WildEngine::call() {
  struct Choice {
    int weight;
    void (*call)(WildEngine& engine, Sequence& s);
  };
  static constexpr Choice choices[] = {
      {3, [](WildEngine& e, Sequence&) { e.prefetch(); }},
      {18, [](WildEngine& e, Sequence& s) { e.compute(s); }},
      {3, [](WildEngine& e, Sequence& s) { e.compute_early(s); }},
      {1, [](WildEngine& e, Sequence& s) { e.commit_while_loading(s); }},
      {2, [](WildEngine& e, Sequence&) { e.reserve_several(); }},
      {3, [](WildEngine& e, Sequence&) { e.begin_step(); }},
      {3, [](WildEngine& e, Sequence&) { e.end_step(); }},
      {2, [](WildEngine& e, Sequence& s) { e.fork(s); }},
      {2, [](WildEngine& e, Sequence& s) { e.keep_path(s); }},
      {3, [](WildEngine& e, Sequence& s) { e.trim(s); }},
      {2, [](WildEngine& e, Sequence& s) { e.preempt(s); }},
      {5, [](WildEngine& e, Sequence& s) { e.resume(s); }},
      {3, [](WildEngine& e, Sequence& s) { e.release(s.id); }},
      {1, [](WildEngine& e, Sequence& s) { e.ask_names(s); }},
      {1,
       [](WildEngine& e, Sequence& s) { e.expect(e.manager_.cancel_load(s.id), "cancel_load"); }},
      {1, [](WildEngine& e, Sequence&) { e.manager_.give_up_stores(); }},
      {1, [](WildEngine& e, Sequence&) { e.empty(); }},
      {12, [](WildEngine& e, Sequence&) { e.end_pages(); }},
      {1, [](WildEngine& e, Sequence&) { e.clock_.advance_ms(e.rng_.between(1, 4)); }},
      {1, [](WildEngine& e, Sequence&) { e.rng_.pick(e.tiers_).is_closed = e.rng_.chance(0.1); }},
      {3, [](WildEngine& e, Sequence&) { e.run_copies(); }},
      {16, [](WildEngine& e, Sequence&) { e.manager_.poll(); }},
  };
  constexpr int all = [] {
    int sum = 0;
    for (const Choice& choice : choices) sum += choice.weight;
    return sum;
  }();
  if (sequences_.empty() || (sequences_.size() < most_sequences_ && rng_.chance(0.13))) {
    admit();
  } else {
    int64_t left = rng_.between(0, all - 1);
    const Choice* choice = choices;
    for (; left >= choice->weight; ++choice) left -= choice->weight;
    choice->call(*this, rng_.pick(sequences_));
  }
  if (rng_.chance(0.6)) run_copies();
  check();
}

// ---- Tiers and memory

void WildEngine::end_pages() {
  for (ManualTier& tier : tiers_) end_pages(tier);
}

/// A page ends as a tier may end it: with garbage in it unless it is done.
void WildEngine::end_pages(ManualTier& tier) {
  for (int64_t n = rng_.between(1, 6); n > 0 && !tier.pending.empty(); --n) {
    const auto i = static_cast<size_t>(rng_.between(0, std::ssize(tier.pending) - 1));
    ManualTier::Pending& page = tier.pending[i];
    if (rng_.chance(0.5)) page.is_cancelled = false;  // it has begun, and goes on
    const bool fails = rng_.chance(0.1);
    tier.load_outcome = fails ? TierOutcome::corrupt : TierOutcome::done;
    tier.store_outcome = fails ? TierOutcome::full : TierOutcome::done;
    std::vector<std::byte> bytes;
    for (const Extent& e : page.extents) {
      if (page.is_load && (fails || page.is_cancelled) && rng_.chance(0.7))
        std::memset(e.data, 0x55, static_cast<size_t>(e.bytes));
      bytes.insert(bytes.end(), e.data, e.data + e.bytes);
    }
    if (!page.is_load && !known_.are_of(page.name, bytes))
      blame("stores other bytes than the name's");
    tier.end(i);
  }
  if (!tier.pages.empty() && rng_.chance(0.005)) tier.pages.erase(tier.pages.begin());
  if (tier.pages.size() > 200) tier.pages.clear();
}

void WildEngine::run_copies() {
  copy_pages(planes_, planes_, pool_.take_copies(), serial_executor()).or_throw();
  copies_may_wait_ = false;
}

// ---- What must hold

void WildEngine::ask_names(Sequence& s) {
  const size_t pages = s.content.tokens.size() / slots;
  std::vector<PageName> names(pages);
  const auto first = static_cast<size_t>(rng_.between(0, static_cast<int64_t>(pages)));
  const auto rest = std::span(s.content.tokens).first(pages * slots).subspan(first * slots);
  expect(pool_.names_of(s.id, static_cast<int32_t>(first), rest, std::span(names).subspan(first)),
         "names_of");
  for (size_t p = 0; p < pages; ++p) {
    const PageName is = known_.add(s.content, p);
    if (pool_.name(s.id, static_cast<int32_t>(p)).value() != is) blame("another name");
    if (p >= first && names[p] != is) blame("another name for tokens");
  }
}

void WildEngine::check_sequence(Sequence& s) {
  const auto length = static_cast<size_t>(pool_.length(s.id).value());
  TrueContent& content = s.content;
  if (length < content.tokens.size()) return blame("tokens are gone");
  if (length > std::max(content.tokens.size(), s.coming))
    return blame("tokens that nobody asked for");
  if (length > content.tokens.size())
    content.append(std::span(s.wish).first(length).subspan(content.tokens.size()));
  if (s.coming != 0 && !is_loading(s)) {
    if (length != s.coming) s.early.clear();
    s.coming = 0;
  }
  for (size_t p = 0; p < length / slots; ++p) known_.add(content, p);
  const size_t there = copies_may_wait_ ? length / slots * slots : length;
  for (size_t t = 0; t < there; ++t) {
    const uint64_t* const key = key_at(s.id, t);
    if (key[0] != content.words[t] || key[slots] != content.words[t])
      return blame("token " + std::to_string(t) + " has other bytes");
  }
}

void WildEngine::check_tier(const ManualTier& tier) {
  for (const auto& [name, bytes] : tier.pages)
    if (!known_.are_of(name, bytes)) blame("a tier has other bytes than the name's");
}

void WildEngine::check() {
  for (Sequence& s : sequences_) check_sequence(s);
  if (++calls_ % 8 == 0) expect(pool_.check_invariants(), "invariants");
  if (calls_ % 64 == 0)
    for (const ManualTier& tier : tiers_) check_tier(tier);
}

}  // namespace folio::test
