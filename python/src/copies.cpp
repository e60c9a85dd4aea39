// SPDX-License-Identifier: Apache-2.0
/// python/src/copies.cpp: `copy_pages` and `copy_slots` over all layers.
#include <span>
#include <string>

#include "bindings.h"
#include "executor.h"
#include "folio/cache/copy.h"
#include "pages.h"
#include "without_gil.h"

namespace folio::python {
namespace {

/// Rows of integers: a list of tuples, or an array [n, columns].
std::vector<int64_t> rows_of_ints(nb::handle copies, int columns, size_t& count) {
  std::vector<int64_t> out;
  if (nb::isinstance<nb::list>(copies) || nb::isinstance<nb::tuple>(copies)) {
    for (const nb::handle row : nb::borrow<nb::sequence>(copies)) {
      const std::vector<int64_t> values = int64_of(nb::tuple(row), "copies");
      if (values.size() != static_cast<size_t>(columns))
        refuse_argument("copies[{}]: expected {} numbers, got {}",
                        out.size() / static_cast<size_t>(columns), columns, values.size());
      out.insert(out.end(), values.begin(), values.end());
    }
  } else {
    const Array array = array_of(copies, "copies");
    const bool is_64 = array.type == nb::dtype<int64_t>(),
               is_32 = array.type == nb::dtype<int32_t>();
    if (array.ndim != 2 || array.extent[1] != columns || (!is_64 && !is_32))
      refuse_argument("copies: expected int64[n, {}], got {}", columns, array.description());
    for (int64_t i = 0; i < array.extent[0] * columns; ++i) {
      const int64_t at = i / columns * array.stride[0] + i % columns * array.stride[1];
      out.push_back(is_64 ? static_cast<const int64_t*>(array.data)[at]
                          : static_cast<const int32_t*>(array.data)[at]);
    }
  }
  count = out.size() / static_cast<size_t>(columns);
  return out;
}

template <class Target>
Target narrow(int64_t value, size_t row) {
  if (!std::in_range<Target>(value)) refuse_argument("copies[{}]: {} is out of range", row, value);
  return static_cast<Target>(value);
}

void pages_copied(nb::sequence source, nb::sequence target, nb::handle copies) {
  const std::vector<KVPlanes> from = planes_of(source, "source", false);
  const std::vector<KVPlanes> to = planes_of(target, "target", true);
  size_t count = 0;
  const std::vector<int64_t> rows = rows_of_ints(copies, 3, count);
  std::vector<PageCopy> list;
  for (size_t i = 0; i < count; ++i)
    list.push_back({narrow<uint32_t>(rows[3 * i], i), narrow<uint32_t>(rows[3 * i + 1], i),
                    narrow<int32_t>(rows[3 * i + 2], i)});
  const Executor executor = current_executor();
  const WithoutGil released;
  copy_pages(from, to, list, executor).or_throw();
}

void slots_copied(nb::sequence source, nb::sequence target, nb::handle copies) {
  const std::vector<KVPlanes> from = planes_of(source, "source", false);
  const std::vector<KVPlanes> to = planes_of(target, "target", true);
  size_t count = 0;
  const std::vector<int64_t> rows = rows_of_ints(copies, 2, count);
  std::vector<SlotCopy> list;
  for (size_t i = 0; i < count; ++i) list.push_back({rows[2 * i], rows[2 * i + 1]});
  const Executor executor = current_executor();
  const WithoutGil released;
  copy_slots(from, to, list, executor).or_throw();
}

}  // namespace

void bind_copies(nb::module_& m) {
  m.def("copy_pages", &pages_copied, nb::arg("source"), nb::arg("target"), nb::arg("copies"),
        R"(Copies pages of every layer, values and scales, converting where the dtypes differ.

source, target: lists of Pages, one a layer (a KVCache is one). copies: (from, to, tokens) page ids
and how many slots, in order: a list of tuples or an integer array [n, 3]. Raises Error for planes
that do not agree and ids out of range; nothing is written then.)");
  m.def("copy_slots", &slots_copied, nb::arg("source"), nb::arg("target"), nb::arg("copies"),
        R"(As copy_pages, single slots: (from, to), each page * page_size + offset.)");
}

}  // namespace folio::python
