// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/device.h: the device `folio` and its registry, as ggml lists them.
///
/// An accelerator in host memory. llama.cpp makes a backend of each such device and asks it before
/// the CPU backend. With `-fa auto` it then compares the device of an attention node's backend with
/// that of the layer, and switches flash attention off where they differ: so the backend of this
/// device says that it belongs to the CPU device, whose layers it runs (all of them: a graph stays
/// in one piece).
#pragma once

#include "ggml-backend-impl.h"

namespace ggml_folio {

[[nodiscard]] ggml_backend_reg_t registry();

}  // namespace ggml_folio
