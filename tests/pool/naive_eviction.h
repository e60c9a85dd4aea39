// SPDX-License-Identifier: Apache-2.0
/// tests/pool/naive_eviction.h: the eviction policies once more, by searching.
///
/// One list holds the cached pages in the order in which they entered their queues. Notes belong to
/// contents, not to pages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "folio/pool/page_pool.h"

namespace folio::test {

class NaiveEviction {
 public:
  NaiveEviction(Eviction policy, uint32_t num_pages) : policy_(policy), num_pages_(num_pages) {}

  /// A page has become full, of a new content. `mark`: the last 32 bits of its hash.
  void created(int content, uint32_t mark);
  /// Nobody holds `page` any more, which has `content`.
  void add(uint32_t page, int content, uint32_t mark);
  /// A prompt has found the content.
  void found(int content) { ++notes_[content].found; }
  /// A sequence of `eighths` eighths of the longest one, which has the content, ends.
  void given_up(int content, int eighths) {
    notes_[content].eighths = std::max(notes_[content].eighths, eighths);
  }
  /// The page that goes next. `is_cached(page)`: it has not been held or emptied since.
  uint32_t take(const std::function<bool(uint32_t)>& is_cached);

 private:
  struct Waiting {
    uint32_t page = 0;
    int content = 0;
    uint32_t mark = 0;
    int64_t key = 0;  ///< LFU
  };
  struct Note {
    int found = 0, eighths = 0;
    bool is_main = false;  ///< S3-FIFO
  };
  uint32_t take_s3_fifo();
  uint32_t take_lfu();
  [[nodiscard]] bool is_main(const Waiting& w) const { return notes_.at(w.content).is_main; }

  Eviction policy_;
  uint32_t num_pages_;
  std::vector<Waiting> waiting_;
  std::map<int, Note> notes_;
  std::vector<uint32_t> ghosts_;  ///< all there ever were, the last one last
  int64_t age_ = 0;
};

}  // namespace folio::test
