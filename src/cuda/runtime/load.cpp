// SPDX-License-Identifier: Apache-2.0
/// src/cuda/runtime/load.cpp: loads the kernels of this build into a device: the one step that
/// allocates.
#include <atomic>
#include <mutex>
#include <new>

#include "cuda/runtime/launch.h"
#include "cuda/runtime/loaded.h"

namespace folio::cuda {
namespace {

// CUdevice_attribute
constexpr int multiprocessor_count = 16;
constexpr int compute_capability_major = 75;
constexpr int compute_capability_minor = 76;
constexpr int max_shared_memory_per_block_optin = 97;
// CUfunction_attribute
constexpr int max_dynamic_shared_size_bytes = 8;

std::mutex loading;  // held by whoever changes what follows
std::atomic<const LoadedDevice*> loaded[max_devices];
std::unique_ptr<const LoadedDevice> owned[max_devices];
KernelTable table_of_tests;

/// Modules and the context, until the last kernel is loaded: a failure half-way leaves nothing.
class Loading {
 public:
  Loading(const Driver& driver, int device) noexcept : driver_(driver), device_(device) {}
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
  ~Loading() {
    if (is_kept_) return;
    for (size_t i = 0; i < count_; ++i) driver_.module_unload(modules_[i]);
    if (context_ != nullptr) driver_.context_release(device_);
  }

  Result<DriverContext> hold_context(const char* function) noexcept {
    DriverContext context = nullptr;
    if (const DriverResult result = driver_.context_retain(&context, device_); result != 0)
      return driver_.failure(function, "cuDevicePrimaryCtxRetain", result);
    context_ = context;
    return context;
  }

  Result<DriverFunction> load(const char* function, const KernelEntry& kernel,
                              const KernelImage& image) noexcept {
    DriverModule module = nullptr;
    if (const DriverResult result = driver_.module_load(&module, image.data); result != 0)
      return failure(function, "cuModuleLoadData", kernel, result);
    modules_[count_++] = module;
    DriverFunction loaded_function = nullptr;
    if (const DriverResult result = driver_.module_function(&loaded_function, module, kernel.name);
        result != 0)
      return failure(function, "cuModuleGetFunction", kernel, result);
    if (const DriverResult result = driver_.function_set(
            loaded_function, max_dynamic_shared_size_bytes, kernel.shared_bytes);
        result != 0)
      return failure(function, "cuFuncSetAttribute", kernel, result);
    if (driver_.function_load != nullptr) {
      if (const DriverResult result = driver_.function_load(loaded_function); result != 0)
        return failure(function, "cuFuncLoad", kernel, result);
    }
    return loaded_function;
  }

  [[nodiscard]] bool reserve(size_t kernels) noexcept {
    modules_.reset(new (std::nothrow) DriverModule[kernels]);
    return modules_ != nullptr;
  }
  void keep() noexcept { is_kept_ = true; }

 private:
  Status failure(const char* function, const char* call, const KernelEntry& kernel,
                 DriverResult result) const noexcept {
    const Status why = driver_.failure(function, call, result);
    return fail(why.code(), "{}, at kernel {}", why.message(), kernel.name);
  }

  const Driver& driver_;
  int device_;
  DriverContext context_ = nullptr;
  std::unique_ptr<DriverModule[]> modules_;
  size_t count_ = 0;
  bool is_kept_ = false;
};

struct Found {
  const Driver* driver = nullptr;
  int device = 0;  ///< the driver's number
  DeviceFacts facts;
};

Result<int> attribute(const char* function, const Driver& driver, int device, int which) {
  int value = 0;
  if (const DriverResult result = driver.device_attribute(&value, which, device); result != 0)
    return driver.failure(function, "cuDeviceGetAttribute", result);
  return value;
}

/// The driver, the device and what is known of it.
Result<Found> find(const char* function, Device device) {
  if (Status s = check_device(function, device); !s.is_ok()) return s;
  const Result<const Driver*> loaded_driver = driver(function);
  if (!loaded_driver) return loaded_driver.error();
  Found found;
  found.driver = *loaded_driver;
  const Driver& d = *found.driver;
  if (const DriverResult result = d.device_get(&found.device, device.index); result != 0)
    return d.failure(function, "cuDeviceGet", result);
  const Result<int> processors = attribute(function, d, found.device, multiprocessor_count);
  const Result<int> major = attribute(function, d, found.device, compute_capability_major);
  const Result<int> minor = attribute(function, d, found.device, compute_capability_minor);
  const Result<int> shared =
      attribute(function, d, found.device, max_shared_memory_per_block_optin);
  for (const Result<int>* value : {&processors, &major, &minor, &shared}) {
    if (!*value) return value->error();
  }
  found.facts = {*processors, *major * 10 + *minor, *shared};
  return found;
}

bool fits(const KernelEntry& kernel, const DeviceFacts& facts) {
  return kernel.shared_bytes <= facts.shared_bytes &&
         image_for(kernel, facts.compute_capability) != nullptr;
}

/// Some kernel of the build runs on the device.
Status check_kernels(const char* function, Device device, const DeviceFacts& facts) {
  bool has_images = false;
  for (const KernelEntry& kernel : kernel_table()) {
    if (fits(kernel, facts)) return {};
    has_images |= !kernel.images.empty();
  }
  if (!has_images)
    return fail(Errc::unsupported,
                "{}: folio is built without CUDA kernels (FOLIO_CUDA_KERNELS=OFF)", function);
  return fail(Errc::unsupported,
              "{}: no kernel of this build runs on device {} of compute capability {}.{} "
              "(FOLIO_CUDA_ARCHITECTURES)",
              function, device.index, facts.compute_capability / 10, facts.compute_capability % 10);
}

Status out_of_memory(const char* function) {
  return fail(Errc::out_of_memory, "{}: no memory for the list of kernels", function);
}

Result<std::unique_ptr<const LoadedDevice>> load(const char* function, const Found& found) {
  const KernelTable table = kernel_table();
  std::unique_ptr<LoadedDevice> device(new (std::nothrow) LoadedDevice);
  if (device == nullptr) return out_of_memory(function);
  device->functions.reset(new (std::nothrow) DriverFunction[table.size()]());
  Loading modules(*found.driver, found.device);
  if (device->functions == nullptr || !modules.reserve(table.size()))
    return out_of_memory(function);

  device->driver = found.driver;
  device->facts = found.facts;
  const Result<DriverContext> context = modules.hold_context(function);
  if (!context) return context.error();
  device->context = *context;
  CurrentContext current(*found.driver);
  if (Status s = current.enter(function, *context); !s.is_ok()) return s;
  for (size_t i = 0; i < table.size(); ++i) {
    if (!fits(table[i], found.facts)) continue;
    const Result<DriverFunction> kernel =
        modules.load(function, table[i], *image_for(table[i], found.facts.compute_capability));
    if (!kernel) return kernel.error();
    device->functions[i] = *kernel;
  }
  modules.keep();
  return std::unique_ptr<const LoadedDevice>(std::move(device));
}

}  // namespace

KernelTable kernel_table() noexcept {
  return table_of_tests.empty() ? built_kernels() : table_of_tests;
}

void use_kernel_table(KernelTable table) noexcept {
  const std::lock_guard lock(loading);
  for (int32_t i = 0; i < max_devices; ++i) {
    loaded[i].store(nullptr, std::memory_order_release);
    owned[i].reset();
  }
  table_of_tests = table;
}

Status check_device(const char* function, Device device) noexcept {
  if (device.kind != Device::Kind::cuda)
    return fail(Errc::invalid_argument, "{}: the device is no CUDA device", function);
  if (device.index < 0 || device.index >= max_devices)
    return fail(Errc::invalid_argument, "{}: device.index is {}, expected 0 to {}", function,
                device.index, max_devices - 1);
  return {};
}

const LoadedDevice* loaded_device(Device device) noexcept {
  return loaded[device.index].load(std::memory_order_acquire);
}

Result<DeviceFacts> device_facts(const char* function, Device device) noexcept {
  if (Status s = check_device(function, device); !s.is_ok()) return s;
  if (const LoadedDevice* const known = loaded_device(device); known != nullptr)
    return known->facts;
  return read_device_facts(function, device);
}

Result<DeviceFacts> read_device_facts(const char* function, Device device) noexcept {
  const Result<Found> found = find(function, device);
  if (!found) return found.error();
  if (Status s = check_kernels(function, device, found->facts); !s.is_ok()) return s;
  return found->facts;
}

Status load_kernels(const char* function, Device device) noexcept {
  if (Status s = check_device(function, device); !s.is_ok()) return s;
  if (loaded_device(device) != nullptr) return {};
  const Result<Found> found = find(function, device);
  if (!found) return found.error();
  if (Status s = check_kernels(function, device, found->facts); !s.is_ok()) return s;
  const std::lock_guard lock(loading);
  if (loaded_device(device) != nullptr) return {};
  Result<std::unique_ptr<const LoadedDevice>> result = load(function, *found);
  if (!result) return result.error();
  owned[device.index] = std::move(*result);
  loaded[device.index].store(owned[device.index].get(), std::memory_order_release);
  return {};
}

}  // namespace folio::cuda
