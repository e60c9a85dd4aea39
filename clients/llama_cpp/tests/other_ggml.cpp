// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/tests/other_ggml.cpp: a library that looks like another ggml to a module that
/// it loads: of another version, and with other numbers for its operations.
#include <dlfcn.h>

extern "C" {

const char* ggml_version() { return OTHER_VERSION; }
void* ggml_backend_dev_by_type(int) { return nullptr; }
int ggml_graph_n_nodes(void*) { return 0; }
void* ggml_graph_node(void*, int) { return nullptr; }
const char* ggml_op_name(int) { return "OTHER"; }

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
}
