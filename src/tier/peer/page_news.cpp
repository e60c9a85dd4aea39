// SPDX-License-Identifier: Apache-2.0
/// tier/peer/page_news.cpp: names that wait to be told, by client.
#include "tier/peer/page_news.h"

namespace folio::inline v1::tier {

bool is_lost(const Transport& transport, PeerId peer) noexcept {
  const auto state = transport.peer_state(peer);
  return !state || *state == PeerState::lost;
}

void PageNews::subscribe(PeerId client, std::span<const PageName> names) {
  List list;
  list.reserve(names.size());
  for (const PageName& name : names) list.emplace_back(PageMessageKind::index, name);
  clients_[client] = std::move(list);
}

void PageNews::tell(PageMessageKind kind, const PageName& name) {
  for (auto& [client, list] : clients_) list.emplace_back(kind, name);
}

Status PageNews::send(PeerId client, const List& list) {
  constexpr size_t most_names = 8192;
  for (size_t first = 0; first < list.size();) {
    PageMessage message{.kind = list[first].first};
    for (; first < list.size() && list[first].first == message.kind &&
           message.names.size() < most_names;
         ++first)
      message.names.push_back(list[first].second);
    if (Status s = transport_->send(client, encode(message)); !s.is_ok()) return s;
  }
  return {};
}

void PageNews::send() {
  for (auto at = clients_.begin(); at != clients_.end();) {
    const Status sent = send(at->first, at->second);
    at->second.clear();
    if (!sent.is_ok()) (void)transport_->disconnect(at->first);
    at = sent.is_ok() ? std::next(at) : clients_.erase(at);
  }
}

void PageNews::forget_lost() noexcept {
  std::erase_if(clients_, [&](const auto& entry) { return is_lost(*transport_, entry.first); });
}

}  // namespace folio::inline v1::tier
