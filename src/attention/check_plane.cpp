// SPDX-License-Identifier: Apache-2.0
/// src/attention/check_plane.cpp: whether the planes of a call are those that the problem
/// describes and that the selected kernel takes.
#include "attention/check.h"
#include "cache/check_reach.h"
#include "cache/check_view.h"

namespace folio::inline v1 {
namespace {

/// What the problem says of a plane.
struct Expected {
  const PagedKVView& view;
  Feature granules;  ///< what a kernel needs for scales that vary along a head
};

struct Compared {
  const char* name;
  int64_t given;
  int64_t expected;
};

Status compare_scales(const char* function, const char* plane, const PagedKVView& view,
                      const ScaleView& expected) {
  const ScaleView& scales = view.scales;
  if (scales.dtype != expected.dtype)
    return fail(Errc::invalid_argument, "{}: {}.scales.dtype is {}, expected {} (from the problem)",
                function, plane, scales.dtype, expected.dtype);
  if (expected.dtype == DType::invalid) return {};
  if (scales.zeros != expected.zeros)
    return fail(Errc::invalid_argument, "{}: {}.scales.zeros is {}, expected {} (from the problem)",
                function, plane, static_cast<int>(scales.zeros), static_cast<int>(expected.zeros));
  if (scales.granularity != expected.granularity)
    return fail(Errc::invalid_argument,
                "{}: {}.scales.granularity is {}, expected {} (from the problem)", function, plane,
                scales.granularity, expected.granularity);
  if (view.num_pages <= 0 || scales.data != nullptr) return {};
  return fail(Errc::invalid_argument, "{}: {}.scales.data is null, expected scales of type {}",
              function, plane, expected.dtype);
}

Status compare_plane(const char* function, const char* plane, const PagedKVView& view,
                     const PagedKVView& expected) {
  if (view.dtype != expected.dtype)
    return fail(Errc::invalid_argument, "{}: {} has dtype {}, expected {} (from the problem)",
                function, plane, view.dtype, expected.dtype);
  const Compared compared[] = {
      {"num_heads", view.num_heads, expected.num_heads},
      {"head_size", view.head_size, expected.head_size},
      {"page_size", view.page_size, expected.page_size},
      {"hadamard.block", view.hadamard.block, expected.hadamard.block},
      {"hadamard.sign_seed", view.hadamard.sign_seed, expected.hadamard.sign_seed},
      {"has_channel_scales", view.has_channel_scales, expected.has_channel_scales}};
  for (const Compared& c : compared) {
    if (c.given == c.expected) continue;
    return fail(Errc::invalid_argument, "{}: {}.{} is {}, expected {} (from the problem)", function,
                plane, c.name, c.given, c.expected);
  }
  return compare_scales(function, plane, view, expected.scales);
}

Status check_kernel_takes(const char* function, const Kernel& kernel, const char* plane,
                          const PagedKVView& view, Feature granules) {
  const Alignment alignment{kernel.supports.plane_alignment, DType::invalid, kernel.name};
  if (Status s = check_alignment(function, plane, view, alignment); !s.is_ok()) return s;
  if (!has_granules(view) || kernel.supports.features.has(granules)) return {};
  return fail(Errc::invalid_argument,
              "{}: {}.scales.granule_stride_bytes is {}, expected 0: {} was selected for one "
              "scale per token and head (from the problem)",
              function, plane, view.scales.granule_stride_bytes, kernel.name);
}

Status check_called(const char* function, const Kernel& kernel, const char* plane,
                    const PagedKVView& view, const Expected& expected) {
  if (Status s = compare_plane(function, plane, view, expected.view); !s.is_ok()) return s;
  if (Status s = check_memory(function, plane, view); !s.is_ok()) return s;
  if (Status s = check_form(function, plane, view); !s.is_ok()) return s;
  if (view.scales.dtype != DType::invalid) {
    if (Status s = check_memory(function, plane, view.scales); !s.is_ok()) return s;
    if (Status s = check_form(function, plane, view.scales); !s.is_ok()) return s;
  }
  if (Status s = check_kernel_takes(function, kernel, plane, view, expected.granules); !s.is_ok())
    return s;
  return check_reach(function, plane, view, view.num_pages);
}

}  // namespace

Status check_planes(const char* function, const Kernel& kernel, const AttentionProblem& problem,
                    const AttentionArgs& args) noexcept {
  if (Status s =
          check_called(function, kernel, "key", args.key, {problem.key, Feature::key_granules});
      !s.is_ok())
    return s;
  if (problem.value_in_key) return {};
  if (Status s = check_called(function, kernel, "value", args.value,
                              {problem.value, Feature::value_granules});
      !s.is_ok())
    return s;
  if (args.value.num_pages == args.key.num_pages) return {};
  return fail(Errc::invalid_argument, "{}: value.num_pages is {}, expected {} (from key)", function,
              args.value.num_pages, args.key.num_pages);
}

}  // namespace folio::inline v1
