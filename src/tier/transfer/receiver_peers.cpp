// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/receiver_peers.cpp: senders that say hello, and what their layers are like.
#include <string>
#include <utility>

#include "folio/cache/copy.h"
#include "tier/transfer/receiver.h"

namespace folio::inline v1::tier {

/// Whether copies can make our pages of the sender's.
Status HandoverReceiver::State::check_sender(const Layout& sender, const Bundles& bundles) {
  for (size_t layer = 0; layer < own.layout.num_layers(); ++layer) {
    const Bundle* const bundle = bundles.of_layer(layer);
    if (bundle == nullptr) continue;
    const Geometry theirs = sender.at(layer), ours = own.layout.at(layer);
    const SlotLayout slot = slot_layout(theirs, bundle->heads.count);
    const bool needs_slot = !theirs.is_state() || !bundle->is_direct;
    if (needs_slot && slot.bytes > staging.slot_bytes())
      return fail(Errc::unsupported,
                  "a piece takes {} bytes, expected at most {} "
                  "(staging_slot_bytes)",
                  slot.bytes, staging.slot_bytes());
    if (theirs.is_state()) continue;
    // Without copies, a call only checks.
    const KVPlanes to =
        with_heads(own.planes[layer], bundle->heads.first - ours.first_head, bundle->heads.count);
    const KVPlanes from = planes_in_slot(theirs, bundle->heads.count, staging.memory(), to, ours);
    Status s = theirs.page_size == ours.page_size
                   ? copy_pages({&from, 1}, {&to, 1}, {}, options.executor)
                   : copy_slots({&from, 1}, {&to, 1}, {}, options.executor);
    if (!s.is_ok()) return s;
  }
  return {};
}

void HandoverReceiver::State::refuse_peer(PeerId id, const Status& why) {
  Peer& peer = peers[id];
  peer.is_refused = true;
  ++figures.refused_peers;
  fault = why;
  static_cast<void>(outbox.send(id, Unwelcome{.reason = std::string(why.message())}));
}

void HandoverReceiver::State::take(PeerId from, const Hello& hello) {
  const uint32_t version = has_groups ? groups_version : wire_version;
  if (hello.version != version)
    return refuse_peer(from, fail(Errc::unsupported,
                                  "the sender has version {}, expected {}: TransferEnd::groups are "
                                  "given on both ends or on none",
                                  hello.version, version));
  Peer& peer = peers[from];
  if (has_groups) return;  // they come next
  Status s = check_geometry(hello.geometry);
  if (s.is_ok()) s = check_pair(hello.geometry, own.layout.groups[0].pages);
  if (!s.is_ok()) return refuse_peer(from, s);
  peer.layout = layout_of(hello.geometry);
  welcome(from, peer);
}

void HandoverReceiver::State::take(PeerId from, Groups& groups) {
  if (Status s = check_layout(groups.layout); !s.is_ok()) return refuse_peer(from, s);
  Peer& peer = peers.at(from);
  peer.layout = std::move(groups.layout);
  welcome(from, peer);
}

/// A peer whose layers are ones that there can be, or its refusal.
void HandoverReceiver::State::welcome(PeerId id, Peer& peer) {
  const bool may_be_direct = options.landing == Landing::direct;
  Result<Bundles> bundles = bundles_of(peer.layout, own.layout, may_be_direct);
  Status s = bundles ? check_sender(peer.layout, *bundles) : bundles.error();
  if (!s.is_ok()) return refuse_peer(id, s);
  peer.bundles = std::move(*bundles);
  peer.is_known = true;
  const StagingPlace place{
      .region = staging.region().value, .slots = staging.slots(), .stride = staging.slot_bytes()};
  if (has_groups) {
    s = outbox.send(id, WelcomeGroups{.layout = own.layout,
                                      .may_be_direct = static_cast<uint8_t>(may_be_direct),
                                      .places = places,
                                      .staging = place});
  } else {
    const bool is_direct = peer.bundles.has(true);
    Welcome welcome{.is_direct = static_cast<uint8_t>(is_direct), .staging = place};
    welcome.geometry = own.layout.groups[0].pages;
    if (is_direct) welcome.places = places;
    s = outbox.send(id, welcome);
  }
  if (!s.is_ok()) cut_off_peer(id);
}

}  // namespace folio::inline v1::tier
