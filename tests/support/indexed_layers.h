// SPDX-License-Identifier: Apache-2.0
/// tests/support/indexed_layers.h: layers that have an index cache beside their K and V, or their
/// latents: for each token a key of one head, on the same pages, as DeepSeek V3.2 and GLM-5 have
/// it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "folio/attention/append.h"
#include "folio/cache/page_walk.h"
#include "folio/cache/planes.h"
#include "folio/core/any_tensor.h"
#include "folio/core/buffer.h"
#include "folio/core/execution.h"
#include "support/random.h"

namespace folio::test {

inline constexpr int32_t index_head_size = 128, index_rope_dims = 64;

/// How index keys are kept.
struct IndexFormat {
  const char* name = "";
  DType dtype = DType::bf16;
  int32_t granularity = 0;  ///< elements of a scale, f32; 0: none
  bool is_behind = false;   ///< a page's scales lie behind its values, as vLLM keeps them
};
inline constexpr IndexFormat index_formats[] = {
    {"bf16"},
    {"fp8, a scale a token, behind the page's values", DType::f8_e4m3, 128, true},
    {"fp8, a scale a token, apart", DType::f8_e4m3, 128},
    {"fp8, a scale of 32 elements, behind the page's values", DType::f8_e4m3, 32, true}};

inline KVShape index_shape(const IndexFormat& format, int32_t page_size) {
  KVShape shape{
      .head_size = index_head_size, .page_size = page_size, .dtype = format.dtype, .is_mla = true};
  if (format.granularity == 0) return shape;
  shape.scale_dtype = DType::f32;
  shape.quantization_granularity = format.granularity;
  if (format.is_behind)
    shape.page_stride_bytes = shape.scale_page_stride_bytes =
        page_bytes(shape).value() + scale_page_bytes(shape).value();
  return shape;
}

/// The planes of a shape, in memory of their own.
class OwnPlanes {
 public:
  OwnPlanes(const KVShape& shape, int64_t num_pages)
      : values_(page_bytes(shape).value()),
        scales_(scale_page_bytes(shape).value()),
        memory_(Buffer::allocate(num_pages * (values_ + scales_)).value()) {
    fill(std::byte{0xff});
    // scales begin behind the values of the first page, or of the last one
    const int64_t first = shape.page_stride_bytes != 0 ? values_ : num_pages * values_;
    const MemorySpan scales{memory_.data() + first, memory_.span().bytes - first};
    planes_ =
        make_planes(shape, num_pages, memory_.span(), scales_ == 0 ? MemorySpan{} : scales).value();
  }
  [[nodiscard]] const std::vector<KVPlanes>& planes() const { return planes_; }
  [[nodiscard]] std::span<std::byte> bytes() {
    return {memory_.data(), static_cast<size_t>(memory_.span().bytes)};
  }
  void fill(std::byte with) { std::ranges::fill(bytes(), with); }

 private:
  int64_t values_, scales_;
  Buffer memory_;
  std::vector<KVPlanes> planes_;
};

/// What becomes of an index key before it is stored: a LayerNorm, and a rotation of the first
/// dimensions.
class IndexTransform {
 public:
  static constexpr int32_t positions = 256;

  IndexTransform() {
    Rng rng(3);
    for (int32_t d = 0; d < index_head_size; ++d) {
      weights.push_back(rng.uniform(0.5f, 1.5f));
      shifts.push_back(rng.uniform(-0.5f, 0.5f));
    }
    for (int i = 0; i < positions * index_rope_dims; ++i)
      angles_.push_back(rng.uniform(-1.0f, 1.0f));
  }
  [[nodiscard]] Rope rope(bool interleaved, const int32_t* of_tokens = nullptr) const {
    return {angles_.data(), positions, index_rope_dims, interleaved, 0, of_tokens};
  }
  std::vector<float> weights, shifts;

 private:
  std::vector<float> angles_;
};

/// Two layers, each of K and V, or of latents, and of an index plane. What they have of a token
/// depends on the token and its position alone.
class IndexedLayers {
 public:
  enum class Main : uint8_t { kv, latent };

  IndexedLayers(Main main, const IndexFormat& format, int32_t page_size, int64_t num_pages)
      : page_size_(page_size), main_(main_shape(main, page_size), num_pages) {
    for (int layer = 0; layer < num_layers; ++layer)
      index_.emplace_back(index_shape(format, page_size), num_pages);
    for (size_t layer = 0; layer < num_layers; ++layer) {
      planes_.push_back(main_.planes()[layer]);
      planes_.push_back(index_[layer].planes()[0]);
    }
  }

  /// Of each layer what attention reads, then the index keys.
  [[nodiscard]] std::span<const KVPlanes> planes() const { return planes_; }
  /// The memory of what attention reads, then that of the index of each layer.
  [[nodiscard]] std::vector<std::span<std::byte>> memory() {
    std::vector<std::span<std::byte>> all{main_.bytes()};
    for (OwnPlanes& index : index_) all.push_back(index.bytes());
    return all;
  }
  void fill(std::byte with) {
    for (const std::span<std::byte> bytes : memory()) std::ranges::fill(bytes, with);
  }

  void write(int32_t token, int32_t position, int64_t slot) {
    for (size_t i = 0; i < planes_.size(); ++i)
      write_planes(planes_[i], i, {token, position, slot});
  }
  /// What a slot has in all planes, values and scales.
  [[nodiscard]] std::vector<std::byte> bytes_of(int64_t slot) const {
    std::vector<std::byte> all;
    for (const KVPlanes& planes : planes_) {
      for (const PagedKVView* view : {&planes.key, &planes.value})
        if (view->data != nullptr) add_bytes(*view, slot / page_size_, slot % page_size_, all);
    }
    return all;
  }

 private:
  static constexpr int32_t num_layers = 2;
  struct Place {
    int32_t token, position;
    int64_t slot;
  };

  static KVShape main_shape(Main main, int32_t page_size) {
    const bool is_latent = main == Main::latent;
    return {.num_layers = num_layers,
            .num_heads = is_latent ? 1 : 2,
            .head_size = is_latent ? 96 : 32,
            .page_size = page_size,
            .is_mla = is_latent};
  }
  static std::vector<float> row(uint64_t seed, int64_t elements) {
    Rng rng(seed);
    std::vector<float> x(static_cast<size_t>(elements));
    for (float& value : x) value = rng.uniform(-3.0f, 3.0f);
    return x;
  }
  void write_planes(const KVPlanes& planes, size_t i, const Place& at) const {
    const uint64_t seed =
        (static_cast<uint64_t>(at.token) * 1000 + static_cast<uint64_t>(at.position)) * 16 + 2 * i;
    const PagedKVView &key = planes.key, &value = planes.value;
    std::vector<float> k = row(seed, int64_t{key.num_heads} * key.head_size), v;
    AppendArgs args{.k = dense_tensor<3>(k.data(), DType::f32, {1, key.num_heads, key.head_size}),
                    .key = key,
                    .slots = &at.slot};
    if (value.data != nullptr) {
      v = row(seed + 1, int64_t{value.num_heads} * value.head_size);
      args.v = dense_tensor<3>(v.data(), DType::f32, {1, value.num_heads, value.head_size});
      args.value = value;
    }
    const Rope rope = transform_.rope(i == 1, &at.position);
    if (i % 2 == 1) {
      args.rope = &rope;
      args.k_norm = transform_.weights.data();
      args.k_norm_shift = transform_.shifts.data();
    }
    append({}, args, serial_executor()).or_throw();
  }
  static void add_bytes(const PagedKVView& view, int64_t page, int64_t slot,
                        std::vector<std::byte>& all) {
    const auto add = [&all](const std::byte* from, int64_t bytes) {
      all.insert(all.end(), from, from + bytes);
    };
    const ScaleView& s = view.scales;
    for (int64_t head = 0; head < view.num_heads; ++head) {
      add(folio::detail::row_of(view, page, slot, head), row_bytes(view.dtype, view.head_size));
      for (int64_t d = 0; s.data != nullptr && d < view.head_size; d += s.granularity)
        add(static_cast<const std::byte*>(s.data) +
                folio::detail::scale_offset_bytes(s, page, slot, head, d / s.granularity),
            bit_width(s.dtype) / 8);
    }
  }

  const int32_t page_size_;
  IndexTransform transform_;
  OwnPlanes main_;
  std::vector<OwnPlanes> index_;
  std::vector<KVPlanes> planes_;
};

/// What sequences should have: by token and position.
class ExpectedRows {
 public:
  ExpectedRows(IndexedLayers::Main main, const IndexFormat& format) : layers_(main, format, 1, 1) {}
  [[nodiscard]] std::vector<std::byte> of(int32_t token, int32_t position) {
    layers_.write(token, position, 0);
    return layers_.bytes_of(0);
  }

 private:
  IndexedLayers layers_;
};

}  // namespace folio::test
