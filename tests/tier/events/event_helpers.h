// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/event_helpers.h: sockets that a test may have, and what an index says.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "folio/tier/event_subscriber.h"
#include "support/comes_true.h"
#include "support/temporary_folder.h"

namespace folio::test {

/// An endpoint of ZeroMQ.
inline std::string socket_in(const TemporaryFolder& folder, const std::string& name) {
  return "ipc://" + folder.path(name);
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
