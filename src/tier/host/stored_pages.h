// SPDX-License-Identifier: Apache-2.0
/// tier/host/stored_pages.h: pages by name, and which of them goes first. Externally synchronised.
///
/// A page that continues one that is gone cannot be found, so of a prefix the end goes before the
/// beginning: the page that goes is the one used longest ago of the *leaves*, those that no page
/// there continues.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "folio/tier/medium.h"
#include "tier/device/host_blocks.h"
#include "tier/payload.h"

namespace folio::inline v1::tier {

struct Stored {
  PageName name;
  std::optional<PageName> parent = {};  ///< of the page that it continues, if it is known
  PayloadHeader header = {};
  HostBlock bytes = {};
};

class StoredPages {
 public:
  using Page = std::shared_ptr<const Stored>;  ///< stays while it is read

  /// Of pages with their headers. `observer` is told what comes and goes.
  StoredPages(int64_t max_bytes, const TierObserver& observer)
      : max_bytes_(max_bytes), observer_(observer) {}

  [[nodiscard]] bool has(const PageName& name) const { return entries_.contains(name); }
  /// Null, or the page, which is the one used last from now on.
  [[nodiscard]] Page use(const PageName& name) noexcept;
  /// Makes room. `full` where all that is left is what the page continues. Throws std::bad_alloc;
  /// nothing has changed then.
  [[nodiscard]] TierOutcome put(Page page);
  void drop(const PageName& name) noexcept;
  [[nodiscard]] std::vector<PageName> names() const;
  void count(TierFigures& figures) const noexcept;

 private:
  struct Entry;
  using Leaves = std::map<uint64_t, Entry*>;  ///< by `Entry::used`
  struct Entry {
    Page page;
    uint64_t used = 0;
    Leaves::node_type place = {};  ///< in `leaves_`, of an entry that is not there
  };
  using Entries = std::map<PageName, Entry>;

  static int64_t room_of(const Stored& page) {
    return page.header.bytes + static_cast<int64_t>(sizeof(PayloadHeader));
  }
  void join_leaves(Entry& entry) noexcept;
  void leave_leaves(Entry& entry) noexcept;
  void unlink(const Stored& page) noexcept;  ///< from what it continues
  void remove(Entry& entry) noexcept;

  const int64_t max_bytes_;
  const TierObserver observer_;
  Entries entries_;
  Leaves leaves_;
  /// how many pages that are there continue a page, which may be there or not
  std::map<PageName, int64_t> continued_;
  uint64_t clock_ = 0;
  int64_t bytes_ = 0, dropped_ = 0;
};

}  // namespace folio::inline v1::tier
