// SPDX-License-Identifier: Apache-2.0
/// tests/support/case_planes.cpp: the planes of an AttentionCase: strides with gaps, scales of
/// every kind, filling through append.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "folio/attention/append.h"
#include "reference/elements.h"
#include "reference/quantise.h"
#include "support/attention_case.h"
#include "support/block_dtypes.h"

namespace folio::test {
namespace {

// V has a mean, so that lost or doubled weight shows in every output
constexpr float value_offset = 0.25f;

bool is_calibrated(ScaleKind kind) { return kind < ScaleKind::token_and_head; }

bool is_unscaled_integer(DType dtype, const ScaleOptions& scales) {
  return dtype == DType::i8 && scales.kind == ScaleKind::none;
}

/// The largest magnitude of inputs; integers without scales need inputs that survive rounding to
/// integers.
float amplitude(DType dtype, const ScaleOptions& scales) {
  return is_unscaled_integer(dtype, scales) ? 40.0f : 1.0f;
}

float outlier(size_t column, float factor) { return column % 29 == 5 ? factor : 1.0f; }

int64_t align_up(int64_t x, int64_t alignment) {
  return (x + alignment - 1) / alignment * alignment;
}

}  // namespace

PagedKVView AttentionCase::plane_of(DType dtype, int32_t head_size, StorageOrder order,
                                    const ScaleOptions& scales) const {
  const int64_t heads = options_.kv_heads;
  const bool unbounded = options_.page_size == unbounded_page_size;
  const int64_t slots = unbounded ? 1 : options_.page_size;
  const int64_t row_bytes = folio::row_bytes(dtype, head_size);
  const bool has_inline_scales = scales.kind == ScaleKind::behind_row;
  const bool is_paired = options_.pair != Pair::none;  // rows of both types in turn
  const int64_t row_stride =
      align_up(row_bytes + (has_inline_scales ? 16 : 0), has_inline_scales || is_paired ? 4 : 1) +
      options_.gap_bytes;

  PagedKVView view;
  view.dtype = dtype;
  view.num_heads = options_.kv_heads;
  view.head_size = head_size;
  view.page_size = options_.page_size;
  view.num_pages = num_pages_;
  if (order == StorageOrder::token_major) {
    view.head_stride_bytes = row_stride;
    view.slot_stride_bytes = heads * row_stride + options_.gap_bytes;
    view.page_stride_bytes =
        unbounded ? view.slot_stride_bytes : slots * view.slot_stride_bytes + options_.gap_bytes;
  } else {
    view.slot_stride_bytes = row_stride;
    view.head_stride_bytes = slots * row_stride + options_.gap_bytes;
    view.page_stride_bytes = heads * view.head_stride_bytes + options_.gap_bytes;
    if (unbounded) {  // [head, row]: pages of one slot
      view.page_stride_bytes = row_stride;
      view.head_stride_bytes = num_pages_ * row_stride + options_.gap_bytes;
    }
  }
  return view;
}

/// Both planes get the strides of what lies in turn; returns the distance of V from K in bytes.
int64_t AttentionCase::pair_planes(PagedKVView& key, PagedKVView& value) const {
  const bool is_token_major = options_.key_order == StorageOrder::token_major;
  const bool is_unbounded = options_.page_size == unbounded_page_size;
  int64_t PagedKVView::*strides[] = {&PagedKVView::head_stride_bytes,
                                     &PagedKVView::slot_stride_bytes,
                                     &PagedKVView::page_stride_bytes};
  int64_t extents[] = {options_.kv_heads, is_unbounded ? 1 : options_.page_size};
  if (!is_token_major) {
    std::swap(strides[0], strides[1]);
    std::swap(extents[0], extents[1]);
  }
  int innermost = options_.pair == Pair::of_rows ? 0 : options_.pair == Pair::of_runs ? 1 : 2;
  if (is_unbounded) innermost = is_token_major ? std::min(innermost, 1) : 0;  // pages are slots
  const int64_t distance = key.*strides[innermost];
  int64_t stride = distance + value.*strides[innermost];
  for (int i = innermost; i < 3; ++i) {
    key.*strides[i] = value.*strides[i] = stride;
    if (i < 2) stride = stride * extents[i] + options_.gap_bytes;
  }
  if (!is_unbounded) return distance;
  for (PagedKVView* view : {&key, &value}) {
    view->page_stride_bytes = view->slot_stride_bytes;
    if (!is_token_major) view->head_stride_bytes = num_pages_ * view->slot_stride_bytes;
  }
  return distance;
}

void AttentionCase::make_planes() {
  PagedKVView& key = args_.key;
  PagedKVView& value = args_.value;
  key = plane_of(options_.key_dtype, options_.head_size, options_.key_order, options_.key_scales);
  if (!options_.value_in_key)
    value = plane_of(options_.value_dtype, options_.v_head_size,
                     options_.pair == Pair::none ? options_.value_order : options_.key_order,
                     options_.value_scales);
  const int64_t slots = options_.page_size == unbounded_page_size ? 1 : options_.page_size;
  const auto bytes_of = [&](const PagedKVView& view, const ScaleOptions& scales) {
    const bool is_behind = scales.kind == ScaleKind::behind_row;
    const int64_t row = row_bytes(view.dtype, view.head_size);
    return (num_pages_ - 1) * view.page_stride_bytes + (slots - 1) * view.slot_stride_bytes +
           int64_t{options_.kv_heads - 1} * view.head_stride_bytes +
           (is_behind ? align_up(row, 4) + 4 : row);
  };
  const auto alignment_of = [](const PagedKVView& view, const ScaleOptions& scales) -> int64_t {
    if (scales.kind == ScaleKind::behind_row) return 4;
    return folio::detail::is_block(view.dtype) ? 2 : std::max(1, bit_width(view.dtype) / 8);
  };
  int64_t bytes = 0, alignment = alignment_of(key, options_.key_scales), shift = 0;
  if (options_.pair != Pair::none && !options_.value_in_key) {
    shift = pair_planes(key, value);
    bytes = shift + bytes_of(value, options_.value_scales);
    alignment = std::max(alignment, alignment_of(value, options_.value_scales));
  }
  bytes = std::max(bytes, bytes_of(key, options_.key_scales));
  key_.values = GuardedMemory(bytes, alignment);
  key.data = key_.values.data();
  make_scales(key_, key, options_.key_scales, row_bytes(key.dtype, key.head_size));
  make_turn(key_, key, options_.key_turn);
  problem_.key = key;
  if (options_.value_in_key) return;
  if (shift == 0)
    value_.values = GuardedMemory(bytes_of(value, options_.value_scales),
                                  alignment_of(value, options_.value_scales));
  value.data = shift == 0 ? value_.values.data() : key_.values.data() + shift;
  make_scales(value_, value, options_.value_scales, row_bytes(value.dtype, value.head_size));
  make_turn(value_, value, options_.value_turn);
  problem_.value = value;
}

void AttentionCase::make_turn(Plane& plane, PagedKVView& view, const TurnOptions& options) {
  view.hadamard = options.hadamard;
  view.has_channel_scales = options.channel_scales;
  if (!options.channel_scales) return;
  for (int32_t i = 0; i < view.num_heads * view.head_size; ++i)
    plane.channel_scales.push_back(rng_.uniform(0.5f, 1.5f));
  view.channel_scales = plane.channel_scales.data();
}

void AttentionCase::make_scales(Plane& plane, PagedKVView& view, const ScaleOptions& options,
                                int64_t row_bytes) {
  if (options.kind == ScaleKind::none) return;
  ScaleView& scales = view.scales;
  const bool unbounded = view.page_size == unbounded_page_size;
  const int64_t slots = unbounded ? 1 : view.page_size;
  const int64_t element = bit_width(options.dtype) / 8;
  const bool has_granules =
      options.kind == ScaleKind::granule || options.kind == ScaleKind::calibrated_granule;
  scales.dtype = options.dtype;
  scales.granularity = has_granules ? options.granularity : view.head_size;
  scales.zeros = options.zeros;
  const bool has_pairs = options.zeros == Zeros::patterns || options.zeros == Zeros::minimum;
  if (has_pairs) scales.zero_offset_bytes = element;
  if (options.tensor_scale) {
    plane.tensor_scale = rng_.uniform(0.5f, 2.0f);
    scales.tensor_scale = &plane.tensor_scale;
  }
  if (options.kind == ScaleKind::behind_row) {
    scales.data = static_cast<std::byte*>(view.data) + align_up(row_bytes, 4);
    scales.dtype = DType::f32;
    scales.page_stride_bytes = view.page_stride_bytes;
    scales.slot_stride_bytes = view.slot_stride_bytes;
    scales.head_stride_bytes = view.head_stride_bytes;
    return;
  }

  const int64_t granules = (view.head_size + scales.granularity - 1) / scales.granularity;
  const bool per_granule = has_granules;
  const bool per_head = options.kind != ScaleKind::tensor && options.kind != ScaleKind::page;
  const bool per_slot = !is_calibrated(options.kind);
  const bool per_page =
      per_slot || options.kind == ScaleKind::page || options.kind == ScaleKind::page_and_head;
  // [page, slot, head, granule], extents of 1 where broadcast, a gap of one element between tokens
  const int64_t granule = has_pairs ? 2 : 1;  // elements
  const int64_t in_head = granule * (per_granule ? granules : 1);
  const int64_t in_slot = in_head * (per_head ? view.num_heads : 1) + 1;
  const int64_t in_page = in_slot * (per_slot ? slots : 1);
  scales.granule_stride_bytes = per_granule ? granule * element : 0;
  scales.head_stride_bytes = per_head ? in_head * element : 0;
  scales.slot_stride_bytes = per_slot ? in_slot * element : 0;
  scales.page_stride_bytes = per_page ? in_page * element : 0;
  // pages are rows there: nothing to calibrate by
  if (unbounded && per_page && !per_slot) scales.page_stride_bytes = 0;
  plane.scales = GuardedMemory(((per_page ? num_pages_ : 1) * in_page - 1) * element, element);
  scales.data = plane.scales.data();
  if (per_slot) return;  // append writes them

  const double largest =
      static_cast<double>(amplitude(view.dtype, options)) / reference::largest_stored(view.dtype);
  for (int64_t page = 0; page < (scales.page_stride_bytes != 0 ? num_pages_ : 1); ++page) {
    for (int64_t head = 0; head < (per_head ? view.num_heads : 1); ++head) {
      for (int64_t i = 0; i < in_head; i += granule) {
        auto* at = static_cast<std::byte*>(scales.data) + page * scales.page_stride_bytes +
                   head * scales.head_stride_bytes + i * element;
        calibrate(plane, scales, largest, at);
      }
    }
  }
}

/// A scale and its zero point, for elements up to `largest` times what is stored.
void AttentionCase::calibrate(Plane& plane, const ScaleView& scales, double largest,
                              std::byte* at) {
  const double wanted =
      largest * static_cast<double>(rng_.uniform(0.8f, 2.0f) / plane.tensor_scale);
  uint32_t code = reference::encode_up(scales.dtype, wanted);
  const auto zero = static_cast<uint32_t>(rng_.int_between(6, 10));
  if (scales.zeros == Zeros::in_scale) code = (code & ~15u) + zero;
  std::memcpy(at, &code, static_cast<size_t>(bit_width(scales.dtype) / 8));
  if (scales.zeros == Zeros::patterns) at[scales.zero_offset_bytes] = static_cast<std::byte>(zero);
  if (scales.zeros == Zeros::minimum)
    reference::store(at + scales.zero_offset_bytes, scales.dtype, -7.5 * wanted);
}

/// Blocks of any patterns; scales of either sign, now and then 0, subnormal or large.
void AttentionCase::fill_blocks(const PagedKVView& view, const std::vector<int64_t>& slots) {
  const bool unbounded = view.page_size == unbounded_page_size;
  const float largest = view.dtype == DType::q8_0 || view.dtype == DType::iq4_nl ? 128.0f : 16.0f;
  const auto put = [](std::byte* at, float x) {
    const uint32_t code = reference::encode(DType::f16, static_cast<double>(x));
    std::memcpy(at, &code, 2);
  };
  const auto bytes = static_cast<size_t>(row_bytes(view.dtype, 32));
  for (const int64_t slot : slots) {
    if (slot < 0) continue;
    for (int64_t head = 0; head < view.num_heads; ++head) {
      auto* block = static_cast<std::byte*>(view.data) + head * view.head_stride_bytes +
                    (unbounded ? slot : slot / view.page_size) * view.page_stride_bytes +
                    (unbounded ? 0 : slot % view.page_size) * view.slot_stride_bytes;
      for (int32_t i = 0; i < view.head_size; i += 32, block += bytes) {
        for (size_t b = 0; b < bytes; ++b) block[b] = static_cast<std::byte>(rng_.next());
        const float factor = rng_.chance(0.02)   ? 0.0f
                             : rng_.chance(0.02) ? 0x1p-20f
                             : rng_.chance(0.02) ? 8.0f
                                                 : 1.0f;
        put(block, rng_.uniform(-1.0f, 1.0f) / largest * factor);
        if (has_minimum(view.dtype)) put(block + 2, rng_.uniform(-1.0f, 1.0f) * factor);
      }
    }
  }
}

/// Writes every alive slot once, in random order, by slots.
void AttentionCase::fill_planes() {
  const bool unbounded = options_.page_size == unbounded_page_size;
  std::set<int64_t> alive;
  for (size_t b = 0; b < alive_.size(); ++b) {
    for (size_t key = 0; key < alive_[b].size(); ++key) {
      if (!alive_[b][key]) continue;
      const auto token = static_cast<int64_t>(key);
      const int64_t page =
          pages_[b][static_cast<size_t>(unbounded ? 0 : token / options_.page_size)];
      alive.insert(unbounded ? page + token
                             : page * options_.page_size + token % options_.page_size);
    }
  }
  std::vector<int64_t> slots(alive.begin(), alive.end());
  rng_.shuffle(slots);
  slots.push_back(-1);  // skipped, with NaN as its input
  const auto tokens = static_cast<int64_t>(slots.size());
  const int64_t heads = options_.kv_heads;

  std::vector<float> k(static_cast<size_t>(tokens * heads * options_.head_size),
                       std::numeric_limits<float>::quiet_NaN());
  std::vector<float> v(static_cast<size_t>(tokens * heads * options_.v_head_size),
                       std::numeric_limits<float>::quiet_NaN());
  const float k_amplitude = amplitude(options_.key_dtype, options_.key_scales);
  const float v_amplitude = amplitude(options_.value_dtype, options_.value_scales);
  for (size_t i = 0; i < static_cast<size_t>((tokens - 1) * heads * options_.head_size); ++i) {
    k[i] = rng_.uniform(-k_amplitude, k_amplitude) *
           outlier(i % static_cast<size_t>(options_.head_size), options_.outliers);
  }
  for (size_t i = 0; i < static_cast<size_t>((tokens - 1) * heads * options_.v_head_size); ++i) {
    v[i] = rng_.uniform(value_offset - 1.0f, 1.0f) * v_amplitude *
           outlier(i % static_cast<size_t>(options_.v_head_size), options_.outliers);
  }

  // of blocks any patterns, more than append would make
  const bool has_key_blocks = folio::detail::is_block(options_.key_dtype),
             has_value_blocks =
                 folio::detail::is_block(options_.value_dtype) && !options_.value_in_key;
  if (has_key_blocks) fill_blocks(args_.key, slots);
  if (has_value_blocks) fill_blocks(args_.value, slots);
  if (has_key_blocks || has_value_blocks) {
    AppendArgs args;
    args.slots = slots.data();
    args.k = dense_tensor(k.data(), DType::f32, {tokens, heads, int64_t{options_.head_size}});
    args.key = args_.key;
    if (!has_key_blocks) append({}, args, serial_executor()).or_throw();
    args.k = dense_tensor(v.data(), DType::f32, {tokens, heads, int64_t{options_.v_head_size}});
    args.key = args_.value;
    if (!has_value_blocks && !options_.value_in_key) append({}, args, serial_executor()).or_throw();
    return;
  }
  AppendArgs args;
  args.k = dense_tensor(k.data(), DType::f32, {tokens, heads, int64_t{options_.head_size}});
  if (!options_.value_in_key)
    args.v = dense_tensor(v.data(), DType::f32, {tokens, heads, int64_t{options_.v_head_size}});
  args.key = args_.key;
  args.value = args_.value;
  args.slots = slots.data();
  append({}, args, serial_executor()).or_throw();
}

}  // namespace folio::test
