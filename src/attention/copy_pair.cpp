// SPDX-License-Identifier: Apache-2.0
/// src/attention/copy_pair.cpp: bytes that move as they are, and conversions of the rest.
#include "attention/copy_pair.h"

#include <cstring>

#include "attention/row_conversions.h"
#include "cache/check_view.h"
#include "cache/granule_bytes.h"
#include "cpu/profile.h"
#include "folio/cache/page_walk.h"

namespace folio::inline v1 {
namespace {

/// A strided box of byte runs, [slots, heads, granules], on both sides.
struct Box {
  int64_t bytes = 0;  ///< of one run
  int64_t extent[3] = {1, 1, 1};
  int64_t from_stride[3] = {};
  int64_t to_stride[3] = {};
};

/// Dimensions that are packed on both sides become longer runs. Single slots come by the thousand:
/// nothing is tried in vain.
void pack(Box& box) {
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (int d = 2; d >= 0; --d) {
      if (box.extent[d] == 1 || box.from_stride[d] != box.bytes || box.to_stride[d] != box.bytes)
        continue;
      box.bytes *= box.extent[d];
      box.extent[d] = 1;
      has_changed = true;
    }
  }
}

/// Runs of fewer than `call_bytes` are not worth a call of the kernel.
void copy_box(Box box, const std::byte* from, std::byte* to, const rows::Kernel& kernel,
              int64_t call_bytes, bool streams) {
  if (from == to) return;
  pack(box);
  for (int64_t i = 0; i < box.extent[0]; ++i) {
    for (int64_t k = 0; k < box.extent[1]; ++k) {
      for (int64_t g = 0; g < box.extent[2]; ++g) {
        std::byte* target = to + i * box.to_stride[0] + k * box.to_stride[1] + g * box.to_stride[2];
        const std::byte* source =
            from + i * box.from_stride[0] + k * box.from_stride[1] + g * box.from_stride[2];
        if (box.bytes < call_bytes) {
          std::memcpy(target, source, static_cast<size_t>(box.bytes));
        } else {
          kernel.move(target, source, box.bytes, streams);
        }
      }
    }
  }
}

/// Which strides of the scales are 0: what one scale belongs to. Strides over a single element say
/// nothing.
int64_t sharing(const PagedKVView& view) {
  const ScaleView& s = view.scales;
  const int64_t granules = granules_of(view.head_size, s.granularity);
  return (s.page_stride_bytes == 0 ? 1 : 0) +
         (view.page_size > 1 && s.slot_stride_bytes == 0 ? 2 : 0) +
         (view.num_heads > 1 && s.head_stride_bytes == 0 ? 4 : 0) +
         (granules > 1 && s.granule_stride_bytes == 0 ? 8 : 0);
}

float tensor_scale_of(const ScaleView& scales) {
  return scales.tensor_scale != nullptr ? *scales.tensor_scale : 1.0f;
}

bool lies_within(const PagedKVView& view, CopyKind kind) {
  const ScaleView& s = view.scales;
  if (kind == CopyKind::page || view.page_size == unbounded_page_size)
    return s.page_stride_bytes != 0;
  return s.slot_stride_bytes != 0 && (s.page_stride_bytes != 0 || view.num_pages <= 1);
}

/// One scale for all pages or slots, and the same memory: it fits both sides.
bool is_one_scale(const ScaleView& from, const ScaleView& to, CopyKind kind) {
  const bool has_zeros = zero_point_bytes(from) != 0;
  return from.data == to.data && from.head_stride_bytes == to.head_stride_bytes &&
         (!has_zeros || from.zero_offset_bytes == to.zero_offset_bytes) &&
         from.granule_stride_bytes == to.granule_stride_bytes &&
         from.slot_stride_bytes == to.slot_stride_bytes && from.page_stride_bytes == 0 &&
         to.page_stride_bytes == 0 && (kind == CopyKind::page || from.slot_stride_bytes == 0);
}

bool have_same_form(const PagedKVView& from, const PagedKVView& to) {
  return from.scales.dtype == to.scales.dtype && from.scales.granularity == to.scales.granularity &&
         from.scales.zeros == to.scales.zeros && sharing(from) == sharing(to);
}

/// Channel scales that lie elsewhere may be others.
bool are_turned_alike(const PagedKVView& from, const PagedKVView& to) {
  return from.hadamard == to.hadamard && from.channel_scales == to.channel_scales;
}

}  // namespace

CopyRule copy_rule(const PagedKVView& from, const PagedKVView& to, CopyKind kind) noexcept {
  if (from.dtype != to.dtype || (from.scales.data != nullptr) != (to.scales.data != nullptr) ||
      !are_turned_alike(from, to))
    return {};
  if (from.scales.data == nullptr) return {true, false};
  if (!have_same_form(from, to)) return {};
  const bool scales_move = lies_within(from, kind) && lies_within(to, kind);
  return {scales_move || is_one_scale(from.scales, to.scales, kind), scales_move};
}

CopyPair::CopyPair(const PagedKVView& from, const PagedKVView& to, CopyKind kind,
                   int64_t bytes) noexcept
    : from_(from), to_(to), kernel_(rows::kernel()), bytes_(bytes) {
  const AppendProfile& profile = machine_profile().append;
  streams_ = bytes >= profile.stream_bytes;
  call_bytes_ = profile.call_bytes;
  const CopyRule rule = copy_rule(from, to, kind);
  moves_ = rule.moves && (from.scales.data == nullptr ||
                          tensor_scale_of(from.scales) == tensor_scale_of(to.scales));
  scales_move_ = moves_ && rule.scales_move;
}

bool CopyPair::splits_by_heads() const noexcept {
  const bool writes_scales = moves_ ? scales_move_ : computes_scales(to_);
  if (!moves_ && (from_.has_channel_scales || to_.has_channel_scales)) return false;
  return !writes_scales || to_.num_heads == 1 || to_.scales.head_stride_bytes != 0;
}

void CopyPair::move(const CopyBox& at) const noexcept {
  Box box;
  box.bytes = row_bytes(from_.dtype, from_.head_size);
  box.extent[0] = at.tokens;
  box.extent[1] = at.heads;
  box.from_stride[0] = from_.slot_stride_bytes;
  box.from_stride[1] = from_.head_stride_bytes;
  box.to_stride[0] = to_.slot_stride_bytes;
  box.to_stride[1] = to_.head_stride_bytes;
  copy_box(box, detail::row_of(from_, at.from_page, at.from_slot, at.head),
           detail::row_of(to_, at.to_page, at.to_slot, at.head), kernel_, call_bytes_, streams_);
  if (scales_move_) move_scales(at);
}

void CopyPair::move_scales(const CopyBox& at) const noexcept {
  const ScaleView& source = from_.scales;
  const ScaleView& target = to_.scales;
  if (source.slot_stride_bytes == 0 && from_.page_size > 1 && !at.with_page_scales) return;
  Box box;
  box.bytes = bit_width(source.dtype) / 8;
  box.extent[0] = source.slot_stride_bytes != 0 ? at.tokens : 1;
  box.extent[1] = source.head_stride_bytes != 0 ? at.heads : 1;
  box.extent[2] =
      source.granule_stride_bytes != 0 ? granules_of(from_.head_size, source.granularity) : 1;
  box.from_stride[0] = source.slot_stride_bytes;
  box.from_stride[1] = source.head_stride_bytes;
  box.from_stride[2] = source.granule_stride_bytes;
  box.to_stride[0] = target.slot_stride_bytes;
  box.to_stride[1] = target.head_stride_bytes;
  box.to_stride[2] = target.granule_stride_bytes;
  const auto* const from =
      static_cast<const std::byte*>(source.data) +
      detail::scale_offset_bytes(source, at.from_page, at.from_slot, at.head, 0);
  auto* const to = static_cast<std::byte*>(target.data) +
                   detail::scale_offset_bytes(target, at.to_page, at.to_slot, at.head, 0);
  copy_box(box, from, to, kernel_, call_bytes_, false);
  box.bytes = zero_point_bytes(source);
  if (box.bytes != 0)
    copy_box(box, from + source.zero_offset_bytes, to + target.zero_offset_bytes, kernel_,
             call_bytes_, false);
}

rows::Conversion CopyPair::conversion(int32_t heads) const noexcept {
  rows::Conversion conversion =
      conversion_of(format_of(from_), format_of(to_), heads, from_.head_size, computes_scales(to_));
  conversion.streams = should_stream(conversion, to_.data, to_.slot_stride_bytes, bytes_);
  pack_heads(conversion);
  return conversion;
}

rows::TokenRow CopyPair::token_row(const CopyBox& at, int64_t token) const noexcept {
  const int64_t from_slot = at.from_slot + token, to_slot = at.to_slot + token;
  rows::TokenRow token_row;
  token_row.source = detail::row_of(from_, at.from_page, from_slot, at.head);
  token_row.target = detail::row_of(to_, at.to_page, to_slot, at.head);
  if (from_.scales.data != nullptr)
    token_row.source_scales =
        scales_of(from_, at.from_page, from_slot) + at.head * from_.scales.head_stride_bytes;
  if (to_.scales.data != nullptr)
    token_row.target_scales =
        scales_of(to_, at.to_page, to_slot) + at.head * to_.scales.head_stride_bytes;
  return token_row;
}

}  // namespace folio::inline v1
