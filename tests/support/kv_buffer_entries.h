// SPDX-License-Identifier: Apache-2.0
/// tests/support/kv_buffer_entries.h: a KVBuffer of another instruction set behind plain functions.
///
/// Its type is compiled where its instructions are allowed, together with nothing of the standard
/// library; the tests are not.
#pragma once

#include <cstdint>
#include <new>

#include "folio/attention/kv_buffer.h"
#include "folio/core/element.h"

namespace folio::test {

/// What the conformance suite does with a buffer. `buffer` points to object_bytes bytes, 64-byte
/// aligned.
struct BufferEntries {
  int64_t object_bytes = 0;
  void (*make)(void* buffer, const void* operand, int64_t head, void* smem, int64_t end) = nullptr;
  void (*set_tile)(void* buffer, const KeyTile& keys, int64_t head) = nullptr;
  void (*load)(void* buffer, int stage) = nullptr;
  float (*at)(void* buffer, int stage, int key, int column) = nullptr;
};

/// `Buffer` depends on a type of an anonymous namespace, and so do the functions.
template <class Buffer>
struct EntriesOf {
  using Operand = typename Buffer::operand_type;
  static void make(void* buffer, const void* operand, int64_t head, void* smem, int64_t end) {
    auto* const staging = static_cast<typename Buffer::smem_type*>(smem);
    ::new (buffer) Buffer(*static_cast<const Operand*>(operand), 0, head, {staging, {}}, end);
  }
  static void set_tile(void* buffer, const KeyTile& keys, int64_t head) {
    static_cast<Buffer*>(buffer)->kv_cache_iter.set_tile(keys, head);
  }
  static void load(void* buffer, int stage) {
    static_cast<Buffer*>(buffer)->begin_load(stage);
    while (static_cast<Buffer*>(buffer)->load_from_dram_step()) {}
  }
  static float at(void* buffer, int stage, int key, int column) {
    return to_float(static_cast<Buffer*>(buffer)->loader().at(stage, key, column));
  }
  static constexpr BufferEntries entries() { return {sizeof(Buffer), make, set_tile, load, at}; }
};

}  // namespace folio::test
