// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/layouts.cpp: what the device takes from ggml's headers, stated.
///
/// The device is compiled with the headers of the newest release of llama-cpp-python that it is
/// tested in, and this file with those of each. Whether the ggml that loads the device, of any
/// version, has these layouts is asked of that ggml itself (probe.h).
#include <cstddef>

#include "folio/core/dtype.h"
#include "ggml-backend-impl.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"

namespace ggml_folio {
namespace {

constexpr size_t word = sizeof(void*);

// Tensors, and the parameters of an operation: node.cpp, graph_run.cpp.
static_assert(sizeof(ggml_tensor) == 336 && offsetof(ggml_tensor, type) == 0);
static_assert(offsetof(ggml_tensor, ne) == 16 && offsetof(ggml_tensor, nb) == 48);
static_assert(offsetof(ggml_tensor, op) == 80 && offsetof(ggml_tensor, op_params) == 84);
static_assert(offsetof(ggml_tensor, src) == 152 && offsetof(ggml_tensor, data) == 248);
static_assert(GGML_MAX_OP_PARAMS == 64 && GGML_N_TASKS_MAX == -1);
static_assert(sizeof(ggml_custom_op_params) == 3 * word);
static_assert(offsetof(ggml_custom_op_params, n_tasks) == word);
static_assert(offsetof(ggml_custom_op_params, userdata) == 2 * word);

// The numbers of folio's table: node.cpp, probe.cpp.
constexpr bool is_numbered(folio::DType dtype, ggml_type number) {
  return folio::detail::row_of(dtype).ggml == number;
}
using folio::DType;
static_assert(is_numbered(DType::f32, GGML_TYPE_F32) && is_numbered(DType::f16, GGML_TYPE_F16));
static_assert(is_numbered(DType::bf16, GGML_TYPE_BF16) && is_numbered(DType::q8_0, GGML_TYPE_Q8_0));
static_assert(is_numbered(DType::q4_0, GGML_TYPE_Q4_0) && is_numbered(DType::q4_1, GGML_TYPE_Q4_1));
static_assert(is_numbered(DType::q5_0, GGML_TYPE_Q5_0) && is_numbered(DType::q5_1, GGML_TYPE_Q5_1));
static_assert(is_numbered(DType::iq4_nl, GGML_TYPE_IQ4_NL));

// The device and its registry: device.cpp.
static_assert(GGML_BACKEND_DEVICE_TYPE_CPU == 0 && GGML_BACKEND_DEVICE_TYPE_ACCEL == 3);
static_assert(sizeof(ggml_backend_reg) == 6 * word && offsetof(ggml_backend_reg, iface) == word);
static_assert(sizeof(ggml_backend_reg_i) == 4 * word);
static_assert(offsetof(ggml_backend_reg_i, get_proc_address) == 3 * word);
static_assert(sizeof(ggml_backend_device) == 17 * word);
static_assert(sizeof(ggml_backend_device_i) == 15 * word);
static_assert(offsetof(ggml_backend_device_i, get_props) == 4 * word);
static_assert(offsetof(ggml_backend_device_i, init_backend) == 5 * word);
static_assert(offsetof(ggml_backend_device_i, get_buffer_type) == 6 * word);
static_assert(offsetof(ggml_backend_device_i, buffer_from_host_ptr) == 8 * word);
static_assert(offsetof(ggml_backend_device_i, supports_op) == 9 * word);
static_assert(offsetof(ggml_backend_device_i, supports_buft) == 10 * word);
// Older ones have no mmap_support; it lies in what fills their structure up to a whole word.
static_assert(sizeof(ggml_backend_dev_props) == 7 * word);
static_assert(offsetof(ggml_backend_dev_props, caps) == 6 * word);
static_assert(offsetof(ggml_backend_dev_caps, buffer_from_host_ptr) == 2);

// A backend and its threads: cpu_backend.cpp.
static_assert(sizeof(ggml_backend) == 19 * word && offsetof(ggml_backend, iface) == word);
static_assert(offsetof(ggml_backend, device) == 17 * word);
static_assert(offsetof(ggml_backend, context) == 18 * word);
static_assert(sizeof(ggml_backend_i) == 16 * word && offsetof(ggml_backend_i, free) == word);
static_assert(offsetof(ggml_backend_i, graph_plan_create) == 8 * word);
static_assert(offsetof(ggml_backend_i, graph_plan_free) == 9 * word);
static_assert(offsetof(ggml_backend_i, graph_plan_compute) == 11 * word);
static_assert(offsetof(ggml_backend_i, graph_compute) == 12 * word);
static_assert(GGML_STATUS_FAILED == -1 && GGML_SCHED_PRIO_NORMAL == 0);
static_assert(sizeof(ggml_backend_feature) == 2 * word);
static_assert(sizeof(ggml_threadpool_params) == 528);
static_assert(offsetof(ggml_threadpool_params, n_threads) == 512);
static_assert(offsetof(ggml_threadpool_params, prio) == 516);
static_assert(offsetof(ggml_threadpool_params, poll) == 520);

// Buffers: huge_pages.cpp.
static_assert(offsetof(ggml_backend_buffer_type, iface) == 0);
static_assert(offsetof(ggml_backend_buffer_type_i, alloc_buffer) == word);

}  // namespace
}  // namespace ggml_folio
