// SPDX-License-Identifier: Apache-2.0
/// src/tier/shared_library.cpp: libraries by dlopen.
#include "tier/shared_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace folio::inline v1::tier {

SharedLibrary::SharedLibrary(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    path_ = path;
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      fault_.clear();
      return;
    }
    if (!fault_.empty()) fault_ += "; ";
    fault_ += ::dlerror();
  }
}

void* SharedLibrary::look_up(const std::string& name) const noexcept {
  // nullptr would look into what the process itself has
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, name.c_str());
}

void SharedLibrary::close() noexcept {
  if (handle_ != nullptr) ::dlclose(handle_);
  handle_ = nullptr;
}

std::vector<std::string> files_of_pip(std::string_view folder, std::string_view beginning) {
  Dl_info own = {};
  if (::dladdr(reinterpret_cast<const void*>(&files_of_pip), &own) == 0 || own.dli_fname == nullptr)
    return {};
  const auto packages = std::filesystem::path(own.dli_fname).parent_path().parent_path();
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(packages / folder, error), end; at != end;
       at.increment(error))
    if (at->path().filename().string().starts_with(beginning)) files.push_back(at->path().string());
  std::ranges::sort(files);
  return files;
}

}  // namespace folio::inline v1::tier
