// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/sender_writes.cpp: pieces of pages that are complete, on their way.
#include <algorithm>

#include "tier/payload.h"
#include "tier/transfer/names.h"
#include "tier/transfer/sender.h"

namespace folio::inline v1::tier {

namespace {

/// Slots that a handover may have asked for and not written to.
constexpr uint32_t max_open_slots = 32;

}  // namespace

bool HandoverSender::State::is_ready(const Outgoing& h, size_t layer, const Page& page) const {
  const GroupLayout& group = layout.of(layer);
  const auto tokens = static_cast<int32_t>(h.tokens.size());
  if (group.is_state()) return h.ready[layer] == tokens;
  const int64_t end = (int64_t{page.entry} + 1) * group.page_tokens;
  return std::min<int64_t>(end, tokens) <= h.ready[layer];
}

/// Pieces that are ready, and for slots.
int64_t HandoverSender::State::waiting_pieces(const Outgoing& h) const {
  const Bundles& bundles = links.at(h.peer).bundles;
  int64_t count = 0;
  for (size_t layer = 0; layer < num_layers(); ++layer) {
    const Bundle* const bundle = bundles.of_layer(layer);
    if (bundle == nullptr || bundle->is_direct) continue;
    const std::vector<Page>& pages = h.pages[static_cast<size_t>(bundles.of[layer])];
    const auto first = pages.begin() + static_cast<std::ptrdiff_t>(h.next[layer]);
    count += std::partition_point(first, pages.end(),
                                  [&](const Page& page) { return is_ready(h, layer, page); }) -
             first;
  }
  return count;
}

/// In the row, or where a window has left it: cached beside its leading page.
Result<IoPin> HandoverSender::State::pin(const Outgoing& h, const Bundle& bundle,
                                         const Page& page) {
  const GroupLayout& group = layout.groups[bundle.from];
  const Result<int32_t> length = pool.length(h.sequence);
  if (!length) return length.error();
  if (group.is_state() && *length > std::ssize(h.tokens))
    return fail(Errc::invalid_argument,
                "the sequence has gone on to {} tokens: the state behind {} is no more", *length,
                h.tokens.size());
  const uint32_t in_pool = pool_group[bundle.from];
  Result<IoPin> pin = pool.begin_io(h.sequence, page.entry, in_pool);
  if (pin || pin.error().code() == Errc::busy || group.is_state() || in_pool == 0) return pin;
  Result<IoPin> cached = pool.begin_companion_io(h.sequence, page.entry, in_pool);
  return cached || cached.error().code() == Errc::busy ? cached : pin;
}

bool HandoverSender::State::hold(Outgoing& h, const Bundle& bundle, Page& page) {
  if (page.is_held) return true;
  const Result<IoPin> pin = this->pin(h, bundle, page);
  if (!pin) {
    if (pin.error().code() != Errc::busy)
      h.end.reason = fail(pin.error().code(), "HandoverSender: page {} of group {} is gone: {}",
                          page.entry, bundle.from, pin.error().message());
    return false;
  }
  page.pin = *pin;
  page.page = *pool.page_of(*pin);
  page.is_held = true;
  return true;
}

/// Pages that the sender's rule gives up: as soon as they are complete in some layer.
void HandoverSender::State::hold_passing(Outgoing& h) {
  const Bundles& bundles = links.at(h.peer).bundles;
  std::erase_if(h.passing, [&](const std::pair<size_t, size_t>& at) {
    Page& page = h.pages[at.first][at.second];
    for (size_t layer = 0; layer < num_layers(); ++layer)
      if (bundles.of[layer] == static_cast<int32_t>(at.first) && is_ready(h, layer, page))
        return hold(h, bundles.all[at.first], page);
    return false;
  });
}

/// Returns the piece's bytes, whose checksum it notes.
int64_t HandoverSender::State::add_piece(const Link& link, const Outgoing& h, size_t layer,
                                         const Page& page, LandedPiece& piece,
                                         std::vector<RegionRun>& local,
                                         std::vector<RegionRun>& remote) {
  const auto at_layer = [layer](std::span<const Place> of) {
    return of.subspan(layer * num_sections, num_sections);
  };
  const Bundle& bundle = *link.bundles.of_layer(layer);
  const GroupLayout& group = layout.groups[bundle.from];
  const int32_t tokens = tokens_of(group, page.entry, static_cast<int32_t>(h.tokens.size()));
  add_piece_runs(group.pages, at_layer(places),
                 {.page = page.page,
                  .head = bundle.heads.first - group.pages.first_head,
                  .heads = bundle.heads.count,
                  .tokens = tokens},
                 local);
  if (bundle.is_direct) {
    add_piece_runs(group.pages, at_layer(link.places),
                   {.page = page.remote,
                    .head = bundle.heads.first - link.layout.groups[bundle.to].pages.first_head,
                    .heads = bundle.heads.count,
                    .tokens = tokens},
                   remote);
  } else {
    const auto base = static_cast<uint64_t>(link.staging.base) +
                      uint64_t{piece.slot} * static_cast<uint64_t>(link.staging.stride);
    add_piece_runs(group.pages,
                   places_in_slot(group.pages, bundle.heads.count, link.staging.region,
                                  static_cast<int64_t>(base)),
                   {.heads = bundle.heads.count, .tokens = tokens}, remote);
  }
  int64_t bytes = 0;
  for (const RegionRun& run : local) {
    const auto region = std::ranges::find(regions, run.region, &TransferRegion::id);
    piece.crc = extend_crc(piece.crc, region->memory.data() + run.offset, run.bytes);
    bytes += run.bytes;
  }
  return bytes;
}

/// One write, of pages of a layer.
HandoverSender::State::Posted HandoverSender::State::post_layer(uint64_t id, Outgoing& h,
                                                                size_t layer) {
  const Link& link = links.at(h.peer);
  const Bundle* const bundle = link.bundles.of_layer(layer);
  if (bundle == nullptr) return Posted::not_now;
  std::vector<Page>& pages = h.pages[static_cast<size_t>(link.bundles.of[layer])];
  Post post{.id = id, .landed = {.id = id, .layer = static_cast<uint32_t>(layer)}};
  std::vector<RegionRun> local, remote, local_piece, remote_piece;
  size_t slots = h.slots.size(), next = h.next[layer];
  for (; next < pages.size(); ++next) {
    Page& page = pages[next];
    if (!is_ready(h, layer, page) || (!bundle->is_direct && slots == 0) || !hold(h, *bundle, page))
      break;
    LandedPiece piece{.page = static_cast<uint32_t>(page.entry)};
    if (!bundle->is_direct) piece.slot = h.slots[slots - 1];
    local_piece.clear(), remote_piece.clear();
    const int64_t bytes = add_piece(link, h, layer, page, piece, local_piece, remote_piece);
    if (!local.empty() && post.bytes + bytes > options.post_bytes) break;
    local.insert(local.end(), local_piece.begin(), local_piece.end());
    remote.insert(remote.end(), remote_piece.begin(), remote_piece.end());
    post.landed.pieces.push_back(piece);
    post.bytes += bytes;
    if (!bundle->is_direct) --slots;
  }
  if (post.landed.pieces.empty()) return Posted::not_now;
  const Result<TransferId> transfer =
      transport.post({.peer = h.peer, .local = local, .remote = remote});
  if (!transfer) {
    if (transfer.error().code() != Errc::busy) h.end.reason = transfer.error();
    return Posted::not_now;
  }
  h.next[layer] = next;
  h.slots.resize(slots);
  post.transfer = *transfer;
  ++h.posts;
  posts.push_back(std::move(post));
  return Posted::yes;
}

void HandoverSender::State::want_slots(uint64_t id, Outgoing& h) {
  const uint32_t open = h.wanted_slots - h.got_slots + static_cast<uint32_t>(h.slots.size());
  const auto wished = static_cast<uint32_t>(std::min<int64_t>(waiting_pieces(h), max_open_slots));
  if (wished <= open) return;
  h.wanted_slots += wished - open;
  static_cast<void>(outbox.send(h.peer, Want{.id = id, .slots = h.wanted_slots}));
}

void HandoverSender::State::send_done(uint64_t id, Outgoing& h) {
  Done done{.id = id,
            .pieces = static_cast<uint64_t>(h.pieces),
            .num_tokens = static_cast<uint32_t>(h.tokens.size()),
            .token_crc = crc_of_tokens(h.tokens),
            .output = h.output};
  done.is_named = static_cast<uint8_t>(
      last_name(options.end.name,
                {.tokens = h.tokens, .spans = h.spans, .salt = h.salt, .adapter = h.adapter},
                links.at(h.peer).layout.page_size(), done.name));
  h.step = Step::done;
  h.heard_ms = now_ms;
  if (Status s = outbox.send(h.peer, done); !s.is_ok()) end(id, h, failure_of(h.peer), s);
}

void HandoverSender::State::advance(uint64_t id, Outgoing& h) {
  if (h.step == Step::announced) {
    const Link& link = links.at(h.peer);
    if (!link.refusal.is_ok()) end(id, h, HandoverOutcome::refused, link.refusal);
  }
  if (h.step != Step::accepted) return;
  hold_passing(h);
  for (size_t layer = 0; layer < num_layers() && h.end.reason.is_ok(); ++layer)
    while (posts.size() < options.max_posts && post_layer(id, h, layer) == Posted::yes) {}
  if (!h.end.reason.is_ok()) return end(id, h, failure_of(h.peer), h.end.reason);
  if (links.at(h.peer).bundles.has(false)) want_slots(id, h);
  if (h.is_finished && h.open_pieces == 0) send_done(id, h);
}

void HandoverSender::State::landed(const Post& post, Outgoing& h) {
  const Bundles& bundles = links.at(h.peer).bundles;
  std::vector<Page>& pages = h.pages[static_cast<size_t>(bundles.of[post.landed.layer])];
  for (const LandedPiece& piece : post.landed.pieces) {
    Page& page =
        *std::ranges::lower_bound(pages, static_cast<int32_t>(piece.page), {}, &Page::entry);
    if (--page.open_layers == 0) {
      static_cast<void>(pool.end_io(page.pin));
      page.is_held = false;
    }
  }
  const auto pieces = std::ssize(post.landed.pieces);
  h.open_pieces -= pieces;
  figures.sent_pieces += pieces;
  figures.sent_bytes += post.bytes;
  h.heard_ms = h.said_ms = now_ms;
  if (Status s = outbox.send(h.peer, post.landed); !s.is_ok())
    end(post.id, h, failure_of(h.peer), s);
}

void HandoverSender::State::poll_posts() {
  for (auto at = posts.begin(); at != posts.end();) {
    const auto post = at++;
    const Result<TransferState> state = transport.poll(post->transfer);
    if (state && *state == TransferState::pending) continue;
    static_cast<void>(transport.release(post->transfer));
    std::list<Post> over;
    over.splice(over.end(), posts, post);
    Outgoing& h = handovers.at(post->id);
    --h.posts;
    if (h.step == Step::ending) continue;
    if (state && *state == TransferState::done) {
      landed(*post, h);
    } else {
      end(post->id, h, failure_of(h.peer),
          fail(Errc::io, "HandoverSender: a write has failed: {}",
               transport.last_fault().message()));
    }
  }
}

}  // namespace folio::inline v1::tier
