// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/ggml_functions.h: the functions of ggml that the device calls.
///
/// They are looked up in the library that loads the module, not linked. A process may hold several
/// ggml's; programs load theirs globally, Python's ctypes keeps it local, and packages name the
/// files as they like. So the module has neither undefined symbols of ggml nor a soname among its
/// needs, and never brings a second ggml into the process.
#pragma once

#include "ggml-backend-impl.h"

namespace ggml_folio {

struct GgmlFunctions {
  decltype(&ggml_version) version = nullptr;
  decltype(&ggml_backend_dev_by_type) device_by_type = nullptr;
  decltype(&ggml_graph_n_nodes) graph_n_nodes = nullptr;
  decltype(&ggml_graph_node) graph_node = nullptr;
  decltype(&ggml_op_name) op_name = nullptr;
  /// The number of CUSTOM, which moves as ggml gets more operations.
  ggml_op custom = GGML_OP_COUNT;
};

/// Finds the functions in the library that holds the address `caller`, or in those that it needs.
/// Returns the name of the first that is missing, null if all are there. Call it once, before
/// ggml() is used.
[[nodiscard]] const char* find_ggml_functions(const void* caller);

/// Finds the operations' numbers, of a ggml whose version is known. Returns the name of one that is
/// not where it should be, null if all are.
[[nodiscard]] const char* find_operations();

/// What was found.
[[nodiscard]] const GgmlFunctions& ggml();

/// ggml's own CPU device; null as long as it is not registered.
[[nodiscard]] ggml_backend_dev_t cpu_device();

/// A function that the CPU device's registry offers by its name, or null.
template <class Function>
[[nodiscard]] Function cpu_function(const char* name) {
  const ggml_backend_dev_t device = cpu_device();
  if (device == nullptr || device->reg->iface.get_proc_address == nullptr) return nullptr;
  return reinterpret_cast<Function>(device->reg->iface.get_proc_address(device->reg, name));
}

}  // namespace ggml_folio
