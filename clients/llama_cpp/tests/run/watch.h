// SPDX-License-Identifier: Apache-2.0
/// run/watch.h: what a context's graphs hold, counted, and a cache rounded to another type.
///
/// Rounding makes the oracle of a cache type: a context whose cache is f32 and whose attention is
/// llama.cpp's plain one, with every row that enters the cache rounded to the type and back. Its
/// logits are those of exact attention over the very values that a cache of the type holds. Before
/// llama.cpp quantises, it turns keys and values by Hadamard matrices, and its queries with them;
/// the oracle turns a row, rounds it and turns it back.
#pragma once
#include <ggml.h>

#include <cstdint>
#include <vector>

namespace folio::llama_run {

/// Nodes of all graphs that a context computed.
struct Counts {
  int64_t nodes = 0;
  int64_t flash = 0;    // FLASH_ATTN_EXT
  int64_t plain = 0;    // SOFT_MAX with a mask: attention without FLASH_ATTN_EXT
  int64_t rounded = 0;  // writes to a cache that were rounded
};

struct Rounding {
  ggml_type type = GGML_TYPE_F32;
  int turn = 0;  // size of the Hadamard matrix, a power of two; 0: none
};

struct Watch {
  bool rounds = false;
  Rounding keys, values;
  Counts counts;
};

/// A ggml_backend_sched_eval_callback; `watch` is a Watch. Asked about each node before it runs.
bool on_node(ggml_tensor* node, bool ask, void* watch);

}  // namespace folio::llama_run
