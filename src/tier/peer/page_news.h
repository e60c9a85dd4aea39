// SPDX-License-Identifier: Apache-2.0
/// tier/peer/page_news.h: what clients of a page server are told: which names come and go.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "folio/tier/transport.h"
#include "tier/peer/page_message.h"

namespace folio::inline v1::tier {

class PageNews {
 public:
  explicit PageNews(Transport* transport) noexcept : transport_(transport) {}
  /// The client hears of all these, and of what happens from then on. Throws bad_alloc, as `tell`.
  void subscribe(PeerId client, std::span<const PageName> names);
  /// `index` or `gone`.
  void tell(PageMessageKind kind, const PageName& name);
  /// Sends what has been told. A client that cannot be sent everything is disconnected: it must not
  /// take what it knows for all there is.
  void send();
  void forget_lost() noexcept;

 private:
  using List = std::vector<std::pair<PageMessageKind, PageName>>;
  [[nodiscard]] Status send(PeerId client, const List& list);

  Transport* transport_;
  std::map<PeerId, List> clients_;
};

/// Whether the peer has gone, or is none.
[[nodiscard]] bool is_lost(const Transport& transport, PeerId peer) noexcept;

}  // namespace folio::inline v1::tier
