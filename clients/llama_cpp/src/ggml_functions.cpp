// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/ggml_functions.cpp: the look-up, by the dynamic loader.
#include "ggml_functions.h"

#include <dlfcn.h>

namespace ggml_folio {
namespace {

GgmlFunctions found;
Operations numbers;

/// A handle of the library that holds `address`. The program itself has none by its name.
void* library_of(const void* address) {
  Dl_info info = {};
  if (dladdr(address, &info) == 0) return nullptr;
  void* handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  return handle != nullptr ? handle : dlopen(nullptr, RTLD_NOW);
}

/// Its name where it is missing, else null.
template <class Function>
const char* find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function == nullptr ? name : nullptr;
}

const char* find_all(void* library) {
#define FOLIO_GGML_FIND(name) \
  if (const char* missing = find(library, "ggml_" #name, found.name)) return missing;
  FOLIO_GGML_FUNCTIONS(FOLIO_GGML_FIND)
#undef FOLIO_GGML_FIND
  return nullptr;
}

}  // namespace

const char* find_ggml_functions(const void* caller) {
  void* library = library_of(caller);
  if (library == nullptr) return "library that loads the device";
  const char* missing = find_all(library);
  dlclose(library);  // it stays loaded: it called
  return missing;
}

bool is_found_ggml(const void* caller) {
  void* library = library_of(caller);
  if (library == nullptr) return false;
  GgmlFunctions its;
  const bool is_missing = find(library, "ggml_version", its.version) != nullptr;
  dlclose(library);
  return !is_missing && its.version == found.version;
}

const GgmlFunctions& ggml() { return found; }

Operations& operations() { return numbers; }

void log(const std::string& line) {
  found.log_internal(GGML_LOG_LEVEL_INFO, "ggml-folio: %s\n", line.c_str());
}

ggml_backend_dev_t cpu_device() { return found.backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU); }

}  // namespace ggml_folio
