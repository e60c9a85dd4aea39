// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/settings.cpp: the environment, in one place.
#include "settings.h"

#include <cstdlib>

#include "line.h"

namespace ggml_folio {
namespace {

bool is_set(const char* name, std::string_view value) {
  const char* found = std::getenv(name);
  return found != nullptr && value == found;
}

}  // namespace

const Settings& settings() {
  static const Settings read = {.trace = is_set("FOLIO_GGML_TRACE", "1"),
                                .own_device = is_set("FOLIO_GGML_DEVICE", "own"),
                                .f16_as_bf16 = is_set("FOLIO_GGML_F16", "bf16"),
                                .huge_pages = !is_set("FOLIO_GGML_HUGE_PAGES", "0")};
  return read;
}

void say(std::string_view text) { (Line() << text).write(); }

}  // namespace ggml_folio
