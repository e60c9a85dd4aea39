// SPDX-License-Identifier: Apache-2.0
/// python/src/kv_cache.cpp: `KVCache`: planes of all layers in memory of its own.
#include "bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <string>
#include <utility>

#include "folio/cache/planes.h"
#include "format.h"
#include "pages.h"

namespace folio::python {
namespace {

/// The constructor's arguments; in a state they stand in this order.
struct Arguments {
  int32_t num_layers;
  int64_t num_pages;
  int32_t page_size, kv_heads, head_size;
  std::optional<int32_t> v_head_size;
  nb::object dtype, v_dtype, scale_dtype;
  std::optional<int32_t> granularity;
  bool latent;
  std::string order;

  static constexpr size_t count = 12;
  [[nodiscard]] nb::tuple tuple() const {
    return nb::make_tuple(num_layers, num_pages, page_size, kv_heads, head_size, v_head_size, dtype,
                          v_dtype, scale_dtype, granularity, latent, order);
  }
  static Arguments read(const nb::tuple& a) {
    if (a.size() != count)
      refuse_argument("KVCache: expected {} arguments, got {}", count, a.size());
    return {nb::cast<int32_t>(a[0]),
            nb::cast<int64_t>(a[1]),
            nb::cast<int32_t>(a[2]),
            nb::cast<int32_t>(a[3]),
            nb::cast<int32_t>(a[4]),
            nb::cast<std::optional<int32_t>>(a[5]),
            a[6],
            a[7],
            a[8],
            nb::cast<std::optional<int32_t>>(a[9]),
            nb::cast<bool>(a[10]),
            nb::cast<std::string>(a[11])};
  }
};

struct KVCache {
  std::vector<Pages> layers;
  int64_t bytes = 0;
  nb::tuple arguments;  ///< of the constructor
  std::shared_ptr<std::vector<Buffer>> buffers;
};

StorageOrder order_of(const std::string& order) {
  if (order == "NHD") return StorageOrder::token_major;
  if (order == "HND") return StorageOrder::head_major;
  refuse_argument("order: expected \"NHD\" (token-major) or \"HND\" (head-major), got \"{}\"",
                  order);
}

/// The planes of one cache as they are made.
class Maker {
 public:
  Maker(const Arguments& arguments, KVCache& cache) : a_(arguments), cache_(cache) {}

  /// Planes of K alone or V alone: those of a cache with one plane a layer. `name`: the argument
  /// that the format is from.
  std::vector<PagedKVView> planes(int32_t head_size, const Format& format, const char* name) {
    KVShape shape{.num_layers = a_.num_layers,
                  .num_heads = a_.kv_heads,
                  .head_size = head_size,
                  .page_size = a_.page_size,
                  .is_mla = true,
                  .order = order_of(a_.order)};
    format.put(shape, name);
    // sizes that overflow are refused by the geometry, before anything is allocated
    take(make_planes(shape, a_.num_pages, {}));
    const MemorySpan blocks = allocate(take(page_bytes(shape)));
    const MemorySpan scales = allocate(take(scale_page_bytes(shape)));
    std::vector<PagedKVView> views;
    for (const KVPlanes& layer : take(make_planes(shape, a_.num_pages, blocks, scales))) {
      views.push_back(layer.key);
      format.put(views.back(), name, static_cast<int64_t>(views.size()) - 1, a_.num_layers);
    }
    return views;
  }

 private:
  MemorySpan allocate(int64_t page_bytes) {
    if (page_bytes > 0 && a_.num_pages > (int64_t{1} << 56) / page_bytes)
      refuse_argument("num_pages: {} pages of {} bytes are more than memory can hold", a_.num_pages,
                      page_bytes);
    cache_.buffers->push_back(take(Buffer::allocate(a_.num_pages * page_bytes)));
    cache_.bytes += a_.num_pages * page_bytes;
    return cache_.buffers->back().span();
  }

  const Arguments& a_;
  KVCache& cache_;
};

KVCache cache_of(const Arguments& a) {
  const FormatPair formats =
      formats_of(a.dtype, a.v_dtype, !a.latent, {a.scale_dtype, a.granularity});
  if (a.page_size == unbounded_page_size)
    refuse_argument("page_size: expected less than 2^31 - 1, got {}", a.page_size);
  if (a.latent && (a.v_head_size.has_value() || !a.v_dtype.is_none()))
    refuse_argument("v_head_size, v_dtype: a latent cache has no plane for V");
  KVCache cache;
  cache.arguments = a.tuple();
  cache.buffers = std::make_shared<std::vector<Buffer>>();
  Maker maker(a, cache);
  const std::vector<PagedKVView> keys = maker.planes(a.head_size, *formats.key, "dtype");
  std::vector<PagedKVView> values(keys.size());
  if (!a.latent)
    values = maker.planes(a.v_head_size.value_or(a.head_size), *formats.value,
                          a.v_dtype.is_none() ? "dtype" : "v_dtype");
  auto memory = std::make_shared<Pages::Memory>();
  memory->buffers = cache.buffers;
  memory->key_format = formats.key;
  memory->value_format = formats.value;
  for (size_t i = 0; i < keys.size(); ++i)
    cache.layers.emplace_back(KVPlanes{keys[i], values[i]}, memory, true);
  return cache;
}

void make_cache(KVCache* self, int32_t num_layers, int64_t num_pages, int32_t page_size,
                int32_t kv_heads, int32_t head_size, std::optional<int32_t> v_head_size,
                nb::object dtype, nb::object v_dtype, nb::object scale_dtype,
                std::optional<int32_t> granularity, bool latent, const std::string& order) {
  new (self) KVCache(cache_of({num_layers, num_pages, page_size, kv_heads, head_size, v_head_size,
                               std::move(dtype), std::move(v_dtype), std::move(scale_dtype),
                               granularity, latent, order}));
}

/// The constructor's arguments, and the bytes of all planes.
nb::tuple state_of(const KVCache& cache) {
  nb::list contents;
  for (const Buffer& buffer : *cache.buffers) {
    const MemorySpan bytes = buffer.span();
    contents.append(nb::bytes(bytes.data, static_cast<size_t>(bytes.bytes)));
  }
  return nb::make_tuple(cache.arguments, contents);
}

void set_state(KVCache* self, const nb::tuple& state) {
  if (state.size() != 2) refuse_argument("KVCache: expected a state of 2, got {}", state.size());
  KVCache cache = cache_of(Arguments::read(nb::cast<nb::tuple>(state[0])));
  const auto contents = nb::cast<nb::list>(state[1]);
  if (contents.size() != cache.buffers->size())
    refuse_argument("KVCache: expected a state of {} planes, got {}", cache.buffers->size(),
                    contents.size());
  for (size_t i = 0; i < contents.size(); ++i) {
    const auto bytes = nb::cast<nb::bytes>(contents[i]);
    const MemorySpan to = (*cache.buffers)[i].span();
    if (static_cast<int64_t>(bytes.size()) != to.bytes)
      refuse_argument("KVCache: expected a state of {} bytes, got {}", to.bytes, bytes.size());
    if (to.bytes > 0) std::memcpy(to.data, bytes.data(), bytes.size());
  }
  new (self) KVCache(std::move(cache));
}

const Pages& layer_of(const KVCache& cache, int64_t layer) {
  const auto count = static_cast<int64_t>(cache.layers.size());
  if (layer < -count || layer >= count)
    throw nb::index_error(
        ("layer " + std::to_string(layer) + " of " + std::to_string(count)).c_str());
  return cache.layers[static_cast<size_t>(layer < 0 ? layer + count : layer)];
}

}  // namespace

std::vector<std::span<std::byte>> memory_of_cache(nb::handle cache) {
  std::vector<std::span<std::byte>> memory;
  if (!nb::isinstance<KVCache>(cache)) return memory;
  for (const Buffer& buffer : *nb::cast<const KVCache&>(cache).buffers)
    if (buffer.bytes() > 0) memory.emplace_back(buffer.data(), static_cast<size_t>(buffer.bytes()));
  return memory;
}

void bind_kv_cache(nb::module_& m) {
  nb::class_<KVCache>(m, "KVCache",
                      "K and V of all layers in memory of its own: `cache[layer]`."
                      " Copies and pickles hold copies of that memory.")
      .def(
          "__init__", &make_cache, nb::arg("num_layers"), nb::arg("num_pages"),
          nb::arg("page_size") = 16, nb::kw_only(), nb::arg("kv_heads"), nb::arg("head_size"),
          nb::arg("v_head_size").none() = nb::none(), nb::arg("dtype") = "bf16",
          nb::arg("v_dtype").none() = nb::none(), nb::arg("scale_dtype").none() = nb::none(),
          nb::arg("granularity").none() = nb::none(), nb::arg("latent") = false,
          nb::arg("order") = "HND",
          R"(Allocates num_pages pages of page_size tokens in each layer. The memory holds anything.

dtype, v_dtype: of K (and V, if not given): a Format, or the name of a dtype that it takes.
scale_dtype, granularity: of those that are given by name, as a Format takes them: elements of 8
    bits have an f32 scale for each head unless they say otherwise, of four bits an f16 scale for
    32 elements.
latent: MLA, K alone. order: "HND" (head-major, read fastest) or "NHD" (token-major).

Raises Error for sizes below 1 or beyond memory, and for dtypes that folio does not have.)")
      .def("__len__", [](const KVCache& c) { return c.layers.size(); })
      .def("__getitem__", &layer_of, nb::arg("layer"), nb::rv_policy::copy, "The Pages of a layer.")
      .def("__getstate__", &state_of)
      .def("__setstate__", &set_state, nb::arg("state"))
      .def_prop_ro("nbytes", [](const KVCache& c) { return c.bytes; })
      .def_prop_ro("num_pages",
                   [](const KVCache& c) { return c.layers.front().planes().key.num_pages; })
      .def_prop_ro("page_size",
                   [](const KVCache& c) { return c.layers.front().planes().key.page_size; });
}

}  // namespace folio::python
