// SPDX-License-Identifier: Apache-2.0
/// tests/pool/naive_items.h: items of another kind once more, by searching: what comes before the
/// tokens of a page in which one begins.
///
/// A content is a number. Those of items are negative, so that none of a page's is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "folio/pool/page_pool.h"

namespace folio::test {

/// Of the entries that nobody uses, the one that was used longest ago.
void forget_oldest(auto& known) {
  auto oldest = known.end();
  for (auto at = known.begin(); at != known.end(); ++at) {
    if (at->users == 0 && (oldest == known.end() || at->idle_since < oldest->idle_since))
      oldest = at;
  }
  known.erase(oldest);
}

/// A number for the first `count` tokens, with the items that begin among them, and `seed`.
[[nodiscard]] uint64_t history_of(uint64_t seed, const std::vector<TokenId>& tokens,
                                  const std::vector<ContentSpan>& spans, int64_t count);

class NaiveItems {
 public:
  /// Of a sequence.
  struct Row {
    std::vector<ContentSpan> spans;  ///< those behind the tokens are still to come
    std::vector<int> opened;         ///< contents of the first ones: of those in full pages
  };

  explicit NaiveItems(const PoolOptions& options);

  [[nodiscard]] bool allow(const std::vector<ContentSpan>& spans,
                           const std::vector<TokenId>& prompt) const;
  /// Those that touch a page, as seen from it.
  [[nodiscard]] std::vector<ContentSpan> touching(const std::vector<ContentSpan>& spans,
                                                  size_t position) const;
  /// From the content before a page to that before its tokens, 0: it is not known.
  [[nodiscard]] int find(int parent, const std::vector<ContentSpan>& spans, size_t position) const;

  /// The same; the sequence, which has entered all pages before, opens the items that begin there.
  int enter(Row& row, int parent, size_t position);
  void close(Row& row, size_t keep = 0);
  /// The sequence has `length` tokens.
  void cut(Row& row, int32_t length, CutItems items = CutItems::removed);
  /// The child has what its parent has; from now on, what is its own.
  void share(Row& child, int32_t length);

 private:
  /// What comes before the tokens of a page in which an item begins.
  struct Known {
    int parent = 0;    ///< content of the page before, or of the item before in this page
    ContentSpan span;  ///< as seen from the page
    int content = 0, users = 0;
    int64_t idle_since = 0;
  };

  [[nodiscard]] std::vector<ContentSpan> beginning_in(const std::vector<ContentSpan>& spans,
                                                      size_t position) const;
  [[nodiscard]] std::vector<Known>::iterator known(int content);
  int open(int parent, const ContentSpan& span);

  int64_t page_size_;
  size_t max_spans_, max_known_;
  std::vector<Known> known_;
  int last_content_ = 0;
  int64_t clock_ = 0;
};

}  // namespace folio::test
