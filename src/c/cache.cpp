// SPDX-License-Identifier: Apache-2.0
/// src/c/cache.cpp: writing and copying through the C interface: append, rotate, copy_pages,
/// copy_slots.
#include <array>
#include <span>

#include "c/convert.h"
#include "folio/attention/append.h"
#include "folio/cache/copy.h"

namespace folio::inline v1::c {
namespace {

static_assert(sizeof(folio_page_copy) == sizeof(PageCopy) &&
              sizeof(folio_slot_copy) == sizeof(SlotCopy));

constexpr float default_eps = AppendArgs().norm_eps;
static_assert(default_eps == RotateArgs().norm_eps);

Status read_rope(const char* function, const folio_rope* rope, Rope& to) {
  folio_rope r = {};
  if (Status s = read(function, "args->rope", rope, r); !s.is_ok()) return s;
  to.cos_sin = r.cos_sin;
  to.rows = r.rows;
  to.dims = r.dims;
  to.first_dim = r.first_dim;
  to.positions = r.positions;
  return read_flag(function, "args->rope->interleaved", r.interleaved, to.interleaved);
}

/// A batch is not needed where slots and positions are given.
Status read_batch(const char* function, const folio_batch* batch, Batch& to) {
  return batch == nullptr ? Status() : convert(function, batch, to);
}

/// What AppendArgs point to.
struct AppendParts {
  Rope rope;
  PageSummaries summaries;
};

Status read_append(const char* function, const folio_append_args* args, AppendArgs& to,
                   AppendParts& parts) {
  folio_append_args a = {};
  if (Status s = read(function, "args", args, a); !s.is_ok()) return s;
  if (a.k == nullptr) return null_argument(function, "args->k");
  if (Status s = convert(function, "args->k", a.k, to.k); !s.is_ok()) return s;
  if (Status s = convert(function, "args->v", a.v, to.v); !s.is_ok()) return s;
  if (Status s = convert(function, "args->key", a.key, to.key); !s.is_ok()) return s;
  if (Status s = convert(function, "args->value", a.value, to.value); !s.is_ok()) return s;
  if (a.rope != nullptr) {
    if (Status s = read_rope(function, a.rope, parts.rope); !s.is_ok()) return s;
    to.rope = &parts.rope;
  }
  if (a.summaries != nullptr) {
    if (Status s = convert(function, "args->summaries", a.summaries, parts.summaries); !s.is_ok())
      return s;
    to.summaries = &parts.summaries;
  }
  to.slots = a.slots;
  to.k_norm = a.k_norm;
  to.k_norm_shift = a.k_norm_shift;
  to.norm_eps = or_default(a.norm_eps, default_eps);
  return {};
}

Status append(const folio_batch* batch, const folio_append_args* args,
              const folio_executor* executor) {
  constexpr auto function = "folio_append";
  AppendArgs to;
  AppendParts parts;
  Batch b;
  if (Status s = read_append(function, args, to, parts); !s.is_ok()) return s;
  if (Status s = read_batch(function, batch, b); !s.is_ok()) return s;
  ExecutorAdapter adapter;
  if (Status s = adapter.init(function, executor); !s.is_ok()) return s;
  return folio::append(b, to, adapter.get());
}

Status append_async(const folio_batch* batch, const folio_append_args* args, Device device,
                    void* stream) {
  constexpr auto function = "folio_append_async";
  AppendArgs to;
  AppendParts parts;
  Batch b;
  if (Status s = read_append(function, args, to, parts); !s.is_ok()) return s;
  if (Status s = read_batch(function, batch, b); !s.is_ok()) return s;
  return folio::append_async(b, to, device, {stream});
}

/// What RotateArgs point to.
struct RotateParts {
  Rope rope;
  PagedKVView key;
};

Status read_rotate(const char* function, const folio_rotate_args* args, RotateArgs& to,
                   RotateParts& parts) {
  folio_rotate_args a = {};
  if (Status s = read(function, "args", args, a); !s.is_ok()) return s;
  if (a.q == nullptr) return null_argument(function, "args->q");
  if (Status s = convert(function, "args->q", a.q, to.q); !s.is_ok()) return s;
  if (Status s = convert(function, "args->out", a.out, to.out); !s.is_ok()) return s;
  if (a.rope != nullptr) {
    if (Status s = read_rope(function, a.rope, parts.rope); !s.is_ok()) return s;
    to.rope = &parts.rope;
  }
  if (a.key != nullptr) {
    if (Status s = convert(function, "args->key", a.key, parts.key); !s.is_ok()) return s;
    to.key = &parts.key;
  }
  to.q_norm = a.q_norm;
  to.q_norm_shift = a.q_norm_shift;
  to.norm_eps = or_default(a.norm_eps, default_eps);
  return {};
}

Status rotate(const folio_batch* batch, const folio_rotate_args* args,
              const folio_executor* executor) {
  constexpr auto function = "folio_rotate";
  RotateArgs to;
  RotateParts parts;
  Batch b;
  if (Status s = read_rotate(function, args, to, parts); !s.is_ok()) return s;
  if (Status s = read_batch(function, batch, b); !s.is_ok()) return s;
  ExecutorAdapter adapter;
  if (Status s = adapter.init(function, executor); !s.is_ok()) return s;
  return folio::rotate(b, to, adapter.get());
}

Status rotate_async(const folio_batch* batch, const folio_rotate_args* args, Device device,
                    void* stream) {
  constexpr auto function = "folio_rotate_async";
  RotateArgs to;
  RotateParts parts;
  Batch b;
  if (Status s = read_rotate(function, args, to, parts); !s.is_ok()) return s;
  if (Status s = read_batch(function, batch, b); !s.is_ok()) return s;
  return folio::rotate_async(b, to, device, {stream});
}

/// Planes of all layers, without an allocation.
class PlaneList {
 public:
  Status init(const char* function, const char* argument, const folio_kv_planes* planes,
              int64_t count) {
    if (count < 0 || count > FOLIO_MAX_PLANES)
      return fail(Errc::invalid_argument, "{}: num_planes is {}, expected 0 to {}", function, count,
                  FOLIO_MAX_PLANES);
    if (planes == nullptr && count > 0) return null_argument(function, argument);
    for (; count_ < static_cast<size_t>(count); ++count_) {
      KVPlanes& to = planes_[count_];
      if (Status s = convert(function, argument, planes[count_].key, to.key); !s.is_ok()) return s;
      if (Status s = convert(function, argument, planes[count_].value, to.value); !s.is_ok())
        return s;
    }
    return {};
  }
  [[nodiscard]] std::span<const KVPlanes> get() const { return std::span(planes_).first(count_); }

 private:
  std::array<KVPlanes, FOLIO_MAX_PLANES> planes_;
  size_t count_ = 0;
};

/// What the copies have in common.
template <class Copy>
struct CopyArgs {
  PlaneList source, target;
  std::span<const Copy> copies;

  template <class CCopy>
  Status init(const char* function, const folio_kv_planes* from, const folio_kv_planes* to,
              int64_t num_planes, const CCopy* list, int64_t num_copies) {
    if (Status s = check_array(function, "copies", list, "num_copies", num_copies, sizeof(CCopy));
        !s.is_ok())
      return s;
    if (Status s = source.init(function, "from", from, num_planes); !s.is_ok()) return s;
    if (Status s = target.init(function, "to", to, num_planes); !s.is_ok()) return s;
    // the same words
    copies = {reinterpret_cast<const Copy*>(list), static_cast<size_t>(num_copies)};
    return {};
  }
};

template <class Copy, class CCopy>
Status copy(const char* function, const folio_kv_planes* from, const folio_kv_planes* to,
            int64_t num_planes, const CCopy* copies, int64_t num_copies,
            const folio_executor* executor,
            Status (*run)(std::span<const KVPlanes>, std::span<const KVPlanes>,
                          std::span<const Copy>, const Executor&) noexcept) {
  CopyArgs<Copy> args;
  if (Status s = args.init(function, from, to, num_planes, copies, num_copies); !s.is_ok())
    return s;
  ExecutorAdapter adapter;
  if (Status s = adapter.init(function, executor); !s.is_ok()) return s;
  return run(args.source.get(), args.target.get(), args.copies, adapter.get());
}

template <class Copy, class CCopy>  // NOLINTNEXTLINE(readability-function-size): C's arguments
Status copy_async(const char* function, const folio_kv_planes* from, const folio_kv_planes* to,
                  int64_t num_planes, const CCopy* copies, int64_t num_copies, Device device,
                  void* stream,
                  Status (*run)(std::span<const KVPlanes>, std::span<const KVPlanes>,
                                std::span<const Copy>, Device, Stream) noexcept) {
  CopyArgs<Copy> args;
  if (Status s = args.init(function, from, to, num_planes, copies, num_copies); !s.is_ok())
    return s;
  return run(args.source.get(), args.target.get(), args.copies, device, {stream});
}

}  // namespace
}  // namespace folio::inline v1::c

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

folio_code folio_append(const folio_batch* batch, const folio_append_args* args,
                        const folio_executor* executor, folio_message* message) {
  return c::report(c::append(batch, args, executor), message);
}

folio_code folio_rotate(const folio_batch* batch, const folio_rotate_args* args,
                        const folio_executor* executor, folio_message* message) {
  return c::report(c::rotate(batch, args, executor), message);
}

folio_code folio_copy_pages(const folio_kv_planes* from, const folio_kv_planes* to,
                            int64_t num_planes, const folio_page_copy* copies, int64_t num_copies,
                            const folio_executor* executor, folio_message* message) {
  return c::report(c::copy<PageCopy>("folio_copy_pages", from, to, num_planes, copies, num_copies,
                                     executor, copy_pages),
                   message);
}

folio_code folio_copy_slots(const folio_kv_planes* from, const folio_kv_planes* to,
                            int64_t num_planes, const folio_slot_copy* copies, int64_t num_copies,
                            const folio_executor* executor, folio_message* message) {
  return c::report(c::copy<SlotCopy>("folio_copy_slots", from, to, num_planes, copies, num_copies,
                                     executor, copy_slots),
                   message);
}

folio_code folio_append_async(const folio_batch* batch, const folio_append_args* args,
                              int32_t device_kind, int32_t device_index, void* stream,
                              folio_message* message) {
  const Result<Device> device = c::device_of("folio_append_async", device_kind, device_index);
  if (!device) return c::report(device.error(), message);
  return c::report(c::append_async(batch, args, *device, stream), message);
}

folio_code folio_rotate_async(const folio_batch* batch, const folio_rotate_args* args,
                              int32_t device_kind, int32_t device_index, void* stream,
                              folio_message* message) {
  const Result<Device> device = c::device_of("folio_rotate_async", device_kind, device_index);
  if (!device) return c::report(device.error(), message);
  return c::report(c::rotate_async(batch, args, *device, stream), message);
}

// NOLINTNEXTLINE(readability-function-size): C's arguments
folio_code folio_copy_pages_async(const folio_kv_planes* from, const folio_kv_planes* to,
                                  int64_t num_planes, const folio_page_copy* copies,
                                  int64_t num_copies, int32_t device_kind, int32_t device_index,
                                  void* stream, folio_message* message) {
  constexpr auto function = "folio_copy_pages_async";
  const Result<Device> device = c::device_of(function, device_kind, device_index);
  if (!device) return c::report(device.error(), message);
  return c::report(c::copy_async<PageCopy>(function, from, to, num_planes, copies, num_copies,
                                           *device, stream, copy_pages_async),
                   message);
}

// NOLINTNEXTLINE(readability-function-size): C's arguments
folio_code folio_copy_slots_async(const folio_kv_planes* from, const folio_kv_planes* to,
                                  int64_t num_planes, const folio_slot_copy* copies,
                                  int64_t num_copies, int32_t device_kind, int32_t device_index,
                                  void* stream, folio_message* message) {
  constexpr auto function = "folio_copy_slots_async";
  const Result<Device> device = c::device_of(function, device_kind, device_index);
  if (!device) return c::report(device.error(), message);
  return c::report(c::copy_async<SlotCopy>(function, from, to, num_planes, copies, num_copies,
                                           *device, stream, copy_slots_async),
                   message);
}
