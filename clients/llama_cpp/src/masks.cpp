// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/masks.cpp: ggml's mask tensors, handed to folio's reader.
#include "masks.h"

#include "slopes.h"
#include "trace.h"

namespace ggml_folio {
namespace {

using namespace folio;

/// [streams, 1 or heads, queries, keys] of the mask's f16.
MaskMatrix matrix_of(const Node& node, Streams streams) {
  const ggml_tensor* mask = node.mask;
  const bool is_per_stream = mask->ne[3] > 1;
  const int64_t stream_stride = is_per_stream ? static_cast<int64_t>(mask->nb[3]) : 0;
  MaskMatrix matrix;
  ConstTensor<4>& values = matrix.values;
  values.data = static_cast<const char*>(mask->data) + streams.begin * stream_stride;
  values.dtype = DType::f16;
  values.extent[0] = streams.count();
  values.extent[1] = mask->ne[2];
  values.extent[2] = node.queries;
  values.extent[3] = node.keys;
  values.stride_bytes[0] = stream_stride;
  values.stride_bytes[1] = static_cast<int64_t>(mask->nb[2]);
  values.stride_bytes[2] = static_cast<int64_t>(mask->nb[1]);
  values.stride_bytes[3] = static_cast<int64_t>(mask->nb[0]);
  return matrix;
}

void count_mask(const MaskedBatch& masked) {
  count(&Counters::masks);
  if (masked.alibi) count(&Counters::alibi);
  switch (masked.form) {
    case MaskForm::runs: return count(&Counters::runs);
    case MaskForm::cells: return count(&Counters::cells);
    case MaskForm::bias: return count(&Counters::biased);
  }
}

}  // namespace

Masks::Entry& Masks::entry_for(const Key& key) {
  Entry* free = nullptr;
  for (const auto& entry : entries_) {
    if (entry->graph == graph_ && entry->key == key) return *entry;
    if (entry->graph != graph_) free = entry.get();
  }
  if (free != nullptr) return *free;
  entries_.push_back(std::make_unique<Entry>());
  return *entries_.back();
}

Status Masks::read_matrix(const Node& node, Streams streams, Entry& entry) {
  entry.seen.slopes.clear();
  if (node.max_bias > 0) entry.seen.slopes = alibi_slopes(node.heads, node.max_bias);
  MaskOptions options;
  options.first_rows = entry.first_rows.data();
  options.slopes = node.max_bias > 0 ? entry.seen.slopes.data() : nullptr;
  options.q_heads = static_cast<int32_t>(node.heads);
  Result<MaskedBatch> masked = entry.reader.read(matrix_of(node, streams), options);
  if (!masked) return masked.error();
  entry.seen.masked = *masked;
  return {};
}

void Masks::see_all(const Node& node, Streams streams, Entry& entry) {
  const auto size = static_cast<size_t>(streams.count());
  const auto tokens = static_cast<size_t>(streams.count() * node.queries);
  const auto keys = static_cast<int32_t>(node.keys);
  entry.offsets.resize(size + 1);
  entry.table.resize(size);
  for (size_t s = 0; s <= size; ++s)
    entry.offsets[s] = static_cast<int32_t>(static_cast<int64_t>(s) * node.queries);
  for (size_t s = 0; s < size; ++s) entry.table[s] = static_cast<uint32_t>(entry.first_rows[s]);
  entry.contexts.assign(size, keys);
  entry.begin.assign(tokens, 0);
  entry.end.assign(tokens, keys);

  MaskedBatch& masked = entry.seen.masked;
  masked = {};
  masked.tokens = static_cast<int32_t>(tokens);
  masked.context = keys;
  masked.batch.size = static_cast<int32_t>(size);
  masked.batch.query_offsets = entry.offsets.data();
  masked.batch.context_lengths = entry.contexts.data();
  masked.batch.table = {entry.table.data(), 1, nullptr};
  masked.batch.visible_begin = entry.begin.data();
  masked.batch.visible_end = entry.end.data();
  entry.seen.slopes.clear();
}

Result<const Masks::Seen*> Masks::read(const Node& node, Streams streams) {
  const int64_t between = streams.count() > 1 ? node.rows_between_streams() : 0;
  const Key key = {node.mask, node.queries, node.keys, node.heads, between, streams, node.max_bias};
  Entry& entry = entry_for(key);
  if (entry.graph == graph_) return &entry.seen;
  const Timer timer(&Counters::mask_ns);
  entry.first_rows.resize(static_cast<size_t>(streams.count()));
  for (size_t s = 0; s < entry.first_rows.size(); ++s)
    entry.first_rows[s] = static_cast<int64_t>(s) * between;
  if (node.mask == nullptr) {
    see_all(node, streams, entry);
  } else if (Status status = read_matrix(node, streams, entry); !status.is_ok()) {
    entry.graph = 0;
    return status;
  }
  entry.key = key;
  entry.graph = graph_;
  count_mask(entry.seen.masked);
  return &entry.seen;
}

}  // namespace ggml_folio
