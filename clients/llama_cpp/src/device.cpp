// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/device.cpp: ggml's tables of functions, filled.
#include "device.h"

#include <algorithm>
#include <string_view>

#include "cpu_backend.h"
#include "ggml_functions.h"
#include "refusal.h"
#include "settings.h"

namespace ggml_folio {
namespace {

const char* name_of(ggml_backend_dev_t) { return "folio"; }
const char* description_of(ggml_backend_dev_t) { return "folio's attention on the CPU"; }
enum ggml_backend_dev_type type_of(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }

/// All memory is the CPU device's.
void memory_of(ggml_backend_dev_t, size_t* free, size_t* total) { *free = *total = 0; }

void properties_of(ggml_backend_dev_t device, ggml_backend_dev_props* properties) {
  *properties = {};
  properties->name = name_of(device);
  properties->description = description_of(device);
  properties->type = type_of(device);
  properties->caps.buffer_from_host_ptr = properties->caps.mmap_support = true;
}

ggml_backend_t init_backend(ggml_backend_dev_t device, const char*) {
  return make_backend(settings().own_device ? device : cpu_device());
}

ggml_backend_buffer_type_t buffer_type_of(ggml_backend_dev_t) {
  return ggml().backend_dev_buffer_type(cpu_device());
}

ggml_backend_buffer_t buffer_of(ggml_backend_dev_t, void* data, size_t size, size_t max_tensor) {
  return ggml().backend_dev_buffer_from_host_ptr(cpu_device(), data, size, max_tensor);
}

/// Asked of the device where it is the backend's own. Attention, and what computes nothing.
bool supports(ggml_backend_dev_t, const ggml_tensor* op) {
  if (op->op == operations().attention) {
    static thread_local Refusals refusals;
    return refusals.refuse(op) == nullptr;
  }
  constexpr std::string_view idle[] = {"NONE", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE"};
  return std::ranges::count(idle, ggml().op_desc(op)) > 0;
}

bool supports_buffers(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
  return ggml().backend_buft_is_host(type);
}

const char* registry_name(ggml_backend_reg_t) { return "folio"; }
size_t device_count(ggml_backend_reg_t) { return 1; }

ggml_backend_dev_t device_at(ggml_backend_reg_t owner, size_t) {
  static ggml_backend_device device = [&] {
    ggml_backend_device_i table = {};
    table.get_name = name_of;
    table.get_description = description_of;
    table.get_memory = memory_of;
    table.get_type = type_of;
    table.get_props = properties_of;
    table.init_backend = init_backend;
    table.get_buffer_type = buffer_type_of;
    table.buffer_from_host_ptr = buffer_of;
    table.supports_op = supports;
    table.supports_buft = supports_buffers;
    return ggml_backend_device{table, owner, nullptr};
  }();
  return &device;
}

/// A backend of this device takes the CPU backend's functions: number of threads, abort callback.
void* function_of(ggml_backend_reg_t, const char* name) { return cpu_function<void*>(name); }

}  // namespace

ggml_backend_reg_t registry() {
  // ggml compares the number with its own, which its CPU device states. What it stands for has been
  // probed.
  static ggml_backend_reg table = [] {
    const ggml_backend_dev_t cpu = cpu_device();
    const int api_version = cpu != nullptr ? ggml().backend_dev_backend_reg(cpu)->api_version
                                           : GGML_BACKEND_API_VERSION;
    return ggml_backend_reg{
        api_version, {registry_name, device_count, device_at, function_of}, nullptr};
  }();
  return &table;
}

}  // namespace ggml_folio
