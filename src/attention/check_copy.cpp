// SPDX-License-Identifier: Apache-2.0
/// src/attention/check_copy.cpp: planes layer by layer, each named as the caller knows it.
#include "attention/check_copy.h"

#include "cache/check_tensor.h"

namespace folio::inline v1 {
namespace {

/// One plane on both sides, and what messages call it: "to[3].key".
struct PlanePair {
  ElementName from_name;
  ElementName to_name;
  const PagedKVView& from;
  const PagedKVView& to;
};

struct Compared {
  const char* name;
  int64_t from;
  int64_t to;
};

Status check_same(const char* function, const PlanePair& pair, const Compared& c) {
  if (c.from == c.to) return {};
  return fail(Errc::invalid_argument, "{}: {}.{} is {}, expected {} (from {})", function,
              pair.to_name, c.name, c.to, c.from, pair.from_name);
}

Status check_pages_bounded(const char* function, const PlanePair& pair) {
  if (pair.from.page_size == unbounded_page_size)
    return fail(Errc::invalid_argument,
                "{}: {} has unbounded pages, expected pages of a fixed size", function,
                pair.from_name);
  return check_same(function, pair, {"page_size", pair.from.page_size, pair.to.page_size});
}

/// Bytes move, whatever the tensor scales are that cannot be read.
bool surely_moves(const PagedKVView& from, const PagedKVView& to, CopyKind kind, Memory memory) {
  if (memory == Memory::cpu) return CopyPair(from, to, kind, 0).moves();
  const bool is_one =
      from.scales.data == nullptr || from.scales.tensor_scale == to.scales.tensor_scale;
  return copy_rule(from, to, kind).moves && is_one;
}

/// Rows of block formats are moved and converted on the CPU only.
Status check_types(const char* function, const PlanePair& pair, Memory memory) {
  const PlaneTypes types = memory == Memory::cpu ? PlaneTypes::any : PlaneTypes::elements;
  if (Status s = check_view(function, pair.from_name, pair.from, types); !s.is_ok()) return s;
  return check_view(function, pair.to_name, pair.to, types);
}

Status check_pair(const char* function, CopyKind kind, const PlanePair& pair, Memory memory) {
  const auto& [from_name, to_name, from, to] = pair;
  if (Status s = check_types(function, pair, memory); !s.is_ok()) return s;
  if (kind == CopyKind::page) {
    if (Status s = check_pages_bounded(function, pair); !s.is_ok()) return s;
  }
  const Compared compared[] = {{"num_heads", from.num_heads, to.num_heads},
                               {"head_size", from.head_size, to.head_size}};
  for (const Compared& c : compared) {
    if (Status s = check_same(function, pair, c); !s.is_ok()) return s;
  }
  if (Status s = check_places(function, to_name, to); !s.is_ok()) return s;
  if (surely_moves(from, to, kind, memory)) return {};
  if (Status s = check_readable_scales(function, from_name, from, memory); !s.is_ok()) return s;
  return check_writable_scales(function, to_name, to, memory);
}

/// The planes of one side agree in the size of pages, so that a slot means the same in all.
Status check_page_size(const char* function, const char* name, const PagedKVView& view,
                       const PagedKVView& first) {
  if (view.page_size == first.page_size) return {};
  return fail(Errc::invalid_argument,
              "{}: {}.page_size is {}, expected {} (from its side's first key plane)", function,
              name, view.page_size, first.page_size);
}

}  // namespace

Status check_copy_planes(const char* function, CopyKind kind, std::span<const KVPlanes> from,
                         std::span<const KVPlanes> to, Memory memory, CopyBounds& bounds) noexcept {
  if (from.size() != to.size()) {
    return fail(Errc::invalid_argument, "{}: to has {} layers, expected {} (from)", function,
                to.size(), from.size());
  }
  for (size_t layer = 0; layer < from.size(); ++layer) {
    for (const bool is_key : {true, false}) {
      const char* member = is_key ? "key" : "value";
      const PlanePair pair{{"from", layer, member},
                           {"to", layer, member},
                           is_key ? from[layer].key : from[layer].value,
                           is_key ? to[layer].key : to[layer].value};
      const bool is_latent = !is_key && pair.from.data == nullptr && pair.to.data == nullptr;
      if (is_latent) continue;
      if (Status s = check_pair(function, kind, pair, memory); !s.is_ok()) return s;
      bounds.include(pair.from, pair.to);
      if (kind == CopyKind::page) continue;
      if (Status s = check_page_size(function, pair.from_name, pair.from, from[0].key); !s.is_ok())
        return s;
      if (Status s = check_page_size(function, pair.to_name, pair.to, to[0].key); !s.is_ok())
        return s;
    }
  }
  return {};
}

}  // namespace folio::inline v1
