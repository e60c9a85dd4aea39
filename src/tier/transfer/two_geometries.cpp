// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/two_geometries.cpp: what a peer may say its pages are like, and whether those of
/// two ends go together.
#include <algorithm>

#include "tier/transfer/geometry.h"

namespace folio::inline v1::tier {

int64_t granules(int32_t head_size, int32_t granularity) noexcept {
  return (int64_t{head_size} + granularity - 1) / granularity;
}

int64_t Geometry::row_bytes_of(int section) const noexcept {
  if (is_state()) return state_rows[static_cast<size_t>(section)];
  const bool is_value = section % 2 == 1;
  if (is_value && is_mla != 0) return 0;
  if (section < 2) return row_bytes(dtype, head_size);
  if (scale_kind != ScaleKind::slots) return 0;
  return granules(head_size, granularity) * bit_width(scale_dtype) / 8;
}

bool Geometry::has_bytes_of(const Geometry& other) const noexcept {
  return dtype == other.dtype && scale_kind == other.scale_kind &&
         scale_dtype == other.scale_dtype && granularity == other.granularity &&
         shared_crc == other.shared_crc;
}

Status check_geometry(const Geometry& g) noexcept {
  const struct {
    const char* name;
    int64_t is, first, last;
  } ranges[] = {{"num_layers", g.num_layers, 1, 1 << 12},
                {"page_size", g.page_size, 1, 1 << 16},
                {"head_size", g.head_size, 1, 1 << 16},
                {"num_heads", g.num_heads, 1, 1 << 12},
                {"total_heads", g.total_heads, g.num_heads, 1 << 12},
                {"first_head", g.first_head, 0, int64_t{g.total_heads} - g.num_heads},
                {"scale_kind", static_cast<int64_t>(g.scale_kind), 0, 2},
                {"order", static_cast<int64_t>(g.order), 0, 1},
                {"is_mla", g.is_mla, 0, 1},
                {"has_tensor_scales", g.has_tensor_scales, 0, 1}};
  for (const auto& r : ranges)
    if (r.is < r.first || r.is > r.last)
      return fail(Errc::invalid_argument, "{} is {}, expected {} .. {}", r.name, r.is, r.first,
                  r.last);
  const bool is_block = detail::is_block(g.dtype);
  if ((!is_block && !detail::is_plane_dtype(g.dtype)) || g.head_size % block_elements(g.dtype) != 0)
    return fail(Errc::invalid_argument,
                "dtype is {}, expected one that planes have with heads of {}",
                static_cast<int>(g.dtype), g.head_size);
  if (g.scale_kind == ScaleKind::none) return {};
  if (is_block || !detail::is_scale_dtype(g.scale_dtype))
    return fail(Errc::invalid_argument, "scale_dtype is {}, expected one that scales have",
                static_cast<int>(g.scale_dtype));
  if (g.granularity >= 1) return {};
  return fail(Errc::invalid_argument, "granularity is {}, expected 1 or more", g.granularity);
}

HeadRange common_heads(const Geometry& a, const Geometry& b) noexcept {
  const int32_t first = std::max(a.first_head, b.first_head);
  const int32_t end = std::min(a.first_head + a.num_heads, b.first_head + b.num_heads);
  return {first, std::max(end - first, 0)};
}

Status check_alike(const Geometry& s, const Geometry& r) noexcept {
  if (s.model != r.model) return fail(Errc::unsupported, "the models of the two ends differ");
  const struct {
    const char* name;
    int64_t sender, receiver;
  } equal[] = {{"num_layers", s.num_layers, r.num_layers},
               {"head_size", s.head_size, r.head_size},
               {"total_heads", s.total_heads, r.total_heads},
               {"is_mla", s.is_mla, r.is_mla}};
  for (const auto& e : equal)
    if (e.sender != e.receiver)
      return fail(Errc::unsupported, "{} is {}, expected the receiver's {}", e.name, e.sender,
                  e.receiver);
  const bool shares = s.scale_kind == ScaleKind::shared || s.has_tensor_scales != 0;
  if (shares && !s.has_bytes_of(r))
    return fail(Errc::unsupported,
                "the sender's pages share scales, expected a receiver with equal ones and the same "
                "dtype");
  return {};
}

Status check_pair(const Geometry& s, const Geometry& r) noexcept {
  if (Status status = check_alike(s, r); !status.is_ok()) return status;
  if (common_heads(s, r).count != 0) return {};
  return fail(Errc::unsupported, "the sender has heads {} .. {}, expected some of {} .. {}",
              s.first_head, s.first_head + s.num_heads - 1, r.first_head,
              r.first_head + r.num_heads - 1);
}

bool is_direct(const Geometry& s, const Geometry& r) noexcept {
  if (!s.has_bytes_of(r) || s.page_size != r.page_size) return false;
  // Where only some heads come, those of a token-major page are a run for each token: a staged copy
  // costs less than so many small writes.
  const bool all_heads = common_heads(s, r).count == r.num_heads;
  const bool one_head = r.num_heads == 1;
  if (all_heads && one_head) return true;
  return s.order == r.order && (all_heads || r.order == StorageOrder::head_major);
}

}  // namespace folio::inline v1::tier
