// SPDX-License-Identifier: Apache-2.0
/// tier/shared_library.h: a library loaded at run time, and its functions by their names.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace folio::inline v1::tier {

/// Stays loaded until the process ends, unless it is closed.
class SharedLibrary {
 public:
  /// `path` is the loader's: a file, or a name that it looks for.
  explicit SharedLibrary(std::string path) : SharedLibrary(std::vector{std::move(path)}) {}
  /// The first of these that can be loaded.
  explicit SharedLibrary(const std::vector<std::string>& paths);

  template <class Function>
  void find(const std::string& name, Function* function) {
    *function = reinterpret_cast<Function>(look_up(name));
    if (*function == nullptr && fault_.empty()) fault_ = path_ + ": it has no " + name;
  }
  /// nullptr where it has none, which is no fault.
  template <class Function>
  void find_if_there(const std::string& name, Function* function) {
    *function = reinterpret_cast<Function>(look_up(name));
  }
  /// Why none is loaded, or the first function that it lacks; empty: neither.
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }
  /// What was found must not be called any more.
  void close() noexcept;

 private:
  [[nodiscard]] void* look_up(const std::string& name) const noexcept;

  std::string path_;
  void* handle_ = nullptr;
  std::string fault_;
};

/// What pip has put into `folder` beside the package that folio is in: the files whose names begin
/// so. Where folio is in no package of Python, there are none.
[[nodiscard]] std::vector<std::string> files_of_pip(std::string_view folder,
                                                    std::string_view beginning);

}  // namespace folio::inline v1::tier
