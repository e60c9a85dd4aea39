// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/wild_engine.h: an engine that calls its pool and its manager as it likes, at
/// any time, over two tiers whose pages end in any order; and what it knows of its sequences.
///
/// It writes the word of a token (true_content.h) where the token lies when it computes it, and
/// nowhere else. After each call all tokens that the pool says are committed must have their words,
/// and only tokens that were computed, found or asked for may be committed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "folio/cache/planes.h"
#include "folio/core/buffer.h"
#include "folio/tier/cache_manager.h"
#include "support/random.h"
#include "tier/manager/manual_tier.h"
#include "tier/manager/true_content.h"

namespace folio::test {

class WildEngine {
 public:
  using Tokens = std::vector<TokenId>;
  static constexpr int32_t page_size = 4;

  explicit WildEngine(Rng& rng);

  void call();    ///< one, at random
  void finish();  ///< nothing is held by anybody in the end
  /// What is wrong, or nothing.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  [[nodiscard]] CacheManagerFigures figures() const { return manager_.figures(); }

 private:
  static constexpr size_t slots = page_size;

  struct Sequence {
    SequenceId id;
    TrueContent content;
    Tokens wish = {};      ///< what it goes on with
    size_t coming = 0;     ///< tokens of `wish` that a load may commit; 0: none may come
    Tokens early = {};     ///< computed behind these already
    uint64_t edits = 0;    ///< changes of its row by the engine
    bool in_step = false;  ///< computes
  };
  struct Step {
    struct Part {
      SequenceId id;
      uint64_t edits;
      Tokens tokens;
    };
    struct Write {
      uint64_t* key;
      uint64_t word;
    };
    StepTicket ticket;
    std::vector<Part> parts = {};
    std::vector<Write> writes = {};
  };

  // Calls.
  void admit();
  void prefetch();
  void compute(Sequence& s);
  void compute_early(Sequence& s);
  void commit_while_loading(Sequence& s);
  void reserve_several();
  void begin_step();
  void end_step();
  void fork(Sequence& s);
  void keep_path(Sequence& s);
  void trim(Sequence& s);
  void preempt(Sequence& s);
  void resume(Sequence& s);
  void release(SequenceId id);
  void empty();
  void ask_names(Sequence& s);
  void end_pages();
  void end_pages(ManualTier& tier);
  void run_copies();

  // What it knows.
  void blame(const std::string& fault) {
    if (fault_.empty()) fault_ = fault;
  }
  Sequence* find(SequenceId id);
  [[nodiscard]] bool is_loading(const Sequence& s) const {
    return manager_.load_state(s.id) == LoadState::loading;
  }
  [[nodiscard]] bool has_pages(const Sequence& s) const {
    return pool_.table().entries[pool_.row_start(s.id).value()] != pool_.num_pages();
  }
  static void edit(Sequence& s);
  /// That a call gave.
  void begin(Sequence& s, Tokens tokens, int32_t cached, int32_t loading);
  Tokens next_tokens(Sequence& s, size_t most);
  Tokens random_prompt();
  std::vector<ContentSpan> random_items(size_t tokens);
  [[nodiscard]] uint64_t* key_at(SequenceId id, size_t position) const;
  void write(const Sequence& s, size_t first, std::span<const uint64_t> words);
  void expect(const Status& status, const char* call) {
    if (!status.is_ok()) blame(std::string(call) + ": " + std::string(status.message()));
  }
  void check();
  void check_sequence(Sequence& s);
  void check_tier(const ManualTier& tier);
  CacheManager make_manager();
  TierOfCache any(ManualTier& tier);

  Rng& rng_;
  const size_t most_sequences_;
  KnownPages known_{page_size};
  std::array<ManualTier, 2> tiers_;
  ManualClock clock_;
  PagePool pool_;
  Buffer memory_;
  std::vector<KVPlanes> planes_;
  CacheManager manager_;
  std::vector<Sequence> sequences_;
  std::vector<Step> steps_;
  bool copies_may_wait_ = false;
  int64_t calls_ = 0;
  std::string fault_;
};

}  // namespace folio::test
