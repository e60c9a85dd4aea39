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

int32_t HandoverSender::State::tokens_of(const Outgoing& h, int32_t page) const {
  return std::min(geometry.page_size,
                  static_cast<int32_t>(h.tokens.size()) - page * geometry.page_size);
}

bool HandoverSender::State::is_ready(const Outgoing& h, size_t layer) const {
  const int32_t page = h.next[layer];
  return page < h.end_page && page * geometry.page_size + tokens_of(h, page) <= h.ready[layer];
}

int64_t HandoverSender::State::ready_pieces(const Outgoing& h) const {
  int64_t count = 0;
  for (size_t layer = 0; layer < planes.size(); ++layer) {
    const bool is_whole = std::ssize(h.tokens) == h.ready[layer];
    const int32_t end = is_whole ? h.end_page : h.ready[layer] / geometry.page_size;
    count += std::max(end - h.next[layer], 0);
  }
  return count;
}

bool HandoverSender::State::hold(Outgoing& h, int32_t page) {
  Page& p = h.pages[static_cast<size_t>(page - h.first_page)];
  if (p.is_held) return true;
  const Result<IoPin> pin = pool.begin_io(h.sequence, page);
  if (!pin) {
    if (pin.error().code() != Errc::busy) h.end.reason = pin.error();
    return false;
  }
  p.pin = *pin;
  p.page = *pool.page_of(*pin);
  p.is_held = true;
  return true;
}

/// Returns the piece's bytes, whose checksum it notes.
int64_t HandoverSender::State::add_piece(const Link& link, const Outgoing& h, size_t layer,
                                         LandedPiece& piece, std::vector<RegionRun>& local,
                                         std::vector<RegionRun>& remote) {
  const auto of_layer = std::span(places).subspan(layer * num_sections, num_sections);
  const size_t index = piece.page - static_cast<uint32_t>(h.first_page);
  const int32_t tokens = tokens_of(h, static_cast<int32_t>(piece.page));
  add_piece_runs(geometry, of_layer,
                 {.page = h.pages[index].page,
                  .head = link.heads.first - geometry.first_head,
                  .heads = link.heads.count,
                  .tokens = tokens},
                 local);
  if (link.is_direct) {
    add_piece_runs(geometry, std::span(link.places).subspan(layer * num_sections, num_sections),
                   {.page = h.remote_pages[index],
                    .head = link.heads.first - link.geometry.first_head,
                    .heads = link.heads.count,
                    .tokens = tokens},
                   remote);
  } else {
    const auto base = static_cast<uint64_t>(link.staging.base) +
                      uint64_t{piece.slot} * static_cast<uint64_t>(link.staging.stride);
    add_piece_runs(
        geometry,
        places_in_slot(geometry, link.heads.count, link.staging.region, static_cast<int64_t>(base)),
        {.heads = link.heads.count, .tokens = tokens}, remote);
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
  Post post{.id = id, .landed = {.id = id, .layer = static_cast<uint32_t>(layer)}};
  std::vector<RegionRun> local, remote, local_piece, remote_piece;
  size_t slots = h.slots.size();
  const int32_t before = h.next[layer];
  while (is_ready(h, layer) && (link.is_direct || slots != 0) && hold(h, h.next[layer])) {
    LandedPiece piece{.page = static_cast<uint32_t>(h.next[layer])};
    if (!link.is_direct) piece.slot = h.slots[slots - 1];
    local_piece.clear(), remote_piece.clear();
    const int64_t bytes = add_piece(link, h, layer, piece, local_piece, remote_piece);
    if (!local.empty() && post.bytes + bytes > options.post_bytes) break;
    local.insert(local.end(), local_piece.begin(), local_piece.end());
    remote.insert(remote.end(), remote_piece.begin(), remote_piece.end());
    post.landed.pieces.push_back(piece);
    post.bytes += bytes;
    if (!link.is_direct) --slots;
    ++h.next[layer];
  }
  if (post.landed.pieces.empty()) return Posted::not_now;
  const Result<TransferId> transfer =
      transport.post({.peer = h.peer, .local = local, .remote = remote});
  if (!transfer) {
    h.next[layer] = before;
    if (transfer.error().code() != Errc::busy) h.end.reason = transfer.error();
    return Posted::not_now;
  }
  h.slots.resize(slots);
  post.transfer = *transfer;
  ++h.posts;
  posts.push_back(std::move(post));
  return Posted::yes;
}

void HandoverSender::State::want_slots(uint64_t id, Outgoing& h) {
  const uint32_t open = h.wanted_slots - h.got_slots + static_cast<uint32_t>(h.slots.size());
  const auto wished = static_cast<uint32_t>(std::min<int64_t>(ready_pieces(h), max_open_slots));
  if (wished <= open) return;
  h.wanted_slots += wished - open;
  static_cast<void>(outbox.send(h.peer, Want{.id = id, .slots = h.wanted_slots}));
}

void HandoverSender::State::send_done(uint64_t id, Outgoing& h) {
  Done done{.id = id,
            .pieces = h.pages.size() * planes.size(),
            .num_tokens = static_cast<uint32_t>(h.tokens.size()),
            .token_crc = crc_of_tokens(h.tokens),
            .output = h.output};
  done.is_named = static_cast<uint8_t>(
      last_name(options.end.name,
                {.tokens = h.tokens, .spans = h.spans, .salt = h.salt, .adapter = h.adapter},
                links.at(h.peer).geometry.page_size, done.name));
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
  for (size_t layer = 0; layer < planes.size() && h.end.reason.is_ok(); ++layer)
    while (posts.size() < options.max_posts && post_layer(id, h, layer) == Posted::yes) {}
  if (!h.end.reason.is_ok()) return end(id, h, failure_of(h.peer), h.end.reason);
  if (!links.at(h.peer).is_direct) want_slots(id, h);
  if (h.is_finished && h.open_pieces == 0) send_done(id, h);
}

void HandoverSender::State::landed(const Post& post, Outgoing& h) {
  for (const LandedPiece& piece : post.landed.pieces) {
    Page& page = h.pages[piece.page - static_cast<uint32_t>(h.first_page)];
    if (--page.open_layers == 0) {
      static_cast<void>(pool.end_io(page.pin));
      page.is_held = false;
    }
  }
  const auto pieces = std::ssize(post.landed.pieces);
  h.open_pieces -= pieces;
  figures.sent_pieces += pieces;
  figures.sent_bytes += post.bytes;
  h.heard_ms = now_ms;
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
