// SPDX-License-Identifier: Apache-2.0
/// tests/attention/append_parts.h: sources, steps and planes at random, for the tests of append and
/// rotate.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "folio/cache/batch.h"
#include "folio/core/any_tensor.h"
#include "folio/core/execution.h"
#include "reference/elements.h"
#include "support/block_dtypes.h"
#include "support/random.h"
#include "support/test_plane.h"

namespace folio::test {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Activations [tokens, heads, dims] with gaps between heads and tokens, as slices of a fused row
/// have; gaps are NaN.
class Source {
 public:
  Source(DType dtype, int64_t tokens, int64_t heads, int64_t dims, int64_t gap) {
    const int64_t element = bit_width(dtype) / 8;
    const int64_t head = dims + gap, token = heads * head + gap;
    memory_ = GuardedMemory(
        tokens == 0 ? 0 : ((tokens - 1) * token + (heads - 1) * head + dims) * element, element);
    tensor = {
        memory_.data(), dtype, {tokens, heads, dims}, {token * element, head * element, element}};
  }
  void set(int64_t t, int64_t h, int64_t d, float x) const {
    reference::store(at(t, h, d), tensor.dtype, static_cast<double>(x));
  }
  [[nodiscard]] float get(int64_t t, int64_t h, int64_t d) const {
    return static_cast<float>(reference::load(at(t, h, d), tensor.dtype));
  }
  void randomise(Rng& rng, bool with_specials) const {
    const float specials[] = {0.0f, -0.0f, infinity, -infinity, not_a_number, 1e-30f, 6e4f, -3e38f};
    const float size = std::exp2(rng.uniform(-20.0f, 12.0f));
    for (int64_t t = 0; t < tensor.extent[0]; ++t) {
      for (int64_t h = 0; h < tensor.extent[1]; ++h) {
        for (int64_t d = 0; d < tensor.extent[2]; ++d) {
          set(t, h, d,
              with_specials && rng.chance(0.1) ? rng.pick(specials) : rng.uniform(-size, size));
        }
      }
    }
  }

  AnyTensor<3> tensor = {};

 private:
  [[nodiscard]] void* at(int64_t t, int64_t h, int64_t d) const {
    const int64_t* s = tensor.stride_bytes;
    return static_cast<std::byte*>(tensor.data) + t * s[0] + h * s[1] + d * s[2];
  }
  GuardedMemory memory_;
};

/// Where two planes of one spec differ first, or nothing.
inline std::string difference(const std::vector<std::byte>& actual,
                              const std::vector<std::byte>& expected) {
  const auto [a, e] = std::mismatch(actual.begin(), actual.end(), expected.begin(), expected.end());
  if (a == actual.end()) return "";
  return "byte " + std::to_string(a - actual.begin()) + " is " +
         std::to_string(static_cast<int>(*a)) + ", expected " +
         std::to_string(static_cast<int>(*e));
}

/// Sequences with skewed lengths, some without new tokens; the table ends where inaccessible memory
/// begins.
struct Step {
  std::vector<int32_t> offsets{0}, contexts;
  std::vector<int64_t> row_starts;
  GuardedMemory table;
  Batch batch = {};
  int64_t tokens = 0;

  Step(Rng& rng, int32_t page_size, int64_t num_pages) {
    std::vector<uint32_t> ids(static_cast<size_t>(num_pages));
    std::iota(ids.begin(), ids.end(), 0u);
    rng.shuffle(ids);  // tokens of different sequences never share a page here
    std::vector<uint32_t> entries;
    const int64_t size = rng.between(1, 4);
    for (int64_t b = 0; b < size; ++b) {
      const int64_t fresh = rng.chance(0.2) ? 0 : rng.between(1, 9);
      const int64_t context = fresh + rng.between(0, 12);
      contexts.push_back(static_cast<int32_t>(context));
      offsets.push_back(static_cast<int32_t>(offsets.back() + fresh));
      row_starts.push_back(static_cast<int64_t>(entries.size()));
      for (int64_t p = 0; p * page_size < context; ++p) {
        const uint32_t unassigned[] = {static_cast<uint32_t>(num_pages), 0xffffffffu, 0x80000000u};
        const bool assigned = !ids.empty() && rng.chance(0.85);
        entries.push_back(assigned ? ids.back() : rng.pick(unassigned));
        if (assigned) ids.pop_back();
      }
    }
    table = GuardedMemory(static_cast<int64_t>(entries.size()) * 4, 4);
    std::copy(entries.begin(), entries.end(), table.as<uint32_t>());
    tokens = offsets.back();
    batch.size = static_cast<int32_t>(size);
    batch.query_offsets = offsets.data();
    batch.context_lengths = contexts.data();
    batch.table = {table.as<uint32_t>(), 0, row_starts.data()};
  }
  /// slot of each token, -1 where its page is unassigned
  [[nodiscard]] std::vector<int64_t> slots(int32_t page_size, int64_t num_pages) const {
    std::vector<int64_t> list;
    for (int32_t b = 0; b < batch.size; ++b) {
      const int64_t fresh = offsets[static_cast<size_t>(b) + 1] - offsets[static_cast<size_t>(b)];
      for (int64_t t = 0; t < fresh; ++t) {
        const int64_t index = contexts[static_cast<size_t>(b)] - fresh + t;
        const int64_t page =
            table.as<uint32_t>()[row_starts[static_cast<size_t>(b)] + index / page_size];
        list.push_back(page < num_pages ? page * page_size + index % page_size : -1);
      }
    }
    return list;
  }
};

inline ScaleSpec random_scales(Rng& rng, bool quantised) {
  const DType dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0, DType::f8_e4m3};
  if (rng.chance(0.25)) return {};
  ScaleSpec s;
  s.dtype = rng.pick(dtypes);
  s.granularity = rng.int_between(1, 24);
  s.slot = quantised && rng.chance(0.7);  // otherwise calibrated
  s.page = s.slot || rng.chance(0.5);
  s.head = rng.chance(0.6);
  s.granule = rng.chance(0.6);
  s.is_inline = s.slot && rng.chance(0.3);
  s.tensor_scale = rng.chance(0.3) ? rng.uniform(0.001f, 40.0f) : 0.0f;
  return s;
}

inline PlaneSpec random_spec(Rng& rng, int32_t page_size, int64_t num_pages) {
  const DType dtypes[] = {DType::f32,     DType::bf16,    DType::f16,
                          DType::f8_e4m3, DType::f8_e5m2, DType::i8};
  PlaneSpec spec;
  spec.dtype = rng.pick(dtypes);
  spec.num_heads = rng.int_between(1, 4);
  spec.head_size = rng.chance(0.1) ? 576 : rng.int_between(1, 40);
  spec.page_size = page_size;
  spec.num_pages = num_pages;
  spec.order = rng.chance(0.5) ? StorageOrder::token_major : StorageOrder::head_major;
  spec.gap = rng.between(0, 2);
  spec.scales = random_scales(rng, bit_width(spec.dtype) == 8);
  return spec;
}

/// A plane of blocks.
inline PlaneSpec random_block_spec(Rng& rng, int32_t page_size, int64_t num_pages) {
  PlaneSpec spec = random_spec(rng, page_size, num_pages);
  spec.dtype = rng.pick(block_dtypes);
  spec.head_size = 32 * rng.int_between(1, 5);
  spec.scales = {};
  return spec;
}

/// Scales that exist before append: every one that the plane has.
inline void calibrate(const TestPlane& plane, Rng& rng) {
  const PagedKVView& v = plane.view;
  if (v.scales.data == nullptr || v.scales.slot_stride_bytes != 0) return;
  for (int64_t page = 0; page < v.num_pages; ++page) {
    for (int64_t h = 0; h < v.num_heads; ++h) {
      for (int64_t d = 0; d < v.head_size; d += v.scales.granularity) {
        reference::store(plane.scale(page, 0, h, d), v.scales.dtype,
                         static_cast<double>(rng.uniform(0.01f, 4.0f)));
      }
    }
  }
}

/// Runs tasks last to first and claims many threads.
inline Executor reversed_executor() {
  return {nullptr, [](void*) { return 16; },
          [](void*, int64_t n, void (*task)(void*, int64_t) noexcept, void* arg) {
            for (int64_t i = n; i > 0; --i) task(arg, i - 1);
          }};
}

}  // namespace folio::test
