// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/tests/other_ggml.cpp: a library that looks like another ggml to a module that
/// it loads: of another version, or with other numbers for its operations.
#include <dlfcn.h>
#include <ggml-backend-impl.h>

namespace {

ggml_backend_buffer_t no_buffer(ggml_backend_buffer_type_t, size_t) { return nullptr; }

ggml_backend_buffer_type buffers = {.iface = {.get_name = nullptr,
                                              .alloc_buffer = no_buffer,
                                              .get_alignment = nullptr,
                                              .get_max_size = nullptr,
                                              .get_alloc_size = nullptr,
                                              .is_host = nullptr},
                                    .device = nullptr,
                                    .context = nullptr};

ggml_backend_buffer_type_t buffer_type(ggml_backend_dev_t) { return &buffers; }

/// A CPU device that has memory, and nothing else.
ggml_backend_dev_t cpu() {
  static ggml_backend_reg registry = {
      .api_version = GGML_BACKEND_API_VERSION, .iface = {}, .context = nullptr};
  static ggml_backend_device device = {.iface = {}, .reg = &registry, .context = nullptr};
  device.iface.get_buffer_type = buffer_type;
  return &device;
}

}  // namespace

extern "C" {

const char* ggml_version() { return OTHER_VERSION; }
ggml_backend_dev_t ggml_backend_dev_by_type(enum ggml_backend_dev_type) { return cpu(); }
int ggml_graph_n_nodes(ggml_cgraph*) { return 0; }
ggml_tensor* ggml_graph_node(ggml_cgraph*, int) { return nullptr; }
const char* ggml_op_name(enum ggml_op) { return "OTHER"; }

/// What the module's ggml_backend_init returns to this library; an address of its own where the
/// module is not loaded at all.
const void* load_backend(const char* path) {
  static const char not_loaded = 0;
  void* module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return &not_loaded;
  const auto init = reinterpret_cast<void* (*)()>(dlsym(module, "ggml_backend_init"));
  if (init == nullptr) return &not_loaded;
  const void* registry = init();
  if (registry == nullptr) dlclose(module);  // as ggml does
  return registry;
}

/// Whether this ggml allocates as it did before the module came.
bool is_untouched() { return buffers.iface.alloc_buffer == no_buffer; }
}
