// SPDX-License-Identifier: Apache-2.0
/// src/attention/copy_async.cpp: copies on a device's stream: check what the host knows, then
/// launch for as many planes at a time as a kernel's argument holds.
#include "attention/check_copy.h"
#include "attention/copy_pair.h"
#include "attention/streams.h"
#include "cache/check_tensor.h"
#include "cuda/copy/launch.h"
#include "folio/cache/copy.h"

namespace folio::inline v1 {
namespace {

/// Both sides of a copy, K planes and V planes.
struct Sides {
  std::span<const KVPlanes> from;
  std::span<const KVPlanes> to;
};

/// Calls each(from, to, layer, is_key) for every pair of planes that there is, until one fails.
template <class Each>
Status for_each_pair(const Sides& sides, Each each) {
  for (size_t layer = 0; layer < sides.from.size(); ++layer) {
    const KVPlanes &from = sides.from[layer], &to = sides.to[layer];
    if (Status s = each(from.key, to.key, layer, true); !s.is_ok()) return s;
    if (from.value.data == nullptr) continue;
    if (Status s = each(from.value, to.value, layer, false); !s.is_ok()) return s;
  }
  return {};
}

/// `side` and `layer` name the plane, `members` its values, scales and factor.
Status check_plane(const char* function, Device device, const char* side, size_t layer,
                   const char* const (&members)[3], const PagedKVView& view) {
  const void* const arrays[] = {view.data, view.scales.data, view.scales.tensor_scale};
  const size_t count = view.scales.data != nullptr ? 3 : 1;
  for (size_t i = 0; i < count; ++i) {
    const ElementName name(side, layer, members[i]);
    if (Status s = check_arrays(function, device, {{name, arrays[i]}}, cuda::Pinned::allowed);
        !s.is_ok())
      return s;
  }
  return {};
}

Status check_planes_reached(const char* function, Device device, const Sides& sides) {
  static constexpr const char* key[] = {"key.data", "key.scales.data", "key.scales.tensor_scale"};
  static constexpr const char* value[] = {"value.data", "value.scales.data",
                                          "value.scales.tensor_scale"};
  return for_each_pair(
      sides, [&](const PagedKVView& from, const PagedKVView& to, size_t layer, bool is_key) {
        const auto& members = is_key ? key : value;
        if (Status s = check_plane(function, device, "from", layer, members, from); !s.is_ok())
          return s;
        return check_plane(function, device, "to", layer, members, to);
      });
}

Status launch_all(const char* function, Device device, CopyKind kind, const Sides& sides,
                  const cuda::CopyListView& list, Stream stream) {
  cuda::CopyLaunch launch(list);
  Status status = for_each_pair(
      sides, [&](const PagedKVView& from, const PagedKVView& to, size_t, bool) -> Status {
        const CopyRule rule = copy_rule(from, to, kind);
        if (launch.add(from, to, rule.moves, rule.scales_move)) return {};
        Status s = cuda::launch_copies(function, device, launch, stream);
        launch = cuda::CopyLaunch(list);
        // an empty launch has room
        if (s.is_ok()) (void)launch.add(from, to, rule.moves, rule.scales_move);
        return s;
      });
  if (!status.is_ok() || launch.is_empty()) return status;
  return cuda::launch_copies(function, device, launch, stream);
}

/// `instead`: what the CPU has.
struct Border {
  const char* function;
  const char* instead;
  CopyKind kind;
};

Status copy_async(const Border& border, const Sides& sides, cuda::CopyListView list, Device device,
                  Stream stream) {
  const char* const function = border.function;
  if (Status s = check_streams(function, border.instead, device); !s.is_ok()) return s;
  CopyBounds bounds;
  if (Status s =
          check_copy_planes(function, border.kind, sides.from, sides.to, device.kind, bounds);
      !s.is_ok())
    return s;
  if (sides.from.empty() || list.size == 0) return {};
  if (list.copies == nullptr)
    return fail(Errc::invalid_argument, "{}: copies is null, expected {} of them", function,
                list.size);
  if (Status s = check_arrays(function, device, {{"copies", list.copies}}, cuda::Pinned::allowed);
      !s.is_ok())
    return s;
  if (Status s = check_planes_reached(function, device, sides); !s.is_ok()) return s;
  list.of_pages = border.kind == CopyKind::page;
  list.from_limit = list.of_pages ? bounds.from_pages : bounds.from_slots(sides.from);
  list.to_limit = list.of_pages ? bounds.to_pages : bounds.to_slots(sides.to);
  return launch_all(function, device, border.kind, sides, list, stream);
}

}  // namespace

Status copy_pages_async(std::span<const KVPlanes> from, std::span<const KVPlanes> to,
                        std::span<const PageCopy> copies, Device device, Stream stream) noexcept {
  const cuda::CopyListView list{copies.data(), static_cast<int64_t>(copies.size())};
  return copy_async({"copy_pages_async", "copy_pages", CopyKind::page}, {from, to}, list, device,
                    stream);
}

Status copy_slots_async(std::span<const KVPlanes> from, std::span<const KVPlanes> to,
                        std::span<const SlotCopy> copies, Device device, Stream stream) noexcept {
  const cuda::CopyListView list{copies.data(), static_cast<int64_t>(copies.size())};
  return copy_async({"copy_slots_async", "copy_slots", CopyKind::slot}, {from, to}, list, device,
                    stream);
}

}  // namespace folio::inline v1
