// SPDX-License-Identifier: Apache-2.0
/// pool/lookup.h: what of a prompt can be found, and how sequences come to be found.
///
/// Two indices answer: PrefixIndex for whole pages, HeadIndex for a hit that ends inside one. What
/// comes before a page's tokens (salt, adapter, items) are namespaces of theirs.
#pragma once

#include <cstdint>
#include <span>

#include "pool/lookup/item_spans.h"
#include "pool/lookup/namespaces.h"
#include "pool/outside/event_log.h"
#include "pool/rows.h"

namespace folio::inline v1::pool {

struct Lookup : Rows {
  using Rows::Rows;

  /// Pages that a prompt begins with.
  struct Match {
    uint32_t pages = 0;
    uint32_t last = no_page;  ///< of these; findable
    /// what the next page continues; 0 if nothing can be found behind it
    uint64_t content = 0;
    /// the hit goes on in a tail, which has the states that the last of these pages lacks
    bool states_of_tail = false;
    uint32_t leading = 0;  ///< pages that match in the leading group
  };

  // What can be found: match.cpp.
  [[nodiscard]] uint32_t lookup_limit(size_t prompt_tokens) const noexcept {
    return static_cast<uint32_t>((prompt_tokens - 1) / static_cast<size_t>(options.page_size));
  }
  /// Findable pages of the longest prefix of `prompt`, at most `limit`; written to `found` unless
  /// null.
  /// `without_states`, if not null, becomes the longest one that all other groups can serve; so far
  /// `found` is written.
  [[nodiscard]] Match match(uint32_t space, const TokenId* prompt,
                            std::span<const ContentSpan> spans, uint32_t limit, uint32_t* found,
                            Match* without_states = nullptr) const noexcept;
  /// As `match`, for a prompt that will be admitted: where a tail goes on behind pages that lack
  /// states and there are pages for its copies, these pages count.
  [[nodiscard]] Match match_prompt(uint32_t space, std::span<const TokenId> prompt,
                                   std::span<const ContentSpan> spans,
                                   uint32_t* found) const noexcept;
  /// Tokens that `prompt` goes on with inside a page, behind the pages that match, if there is a
  /// page for the copy.
  [[nodiscard]] int32_t peek_partial(uint32_t space, const Match& match,
                                     std::span<const TokenId> prompt,
                                     std::span<const ContentSpan> spans) const noexcept;

  /// Pages that `prompt` goes on with behind the sequence's own, which are whole: as many as match
  /// in the leading group before page `limit` of the prompt are written to found[pages],
  /// found[pages + 1], ... Returns how many.
  [[nodiscard]] uint32_t match_behind(const SequenceRecord& s, const TokenId* prompt,
                                      uint32_t limit, uint32_t* found) const noexcept;

  // Sequences find: admissions.cpp.
  /// The longest cached prefix of `prompt` becomes the sequence's, which has nothing. Returns its
  /// tokens.
  [[nodiscard]] int32_t hold_prefix(SequenceRecord& s, std::span<const TokenId> prompt) noexcept;

  /// Items that begin before page `end`, whose pages are findable, are the sequence's from now on.
  void enter_pages(const SequenceRecord& s, uint32_t end) noexcept {
    while (items.page_to_open(index_of(s)) < end)
      (void)enter_page(s, items.page_to_open(index_of(s)));
  }
  /// A leading page that was found is held.
  void note_found(uint32_t page) noexcept {
    if (ages.on()) ages.found(page);
    with_policy([page](auto& policy) { policy.found(page); });
  }

  // Sequences become found: contents.cpp.
  /// Pages first .. last - 1 of the row have become full.
  void name_full_pages(const SequenceRecord& s, uint32_t first, uint32_t last,
                       bool merges) noexcept;
  /// Gives up all pages, as the sequence asked to have them kept.
  void give_up(SequenceRecord& s) noexcept;
  [[nodiscard]] pool::Before before_page(const SequenceRecord& s,
                                         uint32_t position) const noexcept {
    if (position == 0) return beginning(s.space);
    const PageRecord& last = records[row(s)[position - 1]];
    return {last.content, last.hash};
  }

  // Names: page_names.cpp.
  /// The name of a full page of the sequence; those before it get theirs, too.
  [[nodiscard]] Result<PageName> name_of(const SequenceRecord& s, int32_t position) noexcept;
  /// Of the sequence's page `position` with these tokens, behind the page of that name.
  [[nodiscard]] Status give_name(const SequenceRecord& s, int32_t position, const PageName* parent,
                                 std::span<const TokenId> full_page, PageName& name) noexcept;
  [[nodiscard]] Status name_companions(uint32_t group, std::span<const PageName> leading,
                                       std::span<PageName> names) noexcept;
  [[nodiscard]] Status check_events(const char* call,
                                    std::span<const PoolEvent> into) const noexcept;

  /// Events, if the pool has any, tell of what comes to be found and ceases to be, or no longer do.
  void tell_events(bool on) noexcept;
  /// A companion as events tell of it, or a snapshot; null names where its leading page has none.
  struct CompanionEvent {
    EventLog::Brief brief;
    EventLog::Names names;
  };
  [[nodiscard]] CompanionEvent companion_event(PoolEventKind kind, uint32_t group,
                                               uint32_t leading) const noexcept;

  Namespaces namespaces;
  ItemSpans items;
  EventLog events;
  PoolStats counters;  ///< the fields of lookups and hits

 private:
  /// Tokens that a prompt goes on with inside a page.
  struct PartialMatch {
    uint32_t page = no_page;
    int32_t tokens = 0;
  };

  [[nodiscard]] Before beginning(uint32_t space) const noexcept {
    return {namespaces[space].content, namespaces[space].hash};
  }
  /// What comes before the page's tokens, items included, which become open: those of earlier pages
  /// are.
  [[nodiscard]] Before enter_page(const SequenceRecord& s, uint32_t position) noexcept {
    const Before before = before_page(s, position);
    return items.is_on() ? items.open(before, position, index_of(s)) : before;
  }
  /// As `match`, whatever other groups have of these pages, which `joint` is told if it is not
  /// null.
  [[nodiscard]] Match match_leading(uint32_t space, const TokenId* prompt,
                                    std::span<const ContentSpan> spans, uint32_t limit,
                                    uint32_t* found, JointHit* joint) const noexcept;
  /// As `match_leading`, behind `all` that match, which `before` is.
  [[nodiscard]] Match match_on(Match all, Before before, const TokenId* prompt,
                               std::span<const ContentSpan> spans, uint32_t limit, uint32_t* found,
                               JointHit* joint) const noexcept;
  /// As `match_leading`, from one item to the next, `before` being what the first page continues.
  [[nodiscard]] Match match_run(Before before, const TokenId* prompt, uint32_t limit,
                                uint32_t* found, JointHit* joint) const noexcept;
  /// As `name_full_pages`, for pages in which no item begins, but in the first.
  void name_run(const SequenceRecord& s, uint32_t first, uint32_t last, bool merges,
                Before before) noexcept;
  /// The position behind the last one before `end` whose page has a name, 0 without one.
  [[nodiscard]] int32_t end_of_named(const SequenceRecord& s, int32_t end) const noexcept;
  /// The content of the sequence's page `position` can be found from now on.
  void tell_stored(const SequenceRecord& s, uint32_t position) noexcept;
  void tell_companion(PoolEventKind kind, uint32_t group, uint32_t leading) noexcept;
  /// `twin`, which is findable, takes the place of a page of the row.
  void merge(uint32_t& page, uint32_t twin) noexcept;

  /// Tells retention and the policy of a sequence that is about to give up all its pages. Nothing
  /// where neither asks.
  void note_end(const SequenceRecord& s) noexcept;
  /// Asks to keep them as the sequence said.
  void keep_pages(const SequenceRecord& s) noexcept;
  void note_cost(const SequenceRecord& s) noexcept;

  // Hits that end inside a page: partial_hits.cpp.
  /// What `prompt` goes on with behind the pages that match.
  [[nodiscard]] PartialMatch match_partial(const Match& match,
                                           std::span<const TokenId> prompt) const noexcept;
  /// Gives a sequence, which holds the pages that match, a page for the tokens behind them.
  void admit_partial(SequenceRecord& s, const Match& match,
                     std::span<const TokenId> prompt) noexcept;
  /// Of pages first .. last - 1 of the row, those whose content is younger than `known` come to
  /// answer for their heads.
  void add_heads(const SequenceRecord& s, uint32_t first, uint32_t last, uint64_t known) noexcept;
  /// The findable page that the sequence's page `position` continues, unless it begins the
  /// sequence.
  [[nodiscard]] uint32_t parent_page(const SequenceRecord& s, uint32_t position) const noexcept {
    return position == 0 ? no_page : index.findable_twin(row(s)[position - 1]);
  }
  /// Makes the cut last page of a sequence that is about to give up all its pages one that is kept.
  void keep_tail(const SequenceRecord& s) noexcept;
  /// Whether its first `count` tokens, as many as match, can be copied in all groups.
  [[nodiscard]] bool answers_partial(uint32_t page, int32_t count) const noexcept {
    return groups.serve_partial(page, count, fill_of(page));
  }
  /// Whether there are pages for copies from `page` and its companions: the `needs`. Holding the
  /// rest of the hit binds at most `revived` slabs.
  [[nodiscard]] bool can_copy_groups(uint32_t page, uint64_t revived,
                                     GroupNeeds& needs) const noexcept;
  /// The first `count` tokens of the companions of `leading` become the sequence's, behind its
  /// whole pages.
  void copy_companions(const SequenceRecord& s, uint32_t leading, int32_t count) noexcept;
  /// The last pages of a sequence that ends become companions of its tail.
  void keep_group_tail(const SequenceRecord& s, uint32_t tail) noexcept;
};

}  // namespace folio::inline v1::pool
