// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/event_helpers.h: sockets that a test may have, and what an index says.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "folio/tier/event_subscriber.h"

namespace folio::test {

/// A folder of the test's own, gone with it.
class Folder {
 public:
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "folio_events.XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string path(std::string_view name) const {
    return path_ + "/" + std::string(name);
  }
  [[nodiscard]] std::string socket(std::string_view name) const { return "ipc://" + path(name); }

 private:
  std::string path_;
};

/// Until `holds`, or for so long that something hangs.
template <class Condition>
[[nodiscard]] bool comes_true(Condition holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(240);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Name -> where it is.
using Contents = std::map<PageName, std::set<std::string>>;

inline Contents contents_of(const EventIndex& index) {
  struct Copy {
    const EventIndex& index;
    Contents contents = {};
  } copy{index};
  index.visit(
      [](void* self, const IndexedName& name) noexcept {
        auto& to = *static_cast<Copy*>(self);
        for (int32_t i = 0; i < to.index.num_media(); ++i)
          if ((name.media >> i & 1) != 0)
            to.contents[name.name].insert(std::string(to.index.medium(i)));
      },
      &copy);
  return copy.contents;
}

}  // namespace folio::test
