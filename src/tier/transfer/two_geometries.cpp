// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/two_geometries.cpp: what a peer may say its pages are like, and whether those of
/// two ends go together.
#include <algorithm>

#include "cache/check_view.h"
#include "tier/transfer/geometry.h"

namespace folio::inline v1::tier {

int64_t granules(int32_t head_size, int32_t granularity) noexcept {
  return (int64_t{head_size} + granularity - 1) / granularity;
}

int64_t RowForm::granule_bytes() const noexcept {
  const int64_t element = bit_width(scale_dtype) / 8;
  return zeros == Zeros::patterns || zeros == Zeros::minimum ? 2 * element : element;
}

int64_t Geometry::row_bytes_of(int section) const noexcept {
  if (is_state()) return state_rows[static_cast<size_t>(section)];
  const bool is_value = section % 2 == 1;
  if (is_value && is_mla != 0) return 0;
  const RowForm& form = is_value ? value : key;
  if (section < 2) return row_bytes(form.dtype, head_size);
  if (form.scale_kind != ScaleKind::slots) return 0;
  return granules(head_size, form.granularity) * form.granule_bytes();
}

bool Geometry::has_bytes_of(const Geometry& other) const noexcept {
  return key == other.key && value == other.value && shared_crc == other.shared_crc;
}

bool Geometry::shares() const noexcept {
  const auto does = [](const RowForm& form) {
    return form.scale_kind == ScaleKind::shared || form.has_channel_scales != 0;
  };
  return has_tensor_scales != 0 || does(key) || does(value);
}

namespace {

struct InRange {
  const char* name;
  int64_t is, first, last;
};

/// Rows that planes can have, of heads of so many elements. `plane`: whose.
Status check_rows(const char* plane, const RowForm& form, int32_t head_size) {
  const InRange ranges[] = {
      {"scale_kind", static_cast<int64_t>(form.scale_kind), 0, 2},
      {"zeros", static_cast<int64_t>(form.zeros), 0, static_cast<int64_t>(Zeros::in_scale)},
      {"has_channel_scales", form.has_channel_scales, 0, 1}};
  for (const InRange& r : ranges)
    if (r.is < r.first || r.is > r.last)
      return fail(Errc::invalid_argument, "{}.{} is {}, expected {} .. {}", plane, r.name, r.is,
                  r.first, r.last);
  if (!detail::is_row_dtype(form.dtype) || head_size % block_elements(form.dtype) != 0)
    return fail(Errc::invalid_argument,
                "{}.dtype is {}, expected one that planes have with heads of {}", plane,
                static_cast<int>(form.dtype), head_size);
  if (!can_be_turned(form.hadamard, head_size))
    return fail(Errc::invalid_argument,
                "{}.hadamard is of blocks of {}, signs by {}, expected none or a power of two, 16 "
                ".. 512, that divides heads of {}",
                plane, form.hadamard.block, form.hadamard.sign_seed, head_size);
  const bool has_scales = form.scale_kind != ScaleKind::none;
  if (has_scales ? detail::is_block(form.dtype) : detail::is_packed(form.dtype))
    return fail(Errc::invalid_argument, "{}.scale_kind is {}, expected {} ({})", plane,
                static_cast<int>(form.scale_kind), has_scales ? "none" : "scales", form.dtype);
  if (!has_scales && form.zeros == Zeros::none) return {};
  if (!detail::is_scale_dtype(form.scale_dtype))
    return fail(Errc::invalid_argument, "{}.scale_dtype is {}, expected one that scales have",
                plane, static_cast<int>(form.scale_dtype));
  if (!can_have_zeros(form.dtype, form.scale_dtype, form.zeros))
    return fail(Errc::invalid_argument, "{}.zeros is {}, expected what {} has beside scales of {}",
                plane, static_cast<int>(form.zeros), form.dtype, form.scale_dtype);
  if (form.granularity >= 1) return {};
  return fail(Errc::invalid_argument, "{}.granularity is {}, expected 1 or more", plane,
              form.granularity);
}

/// What rows of two ends differ in. Null: nothing.
const char* difference(const RowForm& a, const RowForm& b) {
  if (a.dtype != b.dtype) return "dtype";
  if (a.scale_kind != b.scale_kind || a.scale_dtype != b.scale_dtype) return "scales";
  if (a.granularity != b.granularity) return "scales.granularity";
  if (a.zeros != b.zeros) return "scales.zeros";
  if (a.hadamard != b.hadamard) return "hadamard";
  return a.has_channel_scales != b.has_channel_scales ? "has_channel_scales" : nullptr;
}

}  // namespace

Status check_geometry(const Geometry& g) noexcept {
  const InRange ranges[] = {{"num_layers", g.num_layers, 1, 1 << 12},
                            {"page_size", g.page_size, 1, 1 << 16},
                            {"head_size", g.head_size, 1, 1 << 16},
                            {"num_heads", g.num_heads, 1, 1 << 12},
                            {"total_heads", g.total_heads, g.num_heads, 1 << 12},
                            {"first_head", g.first_head, 0, int64_t{g.total_heads} - g.num_heads},
                            {"order", static_cast<int64_t>(g.order), 0, 1},
                            {"is_mla", g.is_mla, 0, 1},
                            {"has_tensor_scales", g.has_tensor_scales, 0, 1}};
  for (const InRange& r : ranges)
    if (r.is < r.first || r.is > r.last)
      return fail(Errc::invalid_argument, "{} is {}, expected {} .. {}", r.name, r.is, r.first,
                  r.last);
  if (Status s = check_rows("key", g.key, g.head_size); !s.is_ok()) return s;
  if (g.is_mla == 0) return check_rows("value", g.value, g.head_size);
  if (g.value == RowForm{}) return {};
  return fail(Errc::invalid_argument, "value has rows, expected none (is_mla)");
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
  if (!s.shares() || s.has_bytes_of(r)) return {};
  const char* plane = "key";
  const char* what = difference(s.key, r.key);
  if (what == nullptr) plane = "value", what = difference(s.value, r.value);
  if (what != nullptr)
    return fail(Errc::unsupported,
                "{}.{} differs from the receiver's, expected the same: the sender's pages share "
                "scales, which do not go with them",
                plane, what);
  return fail(Errc::unsupported,
              "the sender's pages share scales, expected a receiver with equal ones of the same "
              "heads: tensor_scale, channel_scales, and scales of all pages");
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
