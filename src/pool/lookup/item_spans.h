// SPDX-License-Identifier: Apache-2.0
/// pool/lookup/item_spans.h: the items of another kind in sequences, as part of what is compared.
///
/// The page in which an item begins does not continue the page before it, but that page *and the
/// item*: a namespace of its own, whose key is {content of the page before, offset in the page,
/// length, hash}, compared exactly. The pages behind continue this one, and with it the item. So
/// the index of pages knows nothing of items, and a page without one costs nothing.
///
/// A sequence opens such namespaces for the items that begin in its full pages. Those that no
/// sequence has open stay known, as many as all sequences together may open; then the one that was
/// closed first is forgotten, and pages behind it are not found any more.
#pragma once

#include <cstdint>
#include <span>

#include "folio/pool/page_pool.h"
#include "pool/lookup/namespaces.h"

namespace folio::inline v1::pool {

/// All that comes before a page's tokens.
struct Before {
  uint64_t content = 0;  ///< 0: nothing that is known
  uint32_t hash = 0;     ///< of the chain
};

class ItemSpans {
 public:
  /// Of a sequence.
  struct Count {
    uint32_t given = 0;   ///< spans of its row
    uint32_t opened = 0;  ///< of these, the first ones: those that begin in its full pages
  };
  struct Memory {
    ContentSpan* spans = nullptr;    ///< [max_sequences, max_spans], offsets in the sequence
    uint32_t* namespaces = nullptr;  ///< as spans: what each has opened
    Count* counts = nullptr;         ///< [max_sequences]
    ContentSpan* of_page = nullptr;  ///< [max_in_page()]
    Namespace* entries = nullptr;    ///< [num_namespaces()]
    uint32_t* buckets = nullptr;     ///< [Namespaces::num_buckets(num_namespaces())]
  };
  [[nodiscard]] static int64_t num_namespaces(const PoolOptions& options) noexcept {
    return 2 * int64_t{options.max_sequences} * options.max_spans;
  }
  [[nodiscard]] static int64_t max_in_page(const PoolOptions& options) noexcept;

  /// Without memory, there are none.
  void attach(const Memory& memory, const PoolOptions& options, PrefixIndex* index) noexcept;
  [[nodiscard]] bool is_on() const noexcept { return memory_.spans != nullptr; }

  /// The sequence, which has none, gets these.
  void give(uint32_t sequence, std::span<const ContentSpan> spans) noexcept;
  [[nodiscard]] std::span<const ContentSpan> of(uint32_t sequence) const noexcept;
  /// Those that touch a page, as seen from its first token. Valid until the next call.
  [[nodiscard]] std::span<const ContentSpan> in_page(uint32_t sequence,
                                                     int32_t position) const noexcept;

  /// The page in which the first one begins, as a position in the sequence; without one, no page.
  [[nodiscard]] uint32_t page_of_first(std::span<const ContentSpan> spans) const noexcept;
  /// The same of those that the sequence has not opened.
  [[nodiscard]] uint32_t page_to_open(uint32_t sequence) const noexcept;

  /// From what is before a page to what is before its tokens: behind the items that begin there,
  /// which are the first of `rest` and are taken from it.
  [[nodiscard]] Before find(Before before, uint32_t position,
                            std::span<const ContentSpan>& rest) const noexcept;
  /// The same. Any thread, as `Namespaces::observe_content`.
  [[nodiscard]] Before observe(Before before, uint32_t position,
                               std::span<const ContentSpan>& rest) const noexcept;
  /// The same, and opens them: `position` is `page_to_open`, or before it.
  [[nodiscard]] Before open(Before before, uint32_t position, uint32_t sequence) noexcept;

  /// The sequence has fewer tokens now: only what begins in full pages stays open.
  void close_behind(uint32_t sequence, int32_t length) noexcept;
  /// What begins behind `length` tokens, and is not open, is not its any more.
  void remove_behind(uint32_t sequence, int32_t length) noexcept;
  /// Closes all of the sequence.
  void close(uint32_t sequence) noexcept { close_from(sequence, 0); }
  /// Closes them and takes them away.
  void take_away(uint32_t sequence) noexcept;
  /// `to`, which has none, gets those of `from` that begin before `length`, open ones open.
  void share(uint32_t from, uint32_t to, int32_t length) noexcept;
  void swap(uint32_t a, uint32_t b) noexcept;

  [[nodiscard]] const Namespaces& namespaces() const noexcept { return namespaces_; }
  [[nodiscard]] Count count(uint32_t sequence) const noexcept {
    return is_on() ? memory_.counts[sequence] : Count{};
  }

 private:
  [[nodiscard]] ContentSpan* row(uint32_t sequence) const noexcept {
    return memory_.spans + int64_t{sequence} * max_spans_;
  }
  [[nodiscard]] uint32_t* opened(uint32_t sequence) const noexcept {
    return memory_.namespaces + int64_t{sequence} * max_spans_;
  }
  [[nodiscard]] ContentSpan seen_from(int64_t position, ContentSpan span) const noexcept;
  [[nodiscard]] uint32_t count_before(uint32_t sequence, int32_t end) const noexcept;
  void close_from(uint32_t sequence, uint32_t first) noexcept;

  Memory memory_;
  Namespaces namespaces_;
  uint32_t max_spans_ = 0;
  int32_t page_size_ = 0;
};

}  // namespace folio::inline v1::pool
