// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/memory.h: memory that grows, for plans and workspaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "folio/core/execution.h"

namespace ggml_folio {

/// Memory of 64-byte alignment that keeps its size until more is asked for.
class Memory {
 public:
  /// At least this many bytes, whose contents are lost when it grows; data is null without memory.
  [[nodiscard]] folio::MemorySpan at_least(int64_t bytes) {
    if (bytes > bytes_) {
      data_.reset();
      bytes_ = 0;
      const int64_t rounded = (bytes + 63) / 64 * 64;
      data_.reset(std::aligned_alloc(64, static_cast<size_t>(rounded)));
      if (data_ != nullptr) bytes_ = rounded;
    }
    return {data_.get(), bytes_};
  }

 private:
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  std::unique_ptr<void, Free> data_;
  int64_t bytes_ = 0;
};

}  // namespace ggml_folio
