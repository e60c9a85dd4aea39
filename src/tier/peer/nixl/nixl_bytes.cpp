// SPDX-License-Identifier: Apache-2.0
/// tier/peer/nixl/nixl_bytes.cpp: what transfers move.
#include "tier/peer/nixl/nixl_wire.h"

namespace folio::inline v1::tier {
namespace {

constexpr size_t most_pieces = 2048;  ///< of one of NIXL's writes
constexpr int64_t most_bytes = int64_t{32} << 20;
constexpr size_t most_writes = 4;  ///< of a link, at a time

}  // namespace

Result<bool> NixlWire::push_some(Link& link) {
  if (link.pushes.empty()) return false;
  const auto ended = look_at_writes(link);
  if (!ended) return ended.error();
  const auto begun = begin_writes(link);
  if (!begun) return begun.error();
  settle(link);
  return *ended || *begun;
}

Result<bool> NixlWire::begin_writes(Link& link) {
  bool is_any = false;
  for (Push& push : link.pushes) {
    while (link.writes.size() < most_writes && !push.is_dropped && !push.pieces.is_at_end()) {
      std::vector<NixlPiece> pieces;
      int64_t bytes = 0;
      while (pieces.size() < most_pieces && bytes < most_bytes && !push.pieces.is_at_end()) {
        const Piece piece = push.pieces.next(most_bytes - bytes);
        const uint64_t here = link.own.find(piece.here, piece.bytes);
        const uint64_t there = link.theirs.find(piece.there, piece.bytes);
        if (here == 0 || there == 0) return protocol_fault("memory that it does not have");
        pieces.push_back({piece.here, piece.there, piece.bytes, here, there});
        bytes += piece.bytes;
      }
      const auto request = link.agent->begin_write(link.other, pieces);
      if (!request) return request.error();
      link.writes.push_back({*request, &push});
      ++push.writes;
      is_any = true;
    }
  }
  return is_any;
}

Result<bool> NixlWire::look_at_writes(Link& link) {
  bool is_any = false;
  for (size_t i = 0; i < link.writes.size();) {
    const Write write = link.writes[i];
    const auto is_done = link.agent->look(write.request);
    if (!is_done) return is_done.error();
    if (!*is_done) {
      ++i;
      continue;
    }
    link.agent->drop(write.request);
    link.writes.erase(link.writes.begin() + static_cast<ptrdiff_t>(i));
    --write.push->writes;
    is_any = true;
    link.heard = Clock::now();
    book_.heard(link.peer);
  }
  return is_any;
}

void NixlWire::settle(Link& link) {
  for (auto at = link.pushes.begin(); at != link.pushes.end();) {
    if (at->writes > 0 || (!at->is_dropped && !at->pieces.is_at_end())) {
      ++at;
      continue;
    }
    finish(link, *at);
    at = link.pushes.erase(at);
  }
}

/// All of it is there, or no more of it comes.
void NixlWire::finish(Link& link, const Push& push) {
  const bool is_done = push.pieces.is_at_end();
  if (!push.is_own) {
    put(link, {.kind = FrameKind::ended,
               .outcome = is_done ? TransferState::done : TransferState::cancelled,
               .transfer = push.transfer});
    return book_.unpin(push.runs);
  }
  const TransferId id{push.transfer};
  const auto found = asked_.find(id);
  if (found == asked_.end()) return;
  Frame frame{.kind = is_done ? FrameKind::fetched : FrameKind::dropped, .transfer = push.transfer};
  if (is_done) frame.bytes = found->second.transfer->message;
  put(link, frame);
  asked_.erase(found);
  book_.ended(id, is_done ? TransferState::done : TransferState::cancelled);
}

}  // namespace folio::inline v1::tier
