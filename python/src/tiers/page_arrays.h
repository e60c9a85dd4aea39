// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/page_arrays.h: the bytes of pages in arrays that somebody owns, for who moves
/// them.
#pragma once

#include <cstdint>
#include <vector>

#include "../array.h"
#include "folio/cache/page_extents.h"

namespace folio::python {

/// The runs of one array's part of a page: `run_bytes` from each of `offsets` behind the page's
/// first element, in the order of its elements.
struct ArrayRuns {
  std::byte* data = nullptr;
  int64_t page_stride_bytes = 0;
  int64_t run_bytes = 0;
  std::vector<int64_t> offsets = {};
};

/// The bytes of page p are those of arrays[i][p], i = 0, 1, ... Never changed after it is made.
struct PageArrays {
  explicit PageArrays(const nb::sequence& given);
  /// Runs of page p behind those in `out`.
  void add_extents(int64_t page, std::vector<Extent>& out) const;

  nb::list keep = {};
  std::vector<ArrayRuns> runs = {};
  int64_t num_pages = 0, page_bytes = 0, page_runs = 0;
  bool is_writable = true;
};

/// Where the bytes of a call's pages are, and what keeps them there.
struct PagesOfCall {
  /// `where`: PageArrays, with the numbers of `pages`, or an array for each of `count` pages.
  /// Throws Error for anything else, and where bytes are to be written to a read-only array.
  PagesOfCall(nb::handle where, nb::handle pages, size_t count, bool are_written);

  std::vector<Extent> extents = {};
  std::vector<size_t> page_ends = {};     ///< runs behind each page
  std::vector<uint32_t> array_ends = {};  ///< runs of a page behind each array
  nb::object keep = {};
};

/// What keeps the memory of an array: itself and what was imported of it; the storage of a tensor,
/// which may be given another one.
void keep_memory(nb::list& kept, const Array& array);

void bind_page_arrays(nb::module_& m);

}  // namespace folio::python
