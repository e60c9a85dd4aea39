// SPDX-License-Identifier: Apache-2.0
/// bench/append_workload.h: one call of append, rotate or a copy, made for timing.
///
/// K and V are slices of a fused QKV row of 32 q heads and 8 KV heads of 128, or rows of 576 of a
/// latent cache; pages hold 64 tokens, token-major or head-major, and are permuted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "folio/attention/append.h"
#include "folio/cache/copy.h"
#include "roofs.h"

namespace folio::bench {

enum class AppendWork { append, rotate, copy_pages, copy_slots };
enum class AppendCache { token_major, head_major, latent };

struct AppendCase {
  const char* shape;
  AppendWork work;
  DType from;
  DType to;
  bool rotates = false;
  bool has_scales = false;  ///< computed, one per token and granule of a head
  /// one in each of so many sequences; 0: as many in one sequence as exceed the caches
  int64_t tokens = 0;
  int32_t granule = 128;  ///< elements
  AppendCache cache = AppendCache::token_major;
  DType scale_dtype = DType::f32;
  Zeros zeros = Zeros::none;  ///< of a packed type
  Hadamard hadamard = {};     ///< of both planes
};

/// Heads of a case, and where they lie in a row of the source.
struct AppendShape {
  int32_t q_heads = 32;
  int32_t heads = 8;
  int32_t head_size = 128;
  int32_t planes = 2;
  int32_t rope_dims = 128;

  explicit AppendShape(AppendCache cache) {
    if (cache == AppendCache::latent)
      q_heads = 0, heads = 1, head_size = 576, planes = 1, rope_dims = 64;
  }
  [[nodiscard]] int64_t row_elements() const {
    return int64_t{q_heads + planes * heads} * head_size;
  }
};

/// The memory of a case, and the arguments of its calls.
class AppendWorkload {
 public:
  AppendWorkload(const AppendCase& c, int threads);

  void run();
  /// Values read and written, once each.
  [[nodiscard]] double bytes() const;
  /// K of the first tokens as the reference would have it; empty if it is so. Rotation in place is
  /// left to the tests.
  std::string check();

 private:
  [[nodiscard]] bool decodes() const { return case_.tokens != 0; }
  /// Of a plane, zero points beside them.
  [[nodiscard]] int64_t scale_bytes() const;
  [[nodiscard]] int64_t scale_bytes_of_head() const;
  /// How a value that was stored differs from the reference's; empty: not.
  [[nodiscard]] std::string difference(const PagedKVView& exact, int64_t tokens) const;
  void fill() const;
  void make_batch();
  void make_table();
  [[nodiscard]] PagedKVView plane(std::byte* data, DType dtype, std::byte* scales) const;
  [[nodiscard]] AnyTensor<3> slice(int64_t first_head, int64_t count) const;
  [[nodiscard]] AppendArgs append_args() const;
  [[nodiscard]] RotateArgs rotate_args() const;

  AppendCase case_;
  AppendShape shape_;
  Executor executor_;
  int64_t tokens_ = 0;
  int64_t elements_ = 0;  ///< of a plane
  std::unique_ptr<HugeMemory> source_, target_, scales_;
  std::vector<uint32_t> pages_;
  std::vector<int32_t> offsets_, lengths_;
  std::vector<int64_t> slots_;
  std::vector<float> table_;
  Rope rope_;
  Batch batch_;
  PagedKVView key_, value_;
  KVPlanes from_[1], to_[1];
  std::vector<PageCopy> page_copies_;
  std::vector<SlotCopy> slot_copies_;
};

}  // namespace folio::bench
