// SPDX-License-Identifier: Apache-2.0
/// reference/append.cpp: one token, one head, one granule at a time.
#include "reference/append.h"

#include <algorithm>
#include <vector>

#include "reference/attention.h"
#include "reference/elements.h"
#include "reference/hadamard.h"
#include "reference/quantise.h"
#include "reference/rotate.h"

namespace folio::reference {
namespace {

/// The place of each token of the step.
std::vector<Slot> slots_of(const Batch& batch, const AppendArgs& args) {
  std::vector<Slot> places;
  if (args.slots != nullptr) {
    const int64_t slots_per_page =
        args.key.page_size == unbounded_page_size ? 1 : args.key.page_size;
    for (int64_t t = 0; t < args.k.extent[0]; ++t) {
      const int64_t slot = args.slots[t];
      places.push_back(slot < 0 ? Slot{} : Slot{slot / slots_per_page, slot % slots_per_page});
    }
    return places;
  }
  for (int32_t b = 0; b < batch.size; ++b) {
    const int64_t tokens = batch.query_offsets[b + 1] - batch.query_offsets[b];
    for (int64_t t = 0; t < tokens; ++t)
      places.push_back(slot_of(args.key, batch, b, batch.context_lengths[b] - tokens + t));
  }
  return places;
}

/// What is done to a row of K on its way.
struct Transform {
  const Batch* batch = nullptr;
  const Rope* rope = nullptr;
  const float* weights = nullptr;
  const float* shifts = nullptr;
  double eps = 0.0;

  void apply(std::span<double> row, int64_t token) const {
    if (weights != nullptr) normalise(row, weights, shifts, eps);
    if (rope != nullptr) rotate_row(row, *rope, position_of(*batch, *rope, token));
  }
};

void append_plane(const PagedKVView& view, const ConstTensor<3>& rows,
                  const std::vector<Slot>& places, const Transform& transform) {
  std::vector<double> wide(static_cast<size_t>(view.head_size));
  std::vector<float> x(wide.size());
  const int32_t granularity =
      view.scales.data != nullptr ? view.scales.granularity : view.head_size;
  for (size_t t = 0; t < places.size(); ++t) {
    if (places[t].page < 0) continue;
    for (int32_t head = 0; head < view.num_heads; ++head) {
      const auto* at = static_cast<const std::byte*>(rows.data) +
                       static_cast<int64_t>(t) * rows.stride_bytes[0] + head * rows.stride_bytes[1];
      load_row(at, rows.dtype, view.head_size, wide.data());
      transform.apply(wide, static_cast<int64_t>(t));
      std::transform(wide.begin(), wide.end(), x.begin(),
                     [](double value) { return static_cast<float>(value); });
      for (size_t d = 0; d < x.size() && view.has_channel_scales; ++d)
        x[d] /= view.channel_scales[static_cast<size_t>(head) * x.size() + d];
      turn(x, view.hadamard);
      for (int32_t dim = 0; dim < view.head_size; dim += granularity) {
        const auto size = static_cast<size_t>(std::min(granularity, view.head_size - dim));
        store_granule(view, places[t], head, dim,
                      std::span(x).subspan(static_cast<size_t>(dim), size));
      }
    }
  }
}

}  // namespace

void append(const Batch& batch, const AppendArgs& args) {
  const std::vector<Slot> places = slots_of(batch, args);
  append_plane(
      args.key, args.k, places,
      {&batch, args.rope, args.k_norm, args.k_norm_shift, static_cast<double>(args.norm_eps)});
  if (args.v.data != nullptr) append_plane(args.value, args.v, places, {});
}

}  // namespace folio::reference
