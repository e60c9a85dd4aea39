// SPDX-License-Identifier: Apache-2.0
/// src/mask/cells.h: queries that see keys with holes between, as sequences over pages of one key.
///
/// Queries that follow one another share a sequence as long as its keys can be listed so that each
/// query sees an interval: every key is seen by queries that follow one another, and keys that come
/// into sight later do not go out of it earlier. Listed in that order, and ascending where it
/// leaves a choice. Each key that comes or goes is looked at once, so the cost is that of the
/// changes from query to query, and of the list.
#pragma once

#include <cstdint>
#include <vector>

#include "mask/arrays.h"
#include "mask/rows.h"

namespace folio::inline v1::mask {

class Cells {
 public:
  /// The queries of a stream whose key 0 is row `first_row` of the plane. `alibi`: the mask whose
  /// numbers become positions of queries and keys; null: none. False where they are not those of
  /// ALiBi. Throws std::bad_alloc.
  [[nodiscard]] bool add(Arrays& arrays, const Shape& shape, const Rows& rows, int64_t stream,
                         uint32_t first_row, const Shape* alibi);

 private:
  struct Stream;
  enum class Found : uint8_t { all, conflict, none };

  static void emit_alone(Arrays& arrays, const Stream& stream, int64_t query);
  int64_t grow(const Stream& stream, int64_t begin);
  bool joins(const Stream& stream, int64_t query, int32_t index);
  void list_keys(const Stream& stream, int64_t query, int32_t index, const uint64_t* hidden_by);
  void sort_keys();
  void emit(Arrays& arrays, const Stream& stream, int64_t begin, int64_t end) const;
  void forget_keys();
  Found find_positions(const Stream& stream, int64_t begin, int64_t end);
  Found narrow(const Stream& stream, int64_t query, int32_t index, int32_t place);

  // of the sequence that grows; queries are counted within it
  std::vector<int32_t> keys_;   // listed
  std::vector<int32_t> alive_;  // keys that came with each query and are still seen
  int32_t oldest_ = 0;          // the first query that some are left of
  std::vector<int32_t> came_;   // [keys of the mask] with which query; -1: not seen so far
  std::vector<int32_t> last_;   // [keys of the mask] the last query that sees it
  std::vector<int64_t> least_, most_, position_;  // of each listed key, where there is ALiBi
};

}  // namespace folio::inline v1::mask
