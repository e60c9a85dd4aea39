// SPDX-License-Identifier: Apache-2.0
/// python/src/pages.h: `Pages`, the K and V of one layer over arrays that somebody owns, and
/// `KVCache`, which owns the planes of all layers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "array.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/buffer.h"
#include "format.h"

namespace folio::python {

/// KVPlanes and what keeps their memory alive. Shared, never changed after it is made.
class Pages {
 public:
  struct Scales {
    Array array = {};
    Array zeros = {};
    std::unique_ptr<float> number = nullptr;
  };
  /// Where the views' memory comes from: arrays, or buffers of a KVCache.
  struct Memory {
    Array key, value;
    Scales key_scales, value_scales;
    std::shared_ptr<std::vector<Buffer>> buffers = nullptr;
    SharedFormat key_format = nullptr, value_format = nullptr;
  };

  Pages(KVPlanes planes, std::shared_ptr<const Memory> memory, bool is_writable);

  [[nodiscard]] const KVPlanes& planes() const { return planes_; }
  [[nodiscard]] bool is_latent() const { return planes_.value.data == nullptr; }
  [[nodiscard]] bool is_writable() const { return is_writable_; }
  /// Throws Error where an array is read-only.
  void expect_writable(const char* function) const;
  /// The planes as what selects kernels: no pointers, no page count, strides as classes.
  [[nodiscard]] const KVPlanes& selection() const { return selection_; }

 private:
  KVPlanes planes_;
  KVPlanes selection_;
  std::shared_ptr<const Memory> memory_;
  bool is_writable_ = true;
};

/// Two planes with equal results take the same kernels and the same plan: each stride is reduced to
/// its alignment (up to 64 bytes) and whether heads or slots lie closer together.
PagedKVView selection_of(const PagedKVView& view);

/// Of a sequence of Pages, which may be a KVCache, the argument `name`. Throws Error for what is
/// none, and for read-only ones where they are written.
std::vector<KVPlanes> planes_of(const nb::sequence& layers, const char* name, bool are_written);

/// The allocations of a KVCache; none for anything else.
std::vector<std::span<std::byte>> memory_of_cache(nb::handle cache);

void bind_pages(nb::module_& m);

}  // namespace folio::python
