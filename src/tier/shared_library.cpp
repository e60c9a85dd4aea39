// SPDX-License-Identifier: Apache-2.0
/// src/tier/shared_library.cpp: libraries by dlopen.
#include "tier/shared_library.h"

#include <dlfcn.h>

#include <utility>

namespace folio::inline v1::tier {

SharedLibrary::SharedLibrary(std::string path)
    : path_(std::move(path)), handle_(::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) fault_ = ::dlerror();
}

void* SharedLibrary::look_up(const std::string& name) const noexcept {
  // nullptr would look into what the process itself has
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, name.c_str());
}

void SharedLibrary::close() noexcept {
  if (handle_ != nullptr) ::dlclose(handle_);
  handle_ = nullptr;
}

}  // namespace folio::inline v1::tier
