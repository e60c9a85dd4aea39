// SPDX-License-Identifier: Apache-2.0
/// tier/shared_library.h: a library loaded at run time, and its functions by their names.
#pragma once

#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/core/status.h"

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

/// The functions of one library, looked up when the first asks for them and kept until the process
/// ends. `LookUp` fills them and returns what is amiss; empty: nothing. Thread safe.
template <class Functions, std::string (*LookUp)(Functions&)>
class LibraryOnce {
 public:
  /// Errors: `code` where something is amiss: "CALL: MISSING: what"
  [[nodiscard]] static Status load(const char* call, const char* missing,
                                   Errc code = Errc::unsupported) noexcept {
    try {
      if (once().fault.empty()) return {};
      return fail(code, "{}: {}: {}", call, missing, std::string_view(once().fault));
    } catch (const std::bad_alloc&) {
      return fail(Errc::out_of_memory, "{}: no memory", call);
    }
  }
  /// To be called behind a `load` that has succeeded.
  [[nodiscard]] static const Functions& functions() noexcept { return once().functions; }

 private:
  struct Loaded {
    Functions functions;
    std::string fault = LookUp(functions);
  };
  [[nodiscard]] static const Loaded& once() {
    static const Loaded loaded;
    return loaded;
  }
};

/// What pip has put into `folder` beside the package that folio is in: the files whose names begin
/// so. Where folio is in no package of Python, there are none.
[[nodiscard]] std::vector<std::string> files_of_pip(std::string_view folder,
                                                    std::string_view beginning);

}  // namespace folio::inline v1::tier
