// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/settings.h: the environment variables, read once, and messages.
#pragma once

#include <string_view>

namespace ggml_folio {

struct Settings {
  /// FOLIO_GGML_TRACE=1: counters on stderr when a context is freed and when the process ends, and
  /// each refusal once
  bool trace = false;
  /// FOLIO_GGML_DEVICE=own: the backend's device is `folio`, not the CPU device, for programs that
  /// ask a device what it supports (test-backend-ops). llama.cpp's `-fa auto` takes that for a
  /// layer without its device and switches flash attention off
  bool own_device = false;
  /// FOLIO_GGML_F16=bf16: f16 caches are multiplied as bf16, too
  bool f16_as_bf16 = false;
  /// FOLIO_GGML_HUGE_PAGES=0: buffers stay in the pages that ggml allocates them in
  bool huge_pages = true;
};

/// The process's settings; thread-safe.
[[nodiscard]] const Settings& settings();

/// A line on stderr that begins with the device's name, cut to 800 bytes.
void say(std::string_view text);

}  // namespace ggml_folio
