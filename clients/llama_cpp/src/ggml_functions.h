// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/ggml_functions.h: the functions of ggml that the device calls.
///
/// They are looked up in the library that loads the module, not linked. A process may hold several
/// ggml's; programs load theirs globally, Python's ctypes keeps it local, and packages name the
/// files as they like. So the module has neither undefined symbols of ggml nor a soname among its
/// needs, and never brings a second ggml into the process.
///
/// All but log_internal are of ggml's public interface. What a function of it answers is never read
/// from ggml's structures: those change more often (probe.h).
#pragma once

#include <string>

#include "ggml-alloc.h"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"

namespace ggml_folio {

/// F(name): ggml_name has to be there.
// clang-format off
#define FOLIO_GGML_FUNCTIONS(F)                                                                \
  F(version) F(op_desc) F(type_name) F(type_size) F(blck_size) F(get_name)                     \
  F(graph_n_nodes) F(graph_node) F(fp32_to_fp16_row) F(log_internal)                           \
  F(backend_dev_by_type) F(backend_dev_name) F(backend_dev_description) F(backend_dev_memory)  \
  F(backend_dev_type) F(backend_dev_get_props) F(backend_dev_init) F(backend_dev_buffer_type)  \
  F(backend_dev_buffer_from_host_ptr) F(backend_dev_supports_op) F(backend_dev_supports_buft)  \
  F(backend_dev_backend_reg)                                                                   \
  F(backend_reg_name) F(backend_reg_dev_count) F(backend_reg_dev_get)                          \
  F(backend_reg_get_proc_address)                                                              \
  F(backend_name) F(backend_free) F(backend_get_device) F(backend_graph_compute)               \
  F(backend_graph_compute_async) F(backend_graph_plan_create) F(backend_graph_plan_free)       \
  F(backend_graph_plan_compute)                                                                \
  F(backend_buft_is_host) F(backend_buft_alloc_buffer) F(backend_buffer_get_base)              \
  F(backend_buffer_get_size) F(backend_buffer_free) F(backend_alloc_ctx_tensors)               \
  F(backend_tensor_set) F(backend_tensor_get)                                                  \
  F(init) F(free) F(new_tensor_4d) F(flash_attn_ext) F(flash_attn_ext_add_sinks) F(custom_4d)  \
  F(new_graph) F(build_forward_expand)
// clang-format on

/// The functions, named without their prefix ggml_.
struct GgmlFunctions {
#define FOLIO_GGML_MEMBER(name) decltype(&ggml_##name) name = nullptr;
  FOLIO_GGML_FUNCTIONS(FOLIO_GGML_MEMBER)
#undef FOLIO_GGML_MEMBER
};

/// The numbers of the operations that the device looks for and puts in their place. They move as
/// ggml gets more operations; the probe reads them from nodes that ggml makes.
struct Operations {
  ggml_op attention = GGML_OP_COUNT;
  ggml_op custom = GGML_OP_COUNT;
};

/// Finds the functions in the library that holds the address `caller`, or in those that it needs.
/// Returns the name of the first that is missing, null if all are there: those behind it were not
/// looked for, ggml_version is the first. Call it before ggml() is used.
[[nodiscard]] const char* find_ggml_functions(const void* caller);

/// Whether the functions that were found are those of the library that holds the address `caller`,
/// or of those that it needs.
[[nodiscard]] bool is_found_ggml(const void* caller);

/// What was found.
[[nodiscard]] const GgmlFunctions& ggml();

/// The operations' numbers: unknown until the probe has set them.
[[nodiscard]] Operations& operations();

/// A line of ggml's log, at its level of information: where the program has its own lines.
void log(const std::string& line);

/// ggml's own CPU device; null as long as it is not registered.
[[nodiscard]] ggml_backend_dev_t cpu_device();

/// A function that the CPU device's registry offers by its name, or null.
template <class Function>
[[nodiscard]] Function cpu_function(const char* name) {
  const ggml_backend_dev_t device = cpu_device();
  if (device == nullptr) return nullptr;
  const ggml_backend_reg_t registry = ggml().backend_dev_backend_reg(device);
  return reinterpret_cast<Function>(ggml().backend_reg_get_proc_address(registry, name));
}

}  // namespace ggml_folio
