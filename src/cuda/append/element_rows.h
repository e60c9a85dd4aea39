// SPDX-License-Identifier: Apache-2.0
/// src/cuda/append/element_rows.h: rows of one token, element by element, a warp for a head: any
/// dtype, stride, granule and head size. What append does where vectors do not fit, and what copies
/// do that convert.
#pragma once

#include "cuda/append/append_call.h"
#include "cuda/append/granule_scale.h"

namespace folio::cuda {

/// Where elements are read. Scales of head h, granule g: scales_at + h * head stride + g * granule
/// stride.
struct RowSource {
  const std::byte* data = nullptr;  ///< head 0
  DType dtype = DType::invalid;
  int64_t head_stride_bytes = 0;
  ScaleView scales = {};
  const std::byte* scales_at = nullptr;  ///< null: none
  float tensor_scale = 1.0f;
  bool is_written = false;  ///< somebody writes there during the kernel
};

/// What happens on the way.
struct RowTransform {
  const float* angles = nullptr;  ///< null: no rotation
  int32_t first_dim = 0;
  int32_t dims = 0;
  bool interleaved = false;
  const float* norm = nullptr;  ///< null: no norm
  float norm_eps = 0.0f;
};

struct RowTarget {
  PagedKVView view = {};
  std::byte* data = nullptr;    ///< head 0
  std::byte* scales = nullptr;  ///< null: none
  float tensor_scale = 1.0f;
};

/// Element `e` of a row is read and written by the thread `e` says, for every row of a target: of
/// copies one after the other, each thread sees its own elements as it left them.
template <class Thread>
class ElementRows {
 public:
  FOLIO_DEVICE ElementRows(Thread& t, const RowSource& from, const RowTransform& transform,
                           const RowTarget& to)
      : t_(t), from_(from), transform_(transform), to_(to), size_(to.view.head_size) {}

  /// All of the warp take part. Where heads share computed scales, these are all heads.
  FOLIO_DEVICE void write(int32_t begin, int32_t end) {
    if (to_.scales != nullptr) return write_granules(begin, end);
    for (int32_t head = begin; head < end; ++head) {
      find_norm_factor(head);
      write_plain(head);
    }
  }

 private:
  // ---- reading

  template <class T>
  FOLIO_DEVICE float element_as(const std::byte* at) {
    const auto* element = reinterpret_cast<const T*>(at);
    return to_float(from_.is_written ? t_.load(element) : t_.read(element));
  }
  FOLIO_DEVICE float stored(int32_t head, int32_t e) {
    const std::byte* row = from_.data + head * from_.head_stride_bytes;
    static_assert(folio::detail::num_plane_dtypes == 6);
    switch (from_.dtype) {
      case DType::f32: return element_as<float>(row + e * int64_t{4});
      case DType::bf16: return element_as<bf16>(row + e * int64_t{2});
      case DType::f16: return element_as<f16>(row + e * int64_t{2});
      case DType::f8_e4m3: return element_as<f8_e4m3>(row + e);
      case DType::f8_e5m2: return element_as<f8_e5m2>(row + e);
      default: return element_as<int8_t>(row + e);
    }
  }
  FOLIO_DEVICE float source(int32_t head, int32_t e) {
    const float x = stored(head, e);
    if (from_.scales_at == nullptr) return x;
    const std::byte* at =
        from_.scales_at + head * from_.scales.head_stride_bytes +
        folio::detail::granule_of(from_.scales, e) * from_.scales.granule_stride_bytes;
    return x * (get_scale(t_, from_.scales.dtype, at) * from_.tensor_scale);
  }
  FOLIO_DEVICE float normalised(int32_t head, int32_t e) {
    const float x = source(head, e);
    return transform_.norm != nullptr ? x * factor_ * t_.read(transform_.norm + e) : x;
  }
  FOLIO_DEVICE float value(int32_t head, int32_t e) {
    const int32_t in_rope = e - transform_.first_dim, half = transform_.dims / 2;
    const float x = normalised(head, e);
    if (transform_.angles == nullptr || in_rope < 0 || in_rope >= transform_.dims) return x;
    const bool is_second = transform_.interleaved ? in_rope % 2 != 0 : in_rope >= half;
    const int32_t distance = transform_.interleaved ? 1 : half;
    const int32_t pair = transform_.interleaved ? in_rope / 2 : in_rope % half;
    const float partner = normalised(head, is_second ? e - distance : e + distance);
    const float cosine = t_.read(transform_.angles + pair);
    const float sine = t_.read(transform_.angles + half + pair);
    return is_second ? x * cosine + partner * sine : x * cosine - partner * sine;
  }

  /// Chain c of 16 adds the squares of elements c, c + 16, ...; then chains c and c + 8 are added,
  /// c and c + 4, and so on.
  FOLIO_DEVICE void find_norm_factor(int32_t head) {
    if (transform_.norm == nullptr) return;
    float sum = 0.0f;
    for (int32_t e = t_.lane() % 16; e < size_; e += 16) {
      const float x = source(head, e);
      sum = sum + x * x;
    }
    FOLIO_UNROLL
    for (int mask = 8; mask > 0; mask /= 2) sum = sum + t_.shuffle_xor(sum, mask);
    const float mean = sum / static_cast<float>(size_);
    factor_ = 1.0f / square_root(mean + transform_.norm_eps);
  }

  // ---- writing

  template <class T>
  FOLIO_DEVICE void put_as(std::byte* at, float x) {
    t_.store(reinterpret_cast<T*>(at), from_float<T>(x));
  }
  FOLIO_DEVICE void put(int32_t head, int32_t e, float x) {
    std::byte* row = to_.data + head * to_.view.head_stride_bytes;
    static_assert(folio::detail::num_plane_dtypes == 6);
    switch (to_.view.dtype) {
      case DType::f32: return put_as<float>(row + e * int64_t{4}, x);
      case DType::bf16: return put_as<bf16>(row + e * int64_t{2}, x);
      case DType::f16: return put_as<f16>(row + e * int64_t{2}, x);
      case DType::f8_e4m3: return put_as<f8_e4m3>(row + e, x);
      case DType::f8_e5m2: return put_as<f8_e5m2>(row + e, x);
      default: return put_as<int8_t>(row + e, x);
    }
  }
  /// A thread has both elements of a pair: it may overwrite what it has read.
  FOLIO_DEVICE void write_plain(int32_t head) {
    const bool rotates = transform_.angles != nullptr;
    const int32_t first = rotates ? transform_.first_dim : size_;
    if (from_.is_written && transform_.norm != nullptr) t_.sync_warp();  // all have summed
    for (int32_t e = t_.lane(); e < first; e += 32) put(head, e, value(head, e));
    if (!rotates) return;
    const int32_t distance = transform_.interleaved ? 1 : transform_.dims / 2;
    for (int32_t pair = t_.lane(); pair < transform_.dims / 2; pair += 32) {
      const int32_t e = first + (transform_.interleaved ? 2 * pair : pair);
      const float a = value(head, e), b = value(head, e + distance);
      put(head, e, a);
      put(head, e + distance, b);
    }
    for (int32_t e = first + transform_.dims + t_.lane(); e < size_; e += 32)
      put(head, e, value(head, e));
  }

  FOLIO_DEVICE void write_granules(int32_t begin, int32_t end) {
    const int32_t granule_size = granule_size_of(to_.view);
    const bool shares = heads_share_scales(to_.view);
    const int32_t step = shares ? end - begin : 1;
    for (int32_t head = begin; head < end; head += step) {
      if (!shares) find_norm_factor(head);
      for (int32_t first = 0, g = 0; first < size_; first += granule_size, ++g) {
        const int32_t stop = first + granule_size < size_ ? first + granule_size : size_;
        std::byte* scale = to_.scales + head * to_.view.scales.head_stride_bytes +
                           g * to_.view.scales.granule_stride_bytes;
        const float divisor = divisor_of(head, head + step, first, stop, scale);
        for (int32_t h = head; h < head + step; ++h) {
          if (shares) find_norm_factor(h);
          for (int32_t e = first + t_.lane(); e < stop; e += 32) put(h, e, value(h, e) / divisor);
        }
      }
    }
  }
  /// Elements [first, stop) of heads [head, end), whose scale is at `at`.
  FOLIO_DEVICE float divisor_of(int32_t head, int32_t end, int32_t first, int32_t stop,
                                std::byte* at) {
    const DType dtype = to_.view.scales.dtype;
    if (!has_computed_scales(to_.view)) return get_scale(t_, dtype, at) * to_.tensor_scale;
    uint32_t largest = 0;
    const bool shares = head + 1 < end;
    for (int32_t h = head; h < end; ++h) {
      if (shares) find_norm_factor(h);
      for (int32_t e = first + t_.lane(); e < stop; e += 32) {
        const uint32_t magnitude = finite_magnitude(value(h, e));
        largest = largest > magnitude ? largest : magnitude;
      }
    }
    FOLIO_UNROLL
    for (int mask = 1; mask < 32; mask *= 2) {
      const uint32_t other = t_.shuffle_xor(largest, mask);
      largest = largest > other ? largest : other;
    }
    const float wanted = wanted_scale(largest, to_.view.dtype, to_.tensor_scale);
    return put_scale(t_, wanted, dtype, t_.lane() == 0, at) * to_.tensor_scale;
  }

  Thread& t_;
  const RowSource& from_;
  const RowTransform& transform_;
  const RowTarget& to_;
  int32_t size_;
  float factor_ = 1.0f;  ///< of the norm, of the head at hand
};

}  // namespace folio::cuda
