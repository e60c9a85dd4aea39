// SPDX-License-Identifier: Apache-2.0
/// src/attention/append_async.cpp: append and rotate on a device's stream: check what the host
/// knows, then launch.
#include "attention/check_append.h"
#include "attention/streams.h"
#include "cache/check_tensor.h"
#include "cuda/append/launch.h"

namespace folio::inline v1 {
namespace {

Status check_batch_arrays(const char* function, Device device, const Batch& batch) {
  return check_arrays(function, device,
                      {{"batch.query_offsets", batch.query_offsets},
                       {"batch.context_lengths", batch.context_lengths},
                       {"batch.query_positions", batch.query_positions},
                       {"batch.key_positions", batch.key_positions}});
}

/// The batch where it is looked at.
Status check_rotation_arrays(const char* function, Device device, const Batch& batch,
                             const Rope* rope) {
  if (rope == nullptr) return {};
  if (Status s = check_arrays(
          function, device, {{"rope.cos_sin", rope->cos_sin}, {"rope.positions", rope->positions}});
      !s.is_ok())
    return s;
  return rope->positions != nullptr ? Status() : check_batch_arrays(function, device, batch);
}

/// `names`: of the plane's values, scales and factor.
Status check_plane_arrays(const char* function, Device device, const char* const (&names)[3],
                          const PagedKVView& view) {
  if (Status s = check_arrays(function, device, {{names[0], view.data}}); !s.is_ok()) return s;
  if (view.scales.data == nullptr) return {};
  return check_arrays(function, device,
                      {{names[1], view.scales.data}, {names[2], view.scales.tensor_scale}});
}

Status check_append_arrays(const char* function, Device device, const Batch& batch,
                           const AppendArgs& args) {
  static constexpr const char* key_names[] = {"key.data", "key.scales.data",
                                              "key.scales.tensor_scale"};
  static constexpr const char* value_names[] = {"value.data", "value.scales.data",
                                                "value.scales.tensor_scale"};
  if (Status s = check_arrays(
          function, device,
          {{"k", args.k.data}, {"v", args.v.data}, {"slots", args.slots}, {"k_norm", args.k_norm}});
      !s.is_ok())
    return s;
  if (Status s = check_plane_arrays(function, device, key_names, args.key); !s.is_ok()) return s;
  if (args.v.data != nullptr) {
    if (Status s = check_plane_arrays(function, device, value_names, args.value); !s.is_ok())
      return s;
  }
  if (args.slots == nullptr) {
    if (Status s = check_arrays(function, device,
                                {{"batch.table.entries", batch.table.entries},
                                 {"batch.table.row_starts", batch.table.row_starts}});
        !s.is_ok())
      return s;
    if (Status s = check_batch_arrays(function, device, batch); !s.is_ok()) return s;
  }
  return check_rotation_arrays(function, device, batch, args.rope);
}

void add_plane(cuda::AppendCall& call, const ConstTensor<3>& source, const PagedKVView& target) {
  cuda::AppendPlane& plane = call.planes[call.num_planes++];
  plane.source = source;
  plane.target = target;
}

cuda::AppendCall call_of(const Batch& batch, int64_t tokens, const Rope* rope, const float* norm,
                         float eps) {
  cuda::AppendCall call;
  call.tokens = tokens;
  call.batch = batch;
  if (rope != nullptr) call.rope = *rope;
  call.norm = norm;
  call.norm_eps = eps;
  return call;
}

/// A tensor as a plane whose pages are its tokens.
PagedKVView plane_of(const AnyTensor<3>& out) {
  PagedKVView view;
  view.data = out.data;
  view.dtype = out.dtype;
  view.num_heads = static_cast<int32_t>(out.extent[1]);
  view.head_size = static_cast<int32_t>(out.extent[2]);
  view.page_size = 1;
  view.num_pages = out.extent[0];
  view.page_stride_bytes = out.stride_bytes[0];
  view.head_stride_bytes = out.stride_bytes[1];
  return view;
}

}  // namespace

Status append_async(const Batch& batch, const AppendArgs& args, Device device,
                    Stream stream) noexcept {
  constexpr auto function = "append_async";
  if (Status s = check_streams(function, "append", device); !s.is_ok()) return s;
  if (Status s = check_append(function, batch, args, device.kind); !s.is_ok()) return s;
  const int64_t tokens = args.k.extent[0];
  if (tokens == 0) return {};
  if (Status s = check_append_arrays(function, device, batch, args); !s.is_ok()) return s;
  cuda::AppendCall call = call_of(batch, tokens, args.rope, args.k_norm, args.norm_eps);
  call.places = args.slots != nullptr ? cuda::Places::slots : cuda::Places::table;
  call.slots = args.slots;
  call.num_slots = slots_of(args);
  add_plane(call, args.k, args.key);
  if (args.v.data != nullptr) add_plane(call, args.v, args.value);
  return cuda::launch_append(function, device, call, stream);
}

Status rotate_async(const Batch& batch, const RotateArgs& args, Device device,
                    Stream stream) noexcept {
  constexpr auto function = "rotate_async";
  if (Status s = check_streams(function, "rotate", device); !s.is_ok()) return s;
  if (Status s = check_rotate(function, batch, args, device.kind); !s.is_ok()) return s;
  const int64_t tokens = args.q.extent[0];
  if (tokens == 0) return {};
  if (Status s = check_arrays(
          function, device, {{"q", args.q.data}, {"out", args.out.data}, {"q_norm", args.q_norm}});
      !s.is_ok())
    return s;
  if (Status s = check_rotation_arrays(function, device, batch, args.rope); !s.is_ok()) return s;
  cuda::AppendCall call = call_of(batch, tokens, args.rope, args.q_norm, args.norm_eps);
  call.places = cuda::Places::rows;
  call.in_place = is_same(args.q, args.out);
  add_plane(call, args.q, plane_of(args.out));
  return cuda::launch_append(function, device, call, stream);
}

}  // namespace folio::inline v1
