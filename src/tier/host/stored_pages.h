// SPDX-License-Identifier: Apache-2.0
/// tier/host/stored_pages.h: pages by name, and which of them goes first. Externally synchronised.
///
/// A page that continues one that is gone cannot be found, so of a prefix the end goes before the
/// beginning: the page that goes is the one used longest ago of the *leaves*, those that no page
/// there continues. A page that somebody holds goes only where it is dropped, and is no leaf.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "folio/tier/medium.h"
#include "tier/device/host_blocks.h"
#include "tier/payload.h"

namespace folio::inline v1::tier {

/// What a page's checksum says of the bytes that lie there.
enum class Soundness : uint8_t { unknown, sound, corrupt };

struct Stored {
  PageName name;
  std::optional<PageName> parent = {};  ///< of the page that it continues, if it is known
  PayloadHeader header = {};
  HostBlock bytes = {};
  mutable std::atomic<Soundness> soundness = Soundness::unknown;  ///< as it was first held
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
  /// The page used longest ago goes, but not `kept`. False: there is none.
  bool remove_oldest(const std::optional<PageName>& kept = {}) noexcept;
  /// Makes room. `full` where all that is left is what the page continues. Throws std::bad_alloc;
  /// nothing has changed then.
  [[nodiscard]] TierOutcome put(Page page);
  void drop(const PageName& name) noexcept;
  /// As `use`; it stays until it is given back.
  [[nodiscard]] Page hold(const PageName& name) noexcept;
  /// Nothing for a page that was dropped, whatever has its name since.
  void give_back(const Page& page) noexcept;
  [[nodiscard]] std::vector<PageName> names() const;
  void count(TierFigures& figures) const noexcept;

 private:
  struct Entry;
  using Leaves = std::map<uint64_t, Entry*>;  ///< by `Entry::used`
  struct Entry {
    Page page;
    uint64_t used = 0;
    bool is_held = false;
    Leaves::node_type place = {};  ///< in `leaves_`, of an entry that is not there
  };
  using Entries = std::map<PageName, Entry>;

  static int64_t room_of(const Stored& page) {
    return page.header.bytes + static_cast<int64_t>(sizeof(PayloadHeader));
  }
  void join_leaves(Entry& entry) noexcept;  ///< unless it is continued, or held
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
