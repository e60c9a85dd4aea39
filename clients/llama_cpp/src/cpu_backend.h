// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/cpu_backend.h: ggml's CPU backend with folio's attention in its graphs.
#pragma once

#include "ggml-backend-impl.h"

namespace ggml_folio {

/// A new backend, or null if ggml has no CPU backend. It is the CPU backend in all, its identity
/// and its memory included (functions that set its threads or its abort callback take it for one),
/// but runs FLASH_ATTN_EXT on folio and belongs to `device`.
[[nodiscard]] ggml_backend_t make_backend(ggml_backend_dev_t device);

}  // namespace ggml_folio
