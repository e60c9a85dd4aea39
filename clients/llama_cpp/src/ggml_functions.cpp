// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/ggml_functions.cpp: the look-up, by the dynamic loader.
#include "ggml_functions.h"

#include <dlfcn.h>

#include <string_view>

namespace ggml_folio {
namespace {

GgmlFunctions found;

/// A handle of the library that holds `address`. The program itself has none by its name.
void* library_of(const void* address) {
  Dl_info info = {};
  if (dladdr(address, &info) == 0) return nullptr;
  void* handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  return handle != nullptr ? handle : dlopen(nullptr, RTLD_NOW);
}

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

const char* find_ggml_functions(const void* caller) {
  void* library = library_of(caller);
  if (library == nullptr) return "library that loads the device";
  const char* missing = nullptr;
  if (!find(library, "ggml_version", found.version)) missing = "ggml_version";
  if (!find(library, "ggml_backend_dev_by_type", found.device_by_type))
    missing = "ggml_backend_dev_by_type";
  if (!find(library, "ggml_graph_n_nodes", found.graph_n_nodes)) missing = "ggml_graph_n_nodes";
  if (!find(library, "ggml_graph_node", found.graph_node)) missing = "ggml_graph_node";
  if (!find(library, "ggml_op_name", found.op_name)) missing = "ggml_op_name";
  dlclose(library);  // it stays loaded: it called
  return missing;
}

const char* find_operations() {
  struct Fixed {
    ggml_op number;
    std::string_view name;
  };
  constexpr Fixed fixed[] = {
      {GGML_OP_NONE, "NONE"},           {GGML_OP_RESHAPE, "RESHAPE"},
      {GGML_OP_VIEW, "VIEW"},           {GGML_OP_PERMUTE, "PERMUTE"},
      {GGML_OP_TRANSPOSE, "TRANSPOSE"}, {GGML_OP_FLASH_ATTN_EXT, "FLASH_ATTN_EXT"}};
  for (const Fixed& operation : fixed)
    if (found.op_name(operation.number) != operation.name) return operation.name.data();
  // It stands among the last; none of a known version has more than these headers.
  for (int number = GGML_OP_FLASH_ATTN_EXT + 1; number <= GGML_OP_CUSTOM; ++number)
    if (found.op_name(static_cast<ggml_op>(number)) == std::string_view("CUSTOM")) {
      found.custom = static_cast<ggml_op>(number);
      return nullptr;
    }
  return "CUSTOM";
}

const GgmlFunctions& ggml() { return found; }

ggml_backend_dev_t cpu_device() { return found.device_by_type(GGML_BACKEND_DEVICE_TYPE_CPU); }

}  // namespace ggml_folio
