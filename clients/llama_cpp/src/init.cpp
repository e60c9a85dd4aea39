// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/init.cpp: the module's one function.
#include "device.h"
#include "ggml_functions.h"
#include "huge_pages.h"
#include "probe.h"
#include "settings.h"
#include "trace.h"
#include "version.h"

namespace ggml_folio {
namespace {

/// Why the library that holds `caller` is not served, or an empty text.
std::string refuse_ggml(const void* caller) {
  if (has_begun())
    return is_found_ggml(caller) ? "" : "it serves another ggml of this process already";
  const char* const missing = find_ggml_functions(caller);
  if (ggml().version == nullptr)
    return std::string("the program that loads it has no ") + missing +
           " that can be found; llama.cpp must be a shared library";
  const char* const version = ggml().version();
  if (std::string reason = refuse_version(version); !reason.empty()) return reason;
  if (missing != nullptr)
    return name_of_ggml(version) + ", which has no " + missing + "; the device is tested in ggml " +
           tested_range();
  std::string moved = probe_layouts();
  if (moved.empty()) moved = probe_attention();
  if (moved.empty()) return {};
  return name_of_ggml(version) + ", in which " + moved +
         " is not what the device knows; it is tested in ggml " + tested_range();
}

}  // namespace
}  // namespace ggml_folio

/// What ggml_backend_load calls: the registry of the device `folio`, or null, after a line on
/// stderr that says why, for a ggml that it cannot serve. A second call gives the same registry.
extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init() {
  using namespace ggml_folio;
  if (const std::string reason = refuse_ggml(__builtin_return_address(0)); !reason.empty()) {
    say("not loaded: " + reason);
    return nullptr;
  }
  if (has_begun()) return registry();
  if (const std::string warning = warn_of_version(ggml().version()); !warning.empty()) say(warning);
  allocate_in_huge_pages();
  begin_trace();
  return registry();
}
