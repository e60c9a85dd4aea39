// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/probe.cpp: marks in tables, nodes made and read.
#include "probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "cpu_backend.h"
#include "folio/core/dtype.h"
#include "ggml_functions.h"
#include "node.h"

namespace ggml_folio {
namespace {

constexpr size_t word = sizeof(void*);
/// More than any of ggml's tables has.
constexpr size_t places = 64;

/// The place of the table that was called last.
size_t called = places;

/// What stands in place `I`: it may be called for any of ggml's functions, and gives zero.
template <size_t I>
void* mark() {
  called = I;
  return nullptr;
}

using Table = std::array<void* (*)(), places>;

template <size_t... I>
constexpr Table marks(std::index_sequence<I...>) {
  return {mark<I>...};
}

/// A table of ggml's, one mark after another, as any of its structures.
struct Marked {
  Table table = marks(std::make_index_sequence<places>());

  template <class Structure>
  Structure* as() {
    return reinterpret_cast<Structure*>(&table);
  }
  /// Whether `call` meets the mark at this offset, in bytes.
  template <class Call>
  bool meets(size_t offset, Call&& call) {
    called = places;
    call();
    return called * word == offset;
  }
  /// Whether a pointer that ggml read from the table is the one at this offset.
  bool is_at(size_t offset, const void* read) const {
    return read == reinterpret_cast<const void*>(table[offset / word]);
  }
};

#define FOLIO_PLACE(structure, member) \
  (offsetof(structure, iface) + offsetof(structure##_i, member))

const char* probe_device() {
  Marked marked;
  const ggml_backend_dev_t device = marked.as<ggml_backend_device>();
  const auto at = [&](size_t offset, auto&& call) { return marked.meets(offset, call); };
  size_t free = 0, total = 0;
  char host[word] = {};
  unsigned char properties[512];
  std::memset(properties, 0xff, sizeof(properties));
  ggml_tensor op = {};
  const bool is_same =
      at(FOLIO_PLACE(ggml_backend_device, get_name), [&] { ggml().backend_dev_name(device); }) &&
      at(FOLIO_PLACE(ggml_backend_device, get_description),
         [&] { ggml().backend_dev_description(device); }) &&
      at(FOLIO_PLACE(ggml_backend_device, get_memory),
         [&] { ggml().backend_dev_memory(device, &free, &total); }) &&
      at(FOLIO_PLACE(ggml_backend_device, get_type),
         [&] { (void)ggml().backend_dev_type(device); }) &&
      at(FOLIO_PLACE(ggml_backend_device, init_backend),
         [&] { ggml().backend_dev_init(device, nullptr); }) &&
      at(FOLIO_PLACE(ggml_backend_device, get_buffer_type),
         [&] { ggml().backend_dev_buffer_type(device); }) &&
      at(FOLIO_PLACE(ggml_backend_device, buffer_from_host_ptr),
         [&] { ggml().backend_dev_buffer_from_host_ptr(device, host, sizeof(host), 1); }) &&
      at(FOLIO_PLACE(ggml_backend_device, supports_op),
         [&] { (void)ggml().backend_dev_supports_op(device, &op); }) &&
      at(FOLIO_PLACE(ggml_backend_device, supports_buft),
         [&] { (void)ggml().backend_dev_supports_buft(device, nullptr); }) &&
      marked.is_at(offsetof(ggml_backend_device, reg), ggml().backend_dev_backend_reg(device));
  if (!is_same) return "a device (ggml_backend_device)";
  const bool has_properties = at(FOLIO_PLACE(ggml_backend_device, get_props), [&] {
    ggml().backend_dev_get_props(device, reinterpret_cast<ggml_backend_dev_props*>(properties));
  });
  // It clears what it hands on: as much as its structure has.
  size_t cleared = 0;
  while (cleared < sizeof(properties) && properties[cleared] == 0) ++cleared;
  if (!has_properties || cleared < sizeof(ggml_backend_dev_props))
    return "the properties of a device (ggml_backend_dev_props)";
  return nullptr;
}

const char* probe_registry() {
  Marked marked;
  const ggml_backend_reg_t registry = marked.as<ggml_backend_reg>();
  const bool is_same = marked.meets(FOLIO_PLACE(ggml_backend_reg, get_name), [&] {
    ggml().backend_reg_name(registry);
  }) && marked.meets(FOLIO_PLACE(ggml_backend_reg, get_device_count), [&] {
    ggml().backend_reg_dev_count(registry);
  }) && marked.meets(FOLIO_PLACE(ggml_backend_reg, get_device), [&] {
    ggml().backend_reg_dev_get(registry, 0);
  }) && marked.meets(FOLIO_PLACE(ggml_backend_reg, get_proc_address), [&] {
    ggml().backend_reg_get_proc_address(registry, "");
  });
  return is_same ? nullptr : "a registry (ggml_backend_reg)";
}

const char* probe_backend() {
  Marked marked;
  const ggml_backend_t backend = marked.as<ggml_backend>();
  const auto at = [&](size_t offset, auto&& call) { return marked.meets(offset, call); };
  const bool is_same =
      at(FOLIO_PLACE(ggml_backend, get_name), [&] { ggml().backend_name(backend); }) &&
      at(FOLIO_PLACE(ggml_backend, free), [&] { ggml().backend_free(backend); }) &&
      at(FOLIO_PLACE(ggml_backend, graph_plan_create),
         [&] { ggml().backend_graph_plan_create(backend, nullptr); }) &&
      at(FOLIO_PLACE(ggml_backend, graph_plan_free),
         [&] { ggml().backend_graph_plan_free(backend, nullptr); }) &&
      at(FOLIO_PLACE(ggml_backend, graph_plan_compute),
         [&] { (void)ggml().backend_graph_plan_compute(backend, nullptr); }) &&
      at(FOLIO_PLACE(ggml_backend, graph_compute),
         [&] { (void)ggml().backend_graph_compute_async(backend, nullptr); }) &&
      marked.is_at(offsetof(ggml_backend, device), ggml().backend_get_device(backend));
  return is_same ? nullptr : "a backend (ggml_backend)";
}

const char* probe_buffer_type() {
  Marked marked;
  const bool is_same = marked.meets(FOLIO_PLACE(ggml_backend_buffer_type, alloc_buffer), [&] {
    ggml().backend_buft_alloc_buffer(marked.as<ggml_backend_buffer_type>(), 1);
  });
  return is_same ? nullptr : "a buffer's type (ggml_backend_buffer_type)";
}

#undef FOLIO_PLACE

struct FreeContext {
  void operator()(ggml_context* context) const { ggml().free(context); }
};
using Context = std::unique_ptr<ggml_context, FreeContext>;

/// Of tensors without data.
Context make_context() {
  return Context(
      ggml().init({.mem_size = size_t{1} << 20, .mem_buffer = nullptr, .no_alloc = true}));
}

constexpr int64_t head = 32, queries = 3, heads = 4, kv_heads = 2, keys = 5;
constexpr float scale = 0.25f, softcap = 4.0f;

/// A node of attention, and what it is made of.
struct Made {
  ggml_tensor* q;
  ggml_tensor* k;
  ggml_tensor* v;
  ggml_tensor* mask;
  ggml_tensor* sinks;
  ggml_tensor* out;

  explicit Made(ggml_context* c)
      : q(ggml().new_tensor_4d(c, GGML_TYPE_F32, head, queries, heads, 1)),
        k(ggml().new_tensor_4d(c, GGML_TYPE_F16, head, keys, kv_heads, 1)),
        v(ggml().new_tensor_4d(c, GGML_TYPE_F16, head, keys, kv_heads, 1)),
        mask(ggml().new_tensor_4d(c, GGML_TYPE_F16, keys, queries, 1, 1)),
        sinks(ggml().new_tensor_4d(c, GGML_TYPE_F32, heads, 1, 1, 1)),
        out(ggml().flash_attn_ext(c, q, k, v, mask, scale, 0.0f, softcap)) {
    ggml().flash_attn_ext_add_sinks(out, sinks);
  }
};

bool has_layout(const ggml_tensor* tensor, ggml_type type, const std::array<int64_t, 4>& extents) {
  size_t stride = ggml().type_size(type);
  for (size_t d = 0; d < extents.size(); ++d) {
    if (tensor->ne[d] != extents[d] || tensor->nb[d] != stride) return false;
    stride *= static_cast<size_t>(extents[d]);
  }
  return tensor->type == type;
}

void nothing(ggml_tensor*, int, int, void*) {}

bool is_custom(const ggml_tensor* tensor, void* data) {
  ggml_custom_op_params params;
  std::memcpy(&params, tensor->op_params, sizeof(params));
  return params.fun == nothing && params.n_tasks == GGML_N_TASKS_MAX && params.userdata == data;
}

/// Whether a node is read as it was made, and becomes a node of the other kind where the device
/// writes it.
const char* probe_nodes() {
  const Context context = make_context();
  Made made(context.get());
  ggml_tensor* const custom = ggml().custom_4d(context.get(), GGML_TYPE_F32, 1, 1, 1, 1, &made.q, 1,
                                               nothing, GGML_N_TASKS_MAX, &made);
  const Node node(made.out);
  const bool is_read = has_layout(made.q, GGML_TYPE_F32, {head, queries, heads, 1}) &&
                       has_layout(made.k, GGML_TYPE_F16, {head, keys, kv_heads, 1}) &&
                       has_layout(made.mask, GGML_TYPE_F16, {keys, queries, 1, 1}) &&
                       has_layout(made.out, GGML_TYPE_F32, {head, heads, queries, 1}) &&
                       node.q == made.q && node.k == made.k && node.v == made.v &&
                       node.mask == made.mask && node.sinks == made.sinks && node.scale == scale &&
                       node.max_bias == 0.0f && node.softcap == softcap &&
                       made.q->op == GGML_OP_NONE && made.q->data == nullptr;
  if (!is_read) return "a tensor (ggml_tensor)";
  operations() = {.attention = made.out->op, .custom = custom->op};
  if (ggml().op_desc(made.out) != std::string_view("FLASH_ATTN_EXT") || !is_custom(custom, &made))
    return "a node for functions of others (GGML_OP_CUSTOM)";
  made.out->op = operations().custom;
  if (ggml().op_desc(made.out) != std::string_view("CUSTOM"))
    return "a node for functions of others (GGML_OP_CUSTOM)";
  return nullptr;
}

/// The numbers of the types that the device reads.
const char* probe_types() {
  for (int i = 1; i < folio::detail::num_dtypes; ++i) {
    const auto dtype = static_cast<folio::DType>(i);
    const folio::detail::DTypeRow row = folio::detail::row_of(dtype);
    if (row.ggml < 0) continue;
    const auto number = static_cast<ggml_type>(row.ggml);
    const auto bytes = static_cast<size_t>(row_bytes(dtype, row.block_elements));
    if (ggml().type_name(number) != std::string_view(row.name) ||
        ggml().type_size(number) != bytes || ggml().blck_size(number) != row.block_elements)
      return "a tensor's type (ggml_type)";
  }
  return nullptr;
}

/// Numbers within [-1, 1], the same at each call, which f16 holds exactly.
float number(size_t i) { return static_cast<float>(i * 7 % 17) / 8.0f - 1.0f; }

void fill(ggml_tensor* tensor, size_t count, size_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = number(i + seed);
  if (tensor->type == GGML_TYPE_F32)
    return ggml().backend_tensor_set(tensor, values.data(), 0, count * sizeof(float));
  std::vector<ggml_fp16_t> halves(count);
  ggml().fp32_to_fp16_row(values.data(), halves.data(), static_cast<int64_t>(count));
  ggml().backend_tensor_set(tensor, halves.data(), 0, count * sizeof(ggml_fp16_t));
}

/// Queries see one key less, each, than the one behind them.
void fill_mask(ggml_tensor* mask) {
  std::vector<ggml_fp16_t> values(keys * queries, 0);
  for (int64_t query = 0; query < queries; ++query)
    for (int64_t key = keys - queries + query + 1; key < keys; ++key)
      values[static_cast<size_t>(query * keys + key)] = 0xfc00;  // minus infinity
  ggml().backend_tensor_set(mask, values.data(), 0, values.size() * sizeof(ggml_fp16_t));
}

struct FreeBackend {
  void operator()(ggml_backend_t backend) const { ggml().backend_free(backend); }
};
using Backend = std::unique_ptr<ggml_backend, FreeBackend>;
struct FreeBuffer {
  void operator()(ggml_backend_buffer_t buffer) const { ggml().backend_buffer_free(buffer); }
};
using Buffer = std::unique_ptr<ggml_backend_buffer, FreeBuffer>;

/// The output of the probe's node; empty after a failure.
std::vector<float> compute(const Backend& backend) {
  if (backend == nullptr) return {};
  if (const auto set = cpu_function<ggml_backend_set_n_threads_t>("ggml_backend_set_n_threads"))
    set(backend.get(), 1);
  const Context context = make_context();
  const Made made(context.get());
  const Buffer buffer(ggml().backend_alloc_ctx_tensors(context.get(), backend.get()));
  if (buffer == nullptr) return {};
  fill(made.q, head * queries * heads, 1);
  fill(made.k, head * keys * kv_heads, 2);
  fill(made.v, head * keys * kv_heads, 3);
  fill(made.sinks, heads, 4);
  fill_mask(made.mask);
  ggml_cgraph* const graph = ggml().new_graph(context.get());
  ggml().build_forward_expand(graph, made.out);
  if (ggml().backend_graph_compute(backend.get(), graph) != GGML_STATUS_SUCCESS) return {};
  std::vector<float> out(head * heads * queries);
  ggml().backend_tensor_get(made.out, out.data(), 0, out.size() * sizeof(float));
  return out;
}

}  // namespace

std::string probe_attention() {
  const ggml_backend_dev_t cpu = cpu_device();
  if (cpu == nullptr) return {};
  const std::vector<float> expected = compute(Backend(ggml().backend_dev_init(cpu, nullptr)));
  const std::vector<float> found = compute(Backend(make_backend(cpu)));
  const auto is_near = [](float a, float b) { return std::abs(a - b) <= 5e-3f; };
  if (!found.empty() && std::ranges::equal(expected, found, is_near)) return {};
  return "what attention computes (FLASH_ATTN_EXT)";
}

std::string probe_layouts() {
  for (const auto probe :
       {probe_device, probe_registry, probe_backend, probe_buffer_type, probe_types, probe_nodes})
    if (const char* moved = probe()) return moved;
  return {};
}

}  // namespace ggml_folio
