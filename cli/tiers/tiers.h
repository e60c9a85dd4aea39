// SPDX-License-Identifier: Apache-2.0
/// cli/tiers/tiers.h: a replay's pool with tiers below it.
///
/// Each page has bytes, its payload, which stand for those of the model. They are a pattern of all
/// tokens up to the page's end, written when the page becomes full; those of a state, of all tokens
/// that it has seen. Every page that a prompt finds, in memory or below, is compared with its
/// pattern. Calls of tiers have all ended before the manager is told of one, and before the replay
/// goes on, so that what is found does not depend on how long they take.
///
/// Where pages of several groups share a tier, payloads are in proportion to the model's bytes as
/// the tier counts them, headers and whole blocks of a file included: so a tier of so many bytes of
/// the model has room for just these, whatever the mix of pages.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/core/status.h"
#include "folio/pool/page_pool.h"
#include "load/options.h"
#include "parts/bounded_series.h"

namespace folio::cli {

/// Tokens of prompts by where they came from; with several groups: where their leading pages were.
struct TokensBySource {
  int64_t memory = 0;
  int64_t completed = 0;  ///< of these, where other groups' pages had to come from tiers
  std::array<int64_t, num_tiers> tiers = {};
  int64_t computed = 0;

  [[nodiscard]] int64_t in_tiers() const { return tiers[0] + tiers[1] + tiers[2]; }
  [[nodiscard]] int64_t found() const { return memory + in_tiers(); }
  [[nodiscard]] int64_t asked() const { return found() + computed; }
  void add(const TokensBySource& more);
};

/// Some requests in a row.
struct SourceSample {
  int64_t end = 0;  ///< requests so far
  TokensBySource tokens;
  void merge(const SourceSample& later);
};

inline constexpr size_t most_source_samples = 64;

/// Names and pages.
using ReasonCounts = std::vector<std::pair<std::string, int64_t>>;

/// Pages of one kind: all of a pool, or of one of its groups.
struct PageKind {
  int64_t page_bytes = 0;     ///< of the model
  int64_t payload_bytes = 0;  ///< that stand for them; chosen with the tiers
  int64_t all_pages = 0;      ///< of the trace, at most
  int64_t longest_pages = 0;  ///< of a request
};
/// Of the kinds in their order.
using PagesByKind = std::vector<int64_t>;
/// Bytes of the model.
int64_t model_bytes(std::span<const PageKind> kinds, const PagesByKind& pages);

/// Of one tier.
struct OneTier {
  bool is_used = false;
  std::string place;        ///< where it is
  int64_t most_pages = 0;   ///< that it has room for, about; 0: not known
  int64_t first_pages = 0;  ///< that were there before
  int64_t pages = 0;        ///< that are there at the end
  int64_t stored_pages = 0, loaded_pages = 0, dropped_pages = 0;
  PagesByKind stored_by_kind = {}, loaded_by_kind = {};
  int64_t promoted_pages = 0;                  ///< of the stored ones: from a tier below
  int64_t stored_bytes = 0, loaded_bytes = 0;  ///< of payloads
  ReasonCounts load_outcomes, store_outcomes;  ///< what is not done is lost
  ReasonCounts not_loaded, not_stored;         ///< what was not begun
  ReasonCounts load_rests, store_rests;        ///< times that there were none for a while
  std::string last_fault;                      ///< empty: none
  std::vector<double> load_seconds;  ///< of each load: from the admission until it was over
  std::vector<double> modelled_seconds;
};

struct TieredFigures {
  std::vector<PageKind> kinds = {};
  std::array<OneTier, num_tiers> tiers = {};
  int64_t asked_pages = 0, found_pages = 0;      ///< of tiers
  int64_t loaded_pages = 0, lost_pages = 0;      ///< that were found, and came or did not
  int64_t stored_pages = 0, unstored_pages = 0;  ///< handed to tiers, or refused by them
  int64_t checked_pages = 0;                     ///< that were compared with their pattern
  double wait_seconds = 0.0;                     ///< for loads and stores to end
  TokensBySource tokens = {};
  std::vector<SourceSample> samples = {};
};

/// Sums up where tokens came from.
class SourceRecorder {
 public:
  void add(const TokensBySource& request);
  void give(TieredFigures& figures) const;

 private:
  int64_t requests_ = 0;
  TokensBySource tokens_;
  BoundedSeries<SourceSample> samples_{most_source_samples};
};

/// What the tiers of a replay are made for.
struct TierDemand {
  std::vector<PageKind> kinds = {};  ///< at least one; of a pool with groups, one each
  int32_t page_size = 0;             ///< of the pool
  int32_t max_batch = 1;
  std::string fingerprint = {};  ///< stands for the model and how it is stored
};

/// A sequence, and tokens of its prompt: the first ones from memory, then those from each tier.
struct TieredAdmit {
  SequenceId id;
  int32_t memory = 0;
  int32_t completed = 0;  ///< TokensBySource's
  std::array<int32_t, num_tiers> tiers = {};
  [[nodiscard]] int32_t found() const { return memory + tiers[0] + tiers[1] + tiers[2]; }
};

/// Tiers, and from `attach` on the pool above them, which outlives them. One thread calls.
class TieredPages {
 public:
  TieredPages() = default;
  TieredPages(const TieredPages&) = delete;
  TieredPages& operator=(const TieredPages&) = delete;
  virtual ~TieredPages() = default;

  /// What the pool needs.
  virtual void prepare(PoolOptions& options) = 0;
  /// Bytes that payloads take, those of such a pool included.
  [[nodiscard]] virtual double required_bytes(const PoolOptions& options) const = 0;
  /// Errors: out_of_memory; those of CacheManager
  virtual Status attach(PagePool& pool) = 0;

  /// Opens a sequence with what is found, loaded already. Errors: those of the pool; internal where
  /// a page has not its pattern, or a group has no page that a hit needs, naming it
  virtual Result<TieredAdmit> admit(std::span<const TokenId> prompt) = 0;
  /// The sequence gives up what it found.
  virtual Status start_over(SequenceId id) = 0;
  /// These return when what they store is there.
  virtual Status commit(SequenceId id, std::span<const TokenId> written) = 0;
  virtual Status release(SequenceId id) = 0;

  [[nodiscard]] virtual TieredFigures figures() const = 0;
};

/// Makes the tiers that are chosen, first to last. Errors: invalid_argument for a size that holds
/// no page, naming the option; those of the tiers, naming it, too; unsupported where this build has
/// no such tier
Result<std::unique_ptr<TieredPages>> make_tiered_pages(const TierChoice& choice,
                                                       const TierDemand& demand);

/// What a model with one kind of layer asks: pages of so many tokens of the trace, `page_size` of
/// the pool.
struct PlainDemand {
  int32_t tokens = 0;
  int64_t all_pages = 0, longest_pages = 0;
  int32_t page_size = 0;
  int32_t max_batch = 1;
};
/// The tiers that are chosen; null without. Errors: those of make_tiered_pages
Result<std::unique_ptr<TieredPages>> tiers_of(const TierChoice& choice, const ModelOptions& model,
                                              const PlainDemand& demand);

}  // namespace folio::cli
