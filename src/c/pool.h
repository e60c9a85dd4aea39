// SPDX-License-Identifier: Apache-2.0
/// src/c/pool.h: what is behind the C interface's handle of a pool, and how its arguments are read.
#pragma once

#include "c/convert.h"
#include "folio/pool/page_pool.h"

struct folio_pool {
  folio::PagePool pool;
};

namespace folio::inline v1::c {

/// Generations begin at 1, so no live sequence is 0.
inline folio_sequence number_of(SequenceId id) { return uint64_t{id.generation} << 32 | id.index; }
inline SequenceId id_of(folio_sequence number) {
  return {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32)};
}

[[nodiscard]] Result<std::span<const TokenId>> tokens_of(const char* function, const char* argument,
                                                         const int32_t* tokens, int64_t count);

/// The caller's options, which point into this.
struct ConvertedOptions {
  /// Null: the defaults.
  [[nodiscard]] Status read(const char* function, const folio_sequence_options* given);

  SequenceOptions options;
  RetentionRange ranges[max_retention_ranges];

 private:
  [[nodiscard]] Status read_retention(const char* function, const folio_sequence_options& given);
};

}  // namespace folio::inline v1::c
