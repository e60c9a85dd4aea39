// SPDX-License-Identifier: Apache-2.0
/// src/tma/describe.cpp: the sentences of broken TMA rules.
#include "folio/core/status.h"
#include "folio/tma/tensor_map.h"

namespace folio::inline v1::tma {
namespace {

/// The fields behind TmaFault::index, where it is no dimension.
const char* enumeration(int32_t index) {
  constexpr const char* fields[] = {"interleave", "swizzle", "l2_promotion", "oob_fill", "use"};
  return index >= 0 && index < 5 ? fields[index] : "enumeration";
}
const char* extent(int32_t index) {
  constexpr const char* fields[] = {"num_heads",        "head_size",         "num_pages",
                                    "page_size",        "slot_stride_bytes", "tile rows",
                                    "number of scales", "gather4 tile_width"};
  return index >= 0 && index < 8 ? fields[index] : "extent";
}

Status refuse(const char* format, const char* function, int64_t a = 0, int64_t b = 0,
              int64_t c = 0) {
  return fail(Errc::invalid_argument, format, function, a, b, c);
}

Status describe_driver_rule(const char* f, const Fault& fault) {
  const int64_t i = fault.index, came = fault.came, allowed = fault.allowed;
  switch (fault.rule) {
    case Rule::rank: return refuse("{}: rank is {}, expected 1 to {}", f, came, allowed);
    case Rule::enumerator:
      return fail(Errc::invalid_argument, "{}: {} is {}, expected 0 to {}", f,
                  enumeration(fault.index), came, allowed);
    case Rule::dtype:
      return refuse("{}: dtype is {}, which is no TMA type; expected 0 (u8) to {} (tf32_ftz)", f,
                    came, allowed);
    case Rule::rank_of_interleaved:
      return refuse("{}: rank is {}, expected at least {} with an interleaved layout", f, came,
                    allowed);
    case Rule::base_null: return refuse("{}: base is null", f);
    case Rule::base_alignment:
      return refuse("{}: base is {} bytes past a multiple of {}, expected a multiple of it", f,
                    came, allowed);
    case Rule::dim: return refuse("{}: dim[{}] is {}, expected 1 to {}", f, i, came, allowed);
    case Rule::stride_alignment:
      return refuse("{}: stride_bytes[{}] is {}, expected a multiple of {}", f, i, came, allowed);
    case Rule::stride_limit:
      return refuse("{}: stride_bytes[{}] is {}, expected 0 to {}", f, i, came, allowed);
    case Rule::box: return refuse("{}: box[{}] is {}, expected 1 to {}", f, i, came, allowed);
    case Rule::box_inner_bytes:
      return refuse("{}: box[0] is {} bytes, expected a multiple of {}", f, came, allowed);
    case Rule::element_stride:
      return refuse("{}: element_stride[{}] is {}, expected 1 to {}", f, i, came, allowed);
    case Rule::swizzle_span:
      return refuse("{}: box[0] is {} bytes, expected at most the swizzle's {}", f, came, allowed);
    case Rule::swizzle_of_interleaved:
      return refuse("{}: swizzle is {}, expected {} (b32) with the layout interleaved by 32 bytes",
                    f, came, allowed);
    case Rule::nan_fill_type:
      return refuse("{}: oob_fill is nan with dtype {}, expected a floating type", f, came);
    case Rule::gather4_rank:
      return refuse("{}: rank is {}, expected {} for gather4", f, came, allowed);
    case Rule::gather4_box:
      return refuse("{}: box[{}] is {}, expected {} for gather4", f, i, came, allowed);
    default:
      return refuse("{}: element_stride[{}] is {}, expected {} for gather4", f, i, came, allowed);
  }
}

Status describe_depth(const char* f, const Fault& fault) {
  if (fault.index == 0)
    return refuse("{}: first_column is {}, expected 0 to {}", f, fault.came, fault.allowed);
  if (fault.index == 1)
    return refuse("{}: depth is {}, the head has {} columns there", f, fault.came, fault.allowed);
  return refuse("{}: tile_width is {}, expected at most tile_stride, {}", f, fault.came,
                fault.allowed);
}

Status describe_group(const char* f, const Fault& fault) {
  if (fault.index == 0)
    return refuse("{}: tile_height is {}, expected a positive multiple of {}", f, fault.came,
                  fault.allowed);
  if (fault.index == 1)
    return refuse("{}: the tile has {} rows, expected a multiple of group, {}", f, fault.came,
                  fault.allowed);
  return refuse("{}: the plane has {} heads, expected a multiple of group, {}", f, fault.came,
                fault.allowed);
}

}  // namespace

Status describe(const char* function, const Fault& fault) noexcept {
  const char* f = function;
  const int64_t came = fault.came, allowed = fault.allowed;
  switch (fault.rule) {
    case Rule::none: return {};
    case Rule::cache_dtype:
      return fail(Errc::invalid_argument, "{}: elements of type {} have no TMA type", f,
                  static_cast<DType>(came));
    case Rule::coordinates:
      return refuse(
          "{}: {} pages, {} rows apart, do not fit TMA's 32-bit coordinates; expected a product of "
          "at most {}",
          f, allowed, came, INT32_MAX);
    case Rule::whole_rows:
      return refuse("{}: pages are {} bytes apart, expected a multiple of the slot stride, {}", f,
                    came, allowed);
    case Rule::depth: return describe_depth(f, fault);
    case Rule::tile_columns:
      return fail(Errc::invalid_argument,
                  "{}: {} {} columns, expected a multiple of the swizzle chunk, {}", f,
                  fault.index == 0 ? "the tile has" : "the head shows", came, allowed);
    case Rule::tile_rows:
      if (fault.index == 0)
        return refuse("{}: tile rows {} and page size {} do not divide one another", f, came,
                      allowed);
      return refuse("{}: {} rows are no whole atoms, expected a multiple of {}", f, came, allowed);
    case Rule::box_destination:
      return refuse(
          "{}: copies of one tile begin {} bytes apart in shared memory, expected a multiple of {}",
          f, came, allowed);
    case Rule::row_pitch:
      return fail(Errc::invalid_argument, "{}: {} described as {} bytes, it has {}", f,
                  fault.index == 0 ? "the head is" : "the row is", came, allowed);
    case Rule::extent:
      return fail(Errc::invalid_argument, "{}: {} is {}, expected at least {}", f,
                  extent(fault.index), came, allowed);
    case Rule::group: return describe_group(f, fault);
    default: return describe_driver_rule(f, fault);
  }
}

Status TensorMap::check() const noexcept { return describe("TensorMap", fault()); }

}  // namespace folio::inline v1::tma
