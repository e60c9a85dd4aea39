// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/page_arrays.cpp: `PageArrays`, and pages as calls of tiers are given them.
#include "page_arrays.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace folio::python {
namespace {

// Of a page.
constexpr int64_t most_runs = int64_t{1} << 20;
constexpr int64_t most_bytes = int64_t{1} << 62;

/// Elements from axis `first` on as dense runs: leading axes are walked, trailing dense ones are
/// one run. None where there are no elements.
ArrayRuns runs_of(const Array& array, int first) {
  ArrayRuns runs;
  runs.data = static_cast<std::byte*>(array.data);
  if (array.type.bits % 8 != 0 || array.type.lanes > 1)
    refuse_argument("{}: expected elements of whole bytes, got {}", array.name,
                    array.description());
  const int64_t* const extents = array.extent;
  if (std::find(extents + first, extents + array.ndim, 0) != extents + array.ndim) return runs;
  int64_t dense = 1;
  int inner = array.ndim;  // axes from here on are one run
  while (inner > first && (array.extent[inner - 1] == 1 || array.stride[inner - 1] == dense)) {
    --inner;
    dense *= array.extent[inner];
  }
  runs.run_bytes = dense * array.item_bytes();
  runs.offsets = {0};
  for (int axis = first; axis < inner; ++axis) {
    const auto extent = array.extent[axis];
    if (extent > most_runs / std::ssize(runs.offsets))
      refuse_argument("{}: a page has more than {} runs of bytes: expected denser ones", array.name,
                      most_runs);
    std::vector<int64_t> next;
    next.reserve(runs.offsets.size() * static_cast<size_t>(extent));
    for (const int64_t offset : runs.offsets)
      for (int64_t i = 0; i < extent; ++i)
        next.push_back(offset + i * array.stride[axis] * array.item_bytes());
    runs.offsets = std::move(next);
  }
  return runs;
}

void add_runs(const ArrayRuns& runs, int64_t page, std::vector<Extent>& out) {
  std::byte* const first = runs.data + page * runs.page_stride_bytes;
  for (const int64_t offset : runs.offsets) out.push_back({first + offset, runs.run_bytes});
}

bool is_page_arrays(nb::handle where) { return nb::isinstance<PageArrays>(where); }

}  // namespace

PageArrays::PageArrays(const nb::sequence& given) {
  const size_t count = nb::len(given);
  if (count == 0) refuse_argument("arrays: expected one or more, got none");
  for (size_t i = 0; i < count; ++i) {
    const std::string name = "arrays[" + std::to_string(i) + "]";
    const Array array = array_of(given[i], name.c_str());
    if (array.ndim < 1) refuse_argument("{}: expected an axis of pages, got a scalar", name);
    if (i > 0 && array.extent[0] != num_pages)
      refuse_argument("{}: expected {} pages as in arrays[0], got {}", name, num_pages,
                      array.extent[0]);
    num_pages = array.extent[0];
    is_writable = is_writable && array.is_writable;
    runs.push_back(runs_of(array, 1));
    runs.back().page_stride_bytes = array.stride[0] * array.item_bytes();
    const auto array_runs = std::ssize(runs.back().offsets);
    if (array_runs == 0)
      refuse_argument("{}: expected pages with elements, got {}", name, array.description());
    page_runs += array_runs;
    if (runs.back().run_bytes > (most_bytes - page_bytes) / array_runs)
      refuse_argument("{}: a page has more than {} bytes", name, most_bytes);
    page_bytes += array_runs * runs.back().run_bytes;
    if (page_runs > most_runs)
      refuse_argument("arrays: a page has more than {} runs of bytes: expected denser ones",
                      most_runs);
    keep_memory(keep, array);
  }
}

void PageArrays::add_extents(int64_t page, std::vector<Extent>& out) const {
  for (const ArrayRuns& array : runs) add_runs(array, page, out);
}

PagesOfCall::PagesOfCall(nb::handle where, nb::handle pages, size_t count, bool are_written) {
  if (is_page_arrays(where)) {
    const auto& arrays = nb::cast<const PageArrays&>(where);
    if (pages.is_none())
      refuse_argument("pages: expected the numbers of {} pages, as `where` is PageArrays", count);
    if (are_written && !arrays.is_writable)
      refuse_argument("where: expected arrays that can be written, got a read-only one");
    const std::vector<int64_t> numbers = int64_of(pages, "pages");
    if (numbers.size() != count)
      refuse_argument("pages: expected one for each of {} names, got {}", count, numbers.size());
    extents.reserve(count * static_cast<size_t>(arrays.page_runs));
    for (size_t i = 0; i < count; ++i) {
      if (numbers[i] < 0 || numbers[i] >= arrays.num_pages)
        refuse_argument("pages[{}] is {}, expected 0 to {}", i, numbers[i], arrays.num_pages - 1);
      arrays.add_extents(numbers[i], extents);
      page_ends.push_back(extents.size());
    }
    uint32_t end = 0;
    for (const ArrayRuns& array : arrays.runs)
      array_ends.push_back(end += static_cast<uint32_t>(array.offsets.size()));
    keep = nb::borrow(where);
    return;
  }
  if (!pages.is_none()) refuse_argument("pages: given without PageArrays as `where`");
  if (!nb::isinstance<nb::sequence>(where) || nb::isinstance<nb::bytes>(where))
    refuse_argument("where: expected PageArrays, or a sequence of an array for each of {} names",
                    count);
  const auto buffers = nb::borrow<nb::sequence>(where);
  if (nb::len(buffers) != count)
    refuse_argument("where: expected an array for each of {} names, got {}", count,
                    nb::len(buffers));
  nb::list kept;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = "where[" + std::to_string(i) + "]";
    Array array = are_written ? writable_array_of(buffers[i], name.c_str())
                              : array_of(buffers[i], name.c_str());
    const ArrayRuns runs = runs_of(array, 0);
    if (runs.offsets.empty()) refuse_argument("{}: expected bytes, got none", name);
    add_runs(runs, 0, extents);
    page_ends.push_back(extents.size());
    keep_memory(kept, array);
  }
  array_ends = {1};
  keep = kept;
}

void keep_memory(nb::list& kept, const Array& array) {
  using Imported = nb::ndarray<nb::ro>;
  kept.append(array.owner);
  if (nb::hasattr(array.owner, "untyped_storage"))
    kept.append(array.owner.attr("untyped_storage")());
  if (!array.imported.is_valid()) return;
  // a buffer that is exported cannot be resized
  auto held = std::make_unique<Imported>(array.imported);
  kept.append(nb::capsule(held.get(),
                          [](void* memory) noexcept { delete static_cast<Imported*>(memory); }));
  held.release();  // NOLINT(bugprone-unused-return-value): the capsule's
}

void bind_page_arrays(nb::module_& m) {
  nb::class_<PageArrays>(m, "PageArrays",
                         "Pages in arrays that somebody owns, as tiers take them and bring them.")
      .def(nb::init<nb::sequence>(), nb::arg("arrays"),
           R"(Sees arrays as pages; nothing is copied.

arrays: of numpy, torch or anything that speaks DLPack or the buffer protocol, on the CPU, with
pages along their first axis. The bytes of page p are those of arrays[0][p], then of arrays[1][p],
and so on, each in the order of its elements, whatever its strides: layers, in the order in which
they are used. Raises Error for arrays without elements, or of different numbers of pages.)")
      .def_ro("num_pages", &PageArrays::num_pages)
      .def_ro("page_bytes", &PageArrays::page_bytes, "Bytes of a page in all arrays.");
}

}  // namespace folio::python
