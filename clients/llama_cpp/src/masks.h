// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/masks.h: the masks of a graph, each read once and used by all its layers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "folio/attention/mask_matrix.h"
#include "node.h"

namespace ggml_folio {

/// Masks as batches. Memory stays from graph to graph. One thread at a time.
class Masks {
 public:
  /// What some streams of a node see. The batch, and the slopes, stay valid until the next graph.
  struct Seen {
    folio::MaskedBatch masked;
    std::vector<float> slopes;  ///< [heads] of nodes with ALiBi, otherwise empty
  };

  /// Forgets what was read: the same tensors hold other numbers now.
  void next_graph() { ++graph_; }
  [[nodiscard]] uint64_t graph() const { return graph_; }

  /// Reads the node's mask, or finds what was read for another node of this graph. Without a mask
  /// every query sees every key.
  /// Errors: as MaskReader::read.
  [[nodiscard]] folio::Result<const Seen*> read(const Node& node, Streams streams);

 private:
  /// What a reading depends on beside the mask's numbers.
  struct Key {
    const ggml_tensor* mask = nullptr;
    int64_t queries = 0, keys = 0, heads = 0, rows_between = 0;
    Streams streams;
    float max_bias = 0;
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    uint64_t graph = 0;
    Seen seen;
    folio::MaskReader reader;
    std::vector<int64_t> first_rows;  ///< [streams]
    std::vector<uint32_t> table;      ///< without a mask: [streams]
    std::vector<int32_t> offsets, contexts, begin, end;
  };

  [[nodiscard]] Entry& entry_for(const Key& key);
  [[nodiscard]] static folio::Status read_matrix(const Node& node, Streams streams, Entry& entry);
  static void see_all(const Node& node, Streams streams, Entry& entry);

  std::vector<std::unique_ptr<Entry>> entries_;
  uint64_t graph_ = 1;
};

}  // namespace ggml_folio
