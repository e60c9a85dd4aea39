// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/probe.h: whether a ggml is laid out as the device takes it to be.
///
/// The device fills ggml's internal tables and takes the place of one of its nodes. What it was
/// compiled with are the headers of one version (layouts.cpp states what it takes from them); what
/// it meets may be another, whose number says little: one version has had two layouts. So ggml's
/// own functions are asked, before it is given anything: each is called with a table that has a
/// mark in every place, and the mark that is met says which place the function looks at; ggml makes
/// nodes, and they are read as the device reads them. Then a small graph is computed by both.
/// What ggml has no function to ask for, the numbers of a device's type and of a status, is taken
/// from the headers.
#pragma once

#include <string>

namespace ggml_folio {

/// Why the ggml that was found is not served: what of it is laid out otherwise, as the end of a
/// sentence; empty where all is as it should be. Sets operations(). Changes nothing else of ggml.
/// For one thread, after find_ggml_functions.
[[nodiscard]] std::string probe_layouts();

/// The same of a graph with one node of attention, computed by ggml's CPU backend and by the
/// device's, on one thread; after probe_layouts. Without a CPU device there is nothing to compare.
[[nodiscard]] std::string probe_attention();

}  // namespace ggml_folio
