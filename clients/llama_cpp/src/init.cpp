// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/init.cpp: the module's one function.
#include "device.h"
#include "ggml_functions.h"
#include "huge_pages.h"
#include "settings.h"
#include "version.h"

/// What ggml_backend_load calls: the registry of the device `folio`, or null, after a line on
/// stderr that says why, for a ggml that it does not know.
extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init() {
  using namespace ggml_folio;
  if (const char* missing = find_ggml_functions(__builtin_return_address(0))) {
    say(std::string("not loaded: the program that loads it has no ") + missing +
        " that can be found; llama.cpp must be a shared library");
    return nullptr;
  }
  const ggml_backend_dev_t cpu = cpu_device();
  const int api_version = cpu != nullptr ? cpu->reg->api_version : GGML_BACKEND_API_VERSION;
  if (const std::string reason = refuse_version(ggml().version(), api_version); !reason.empty()) {
    say("not loaded: " + reason);
    return nullptr;
  }
  if (const char* moved = find_operations()) {
    say(std::string("not loaded: this ggml has another number for the operation ") + moved);
    return nullptr;
  }
  allocate_in_huge_pages();
  return registry();
}
