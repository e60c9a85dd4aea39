// SPDX-License-Identifier: Apache-2.0
/// python/src/batch.cpp: reads a step's arrays: small ones are copied; the table, the tree, lists
/// of keys and positions of keys are borrowed.
#include "batch.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <utility>

namespace folio::python {
namespace {

void expect_count(const char* name, size_t count, size_t expected, const char* of) {
  if (count != expected)
    refuse_argument("{}: expected {} elements ({}), got {}", name, expected, of, count);
}

bool is_contiguous(const Array& array) {
  int64_t stride = 1;
  bool follows = true;
  for (int i = array.ndim - 1; i >= 0; --i) {
    if (array.extent[i] == 0) return true;
    follows = follows && (array.extent[i] == 1 || array.stride[i] == stride);
    stride *= array.extent[i];
  }
  return follows;
}

/// Numbers whose rows are contiguous; an array without elements, which may have no memory, too.
const int32_t* int32_rows(const Array& array) {
  static constexpr int32_t none = 0;
  return array.data != nullptr ? static_cast<const int32_t*>(array.data) : &none;
}

}  // namespace

BatchHolder::BatchHolder(const Arrays& arrays)
    : offsets_(int32_of(arrays.query_offsets, "query_offsets")),
      lengths_(int32_of(arrays.context_lengths, "context_lengths")) {
  if (offsets_.empty()) refuse_argument("query_offsets: expected [batch + 1] elements, got none");
  expect_count("context_lengths", lengths_.size(), offsets_.size() - 1,
               "one less than query_offsets");
  if (offsets_.front() != 0 || !std::is_sorted(offsets_.begin(), offsets_.end()))
    refuse_argument("query_offsets: expected to ascend from 0");
  for (size_t b = 0; b < lengths_.size(); ++b) {
    if (lengths_[b] < 0)
      refuse_argument("context_lengths[{}] is {}, expected at least 0", b, lengths_[b]);
    max_context_ = std::max(max_context_, lengths_[b]);
    max_new_tokens_ = std::max(max_new_tokens_, offsets_[b + 1] - offsets_[b]);
  }
  batch_.size = static_cast<int32_t>(lengths_.size());
  batch_.query_offsets = offsets_.data();
  batch_.context_lengths = lengths_.data();
  table_.read(arrays.table, arrays.row_starts, lengths_.size());
  batch_.table = table_.view();
  batch_.query_positions =
      take_per_sequence(arrays.query_positions, "query_positions", query_positions_);
  batch_.key_positions = take_per_sequence(arrays.key_positions, "key_positions", key_positions_);
  take_visible(arrays.visible);
  take_tree(arrays.tree);
  take_selected(arrays.selected);
  take_alibi_positions(arrays.alibi_positions);
}

const int32_t* BatchHolder::take_per_sequence(nb::handle object, const char* name,
                                              std::vector<int32_t>& out) {
  if (object.is_none()) return nullptr;
  out = int32_of(object, name);
  expect_count(name, out.size(), lengths_.size(), "one a sequence");
  return out.data();
}

void BatchHolder::take_visible(nb::handle visible) {
  if (visible.is_none()) return;
  if (!nb::isinstance<nb::tuple>(visible) || nb::len(visible) != 2)
    refuse_argument("visible: expected a tuple (begin, end), got {}",
                    nb::cast<std::string>(nb::repr(nb::handle(visible.type()))));
  const auto tokens_of = static_cast<size_t>(tokens());
  visible_begin_ = int32_of(visible[0], "visible[0]");
  visible_end_ = int32_of(visible[1], "visible[1]");
  expect_count("visible[0]", visible_begin_.size(), tokens_of, "one a token");
  expect_count("visible[1]", visible_end_.size(), tokens_of, "one a token");
  batch_.visible_begin = visible_begin_.data();
  batch_.visible_end = visible_end_.data();
}

void BatchHolder::take_tree(nb::handle tree) {
  if (tree.is_none()) return;
  tree_ = array_of(tree, "tree");
  expect_ndim(tree_, 2, "[tokens, words]");
  const bool is_64_bit = tree_.type == nb::dtype<uint64_t>() || tree_.type == nb::dtype<int64_t>();
  const bool is_dense = (tree_.extent[1] <= 1 || tree_.stride[1] == 1) &&
                        (tree_.extent[0] <= 1 || tree_.stride[0] == tree_.extent[1]);
  if (!is_64_bit || !is_dense || tree_.extent[0] < tokens() ||
      !std::in_range<int32_t>(tree_.extent[1]))
    refuse_argument("tree: expected contiguous uint64[{}, words], got {}", tokens(),
                    tree_.description());
  batch_.tree = static_cast<const uint64_t*>(tree_.data);
  batch_.tree_words = static_cast<int32_t>(tree_.extent[1]);
}

void BatchHolder::take_selected(nb::handle selected) {
  if (selected.is_none()) return;
  selected_ = array_of(selected, "selected");
  const bool is_per_head = selected_.ndim == 3;
  if (!is_per_head) expect_ndim(selected_, 2, "[tokens, slots] or [tokens, heads, slots]");
  const int last = is_per_head ? 2 : 1;
  if (selected_.type != nb::dtype<int32_t>() || !is_contiguous(selected_) ||
      selected_.extent[0] < tokens() || !std::in_range<int32_t>(selected_.extent[last]))
    refuse_argument("selected: expected contiguous int32[{}, slots] or [{}, heads, slots], got {}",
                    tokens(), tokens(), selected_.description());
  batch_.selected = int32_rows(selected_);
  batch_.selected_stride = static_cast<int32_t>(selected_.extent[last]);
  selected_heads_ = is_per_head ? selected_.extent[1] : 0;
}

void BatchHolder::take_alibi_positions(nb::handle positions) {
  if (positions.is_none()) return;
  alibi_positions_ = array_of(positions, "alibi_positions");
  const Array& a = alibi_positions_;
  const bool is_shared = a.ndim == 1 || (a.ndim == 2 && (a.extent[0] == 1 || a.stride[0] == 0));
  const int keys = a.ndim - 1;
  const bool fits =
      (a.ndim == 1 || (a.ndim == 2 && (a.extent[0] == batch_.size || a.extent[0] == 1))) &&
      a.type == nb::dtype<int32_t>() && a.extent[keys] >= max_context_ &&
      (a.extent[keys] <= 1 || a.stride[keys] == 1) && (is_shared || a.stride[0] >= max_context_);
  if (!fits)
    refuse_argument(
        "alibi_positions: expected int32[{} or more] or [{}, {} or more] with contiguous rows, got "
        "{}",
        max_context_, batch_.size, max_context_, a.description());
  batch_.alibi_positions = int32_rows(a);
  batch_.alibi_positions_stride = is_shared ? 0 : a.stride[0];
}

void bind_batch(nb::module_& m) {
  nb::class_<BatchHolder> type(m, "Batch", "Who is in the step: the same for all layers.");
  bind_batch_constructor(type, R"(Sequences with their new tokens, their keys and their pages.

query_offsets: [batch + 1] first row of q of each sequence, ascending from 0. Copied.
context_lengths: [batch] keys when attention runs, the new tokens included. Copied.
table: int32 or uint32 [batch, columns] page ids with contiguous rows: borrowed, so it must not
    change before the step ends; -1, or an id beyond the pages, is no page. int64 and lists of lists
    are copied. With row_starts [batch], one dimension of entries and where each row begins (CSR).
query_positions, key_positions: [batch] position of the first query and of key 0.
visible: (begin, end), each [tokens]: the positions that a query sees, instead of the mask.
tree: uint64 [tokens, words] bits of the new tokens that a query sees. Borrowed.
selected: int32 [tokens, slots], or [tokens, kv_heads, slots], the only keys that a query sees
    instead of the mask: slots page * page_size + offset (row numbers of Pages.ragged), -1 for none.
    Borrowed, and read by each layer's call: a layer may bring its own lists in the same array.
alibi_positions: int32 [keys] or [batch, keys] the position of each key for ALiBi. Borrowed.

Raises Error for other shapes and dtypes, and for values that contradict one another.)");
  type.def_prop_ro(
          "size", [](const BatchHolder& b) { return b.batch().size; }, "Sequences.")
      .def_prop_ro("tokens", &BatchHolder::tokens, "New tokens of all sequences.")
      .def_prop_ro("max_context", &BatchHolder::max_context, "Keys of the longest sequence.");
}

}  // namespace folio::python
