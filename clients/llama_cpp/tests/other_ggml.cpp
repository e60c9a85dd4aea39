// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/tests/other_ggml.cpp: a library that looks like another ggml to a module that
/// it loads. It is the real one, on which it depends, but for what stands here; one macro chooses.
/// BARE_GGML and BARE_OLDER_GGML depend on nothing and have a version alone.
#include <dlfcn.h>
#include <ggml-backend-impl.h>

#include <cstring>

namespace {

/// ggml's own function of that name.
template <class Function>
[[maybe_unused]] Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// Where the CPU device's buffers are allocated: what the module replaces.
void* allocates() {
#if defined(BARE_GGML) || defined(BARE_OLDER_GGML)
  return nullptr;
#else
  const ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  return reinterpret_cast<void*>(ggml_backend_dev_buffer_type(cpu)->iface.alloc_buffer);
#endif
}
void* const allocated = allocates();

}  // namespace

extern "C" {

const char* ggml_version() { return OTHER_VERSION; }

#if defined(OTHER_DEVICE)
/// As where a function has been put before this one in the table.
bool ggml_backend_dev_supports_op(ggml_backend_dev_t device, const ggml_tensor* op) {
  return reinterpret_cast<decltype(&ggml_backend_dev_supports_op)>(device->iface.supports_buft)(
      device, op);
}
#elif defined(OTHER_PROPERTIES)
/// As where the structure has one word less.
void ggml_backend_dev_get_props(ggml_backend_dev_t device, ggml_backend_dev_props* properties) {
  std::memset(properties, 0, sizeof(*properties) - sizeof(void*));
  device->iface.get_props(device, properties);
}
#elif defined(OTHER_BUFFERS)
ggml_backend_buffer_t ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t type, size_t) {
  return reinterpret_cast<ggml_backend_buffer_t>(type->iface.get_alignment(type));
}
#elif defined(OTHER_NODES)
/// As where an operand has been put before the mask.
void ggml_flash_attn_ext_add_sinks(ggml_tensor* node, ggml_tensor* sinks) { node->src[5] = sinks; }
#elif defined(OTHER_ATTENTION)
/// As where one of both computes otherwise: outputs of every second graph are off by 1.
void ggml_backend_tensor_get(const ggml_tensor* tensor, void* data, size_t offset, size_t size) {
  static float error = 0;
  real(&ggml_backend_tensor_get, "ggml_backend_tensor_get")(tensor, data, offset, size);
  static_cast<float*>(data)[0] += error;
  error = 1 - error;
}
#endif

/// What the module's ggml_backend_init returns to this library; an address of its own where the
/// module is not loaded at all.
const void* load_backend(const char* path) {
  static const char not_loaded = 0;
  void* module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return &not_loaded;
  const auto init =
      reinterpret_cast<const ggml_backend_reg* (*)()>(dlsym(module, "ggml_backend_init"));
  if (init == nullptr) return &not_loaded;
  const ggml_backend_reg* registry = init();
  if (registry == nullptr) dlclose(module);  // as ggml does
  return registry;
}

/// Whether this ggml allocates as it did before the module came.
bool is_untouched() { return allocates() == allocated; }
}
