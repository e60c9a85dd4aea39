// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/huge_pages.h: caches in large pages of memory.
#pragma once

namespace ggml_folio {

/// From now on large buffers of the CPU device's memory (caches, weights that are not mapped from
/// their file, intermediate tensors) are in pages of 2 MiB, where Linux gives them to those who ask
/// (the default of most distributions; llama.cpp does not ask). Attention of few queries reads a
/// cache from end to end, and waits for the addresses of pages of 4 KiB.
///
/// The function that allocates, an entry in ggml's table of its CPU buffer type, is replaced by one
/// that calls it and gives the advice before anything is written. It is a wish: what Linux refuses
/// stays as it is. A second call does nothing, and so does one with FOLIO_GGML_HUGE_PAGES=0, or
/// before ggml has a CPU device.
///
/// For the time when ggml loads the module, behind the probe: ggml itself is not for several
/// threads then. Buffers may be made by any number of threads afterwards.
void allocate_in_huge_pages();

}  // namespace ggml_folio
