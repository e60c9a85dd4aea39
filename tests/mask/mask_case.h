// SPDX-License-Identifier: Apache-2.0
/// tests/mask/mask_case.h: masks of every kind that engines make, as numbers and as the matrix that
/// holds them.
#pragma once

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "folio/attention/mask_matrix.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {

enum class MaskKind : uint8_t {
  causal,
  window,
  full,
  sequences,  ///< several, whose cells lie between one another
  shifted,    ///< the same, cells in no order of positions
  holes,      ///< one sequence, some of whose cells are gone
  intervals,  ///< any run of keys for each query, which stands anywhere
  scattered,  ///< holes, and queries stand anywhere
  tree,
  random_bits,
  numbers,  ///< arbitrary
};
inline constexpr int num_mask_kinds = static_cast<int>(MaskKind::numbers) + 1;

struct MaskSpec {
  MaskKind kind = MaskKind::causal;
  DType dtype = DType::f16;  ///< invalid: bits
  int32_t streams = 1;
  int32_t heads = 1;
  int32_t queries = 1;
  int32_t keys = 1;
  bool alibi = false;            ///< numbers are -|distance|; of kinds that have positions
  bool shares_streams = false;   ///< stream stride 0
  int32_t padding = 0;           ///< elements (bytes of bits) between rows, and between heads
  bool first_rows = false;       ///< streams lie anywhere in the plane
  bool hides_queries = false;    ///< some see nothing
  bool has_odd_numbers = false;  ///< NaN, infinity and the largest among arbitrary ones
  uint64_t seed = 1;
};

/// The matrix lies in memory that ends where an inaccessible page begins.
class MaskCase {
 public:
  explicit MaskCase(const MaskSpec& spec);

  [[nodiscard]] const MaskSpec& spec() const { return spec_; }
  /// As the matrix has it, rounded; of bits 0 or -inf.
  [[nodiscard]] float number(int64_t stream, int64_t head, int64_t query, int64_t key) const {
    return numbers_[static_cast<size_t>(index(stream, head, query, key))];
  }
  /// To some head.
  [[nodiscard]] bool is_seen(int64_t stream, int64_t query, int64_t key) const;
  [[nodiscard]] const MaskMatrix& matrix() const { return matrix_; }
  [[nodiscard]] const MaskBits& bits() const { return bits_; }
  /// first_rows, and q_heads where there are heads.
  [[nodiscard]] const MaskOptions& options() const { return options_; }
  [[nodiscard]] int64_t first_row(int64_t stream) const {
    return options_.first_rows != nullptr ? options_.first_rows[stream] : stream * spec_.keys;
  }
  /// Rows of a plane that holds all streams.
  [[nodiscard]] int64_t rows() const;

  Result<MaskedBatch> read(MaskReader& reader, const MaskOptions& options) const {
    return spec_.dtype == DType::invalid ? reader.read(bits_, options)
                                         : reader.read(matrix_, options);
  }

 private:
  [[nodiscard]] int64_t index(int64_t stream, int64_t head, int64_t query, int64_t key) const {
    return ((stream * spec_.heads + head) * spec_.queries + query) * spec_.keys + key;
  }
  void make_numbers(Rng& rng);
  void make_stream(Rng& rng, int64_t stream, int64_t head);
  void store(Rng& rng);
  void store_bits();

  MaskSpec spec_;
  std::vector<float> numbers_;
  std::vector<int64_t> first_rows_;
  GuardedMemory memory_;
  MaskMatrix matrix_ = {};
  MaskBits bits_ = {};
  MaskOptions options_ = {};
};

/// The bits of a number in a mask's type, 0 for -0.
uint32_t bits_of(DType dtype, float number);

/// The batch says what the matrix says: each key that is seen, and no other, at its row of the
/// plane, once; positions whose distances round to the numbers; or the numbers, times slopes.
void expect_same(const MaskedBatch& masked, const MaskCase& mask, const MaskOptions& options);

/// What `expectations` say has failed, kept from the test that runs: a property that shrinks asks
/// many times.
template <class F>
std::string failures_of(F&& expectations) {
  testing::TestPartResultArray results;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    expectations();
  }
  std::string messages;
  for (int i = 0; i < results.size(); ++i) messages += results.GetTestPartResult(i).message();
  return messages;
}

}  // namespace folio::test
