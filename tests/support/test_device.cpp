// SPDX-License-Identifier: Apache-2.0
/// tests/support/test_device.cpp: the device of the tests, by the environment.
#include "support/test_device.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "attention/device.h"
#include "cuda/emulated_table.h"

namespace folio::test {

Device test_device() {
  static const bool is_cuda = [] {
    const char* const name = std::getenv("FOLIO_TEST_DEVICE");
    if (name == nullptr || std::string_view(name) == "cpu") return false;
    if (std::string_view(name) == "cuda") {
      use_emulated_kernels();
      return true;
    }
    std::fprintf(stderr, "FOLIO_TEST_DEVICE is \"%s\", expected cpu or cuda\n", name);
    std::abort();
  }();
  return {is_cuda ? Device::Kind::cuda : Device::Kind::cpu, 0};
}

Capabilities test_capabilities() {
  static const Capabilities capabilities = [] {
    const Result<Capabilities> found = capabilities_of("test_capabilities", test_device());
    if (found) return *found;
    std::fprintf(stderr, "%s\n", std::string(found.error().message()).c_str());
    std::abort();
  }();
  return capabilities;
}

Status synchronise_test_device() {
  if (test_device().kind == Device::Kind::cpu) return {};
  using Synchronise = int();
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  static auto* const synchronise =
      driver == nullptr ? nullptr
                        : reinterpret_cast<Synchronise*>(dlsym(driver, "cuCtxSynchronize"));
  if (synchronise == nullptr) return fail(Errc::device, "no cuCtxSynchronize");
  const int result = synchronise();
  return result == 0 ? Status() : fail(Errc::device, "cuCtxSynchronize answers {}", result);
}

}  // namespace folio::test
