// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/receiver_announcements.cpp: sequences that are announced, and the room for them.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "tier/transfer/receiver.h"

namespace folio::inline v1::tier {

namespace {

/// What another try may change.
bool is_want_of_room(Errc code) {
  return code == Errc::out_of_pages || code == Errc::busy || code == Errc::out_of_memory;
}

/// Undoes something at the end of a scope that is left early or by an exception.
template <class Undo>
struct Unless {
  explicit Unless(Undo what) : undo(std::move(what)) {}
  Unless(const Unless&) = delete;
  Unless& operator=(const Unless&) = delete;
  ~Unless() {
    if (!is_done) undo();
  }
  Undo undo;
  bool is_done = false;
};

}  // namespace

Status HandoverReceiver::State::pin(Incoming& sequence, std::shared_ptr<Pins>& pins) {
  pins = sequence.pins.lock();
  if (pins != nullptr) return {};
  pins = std::make_shared<Pins>(pool);
  size_t most = 0;
  for (const std::vector<uint32_t>& pages : sequence.pages) most += pages.size();
  pins->pins.reserve(most);
  for (uint32_t g = 0; g < sequence.pages.size(); ++g) {
    if (own.is_guest(g)) continue;  // the same pages
    for (size_t entry = 0; entry < sequence.pages[g].size(); ++entry) {
      if (sequence.pages[g][entry] == no_page) continue;
      const Result<IoPin> pin = pool.begin_io(sequence.id, static_cast<int32_t>(entry), g);
      if (!pin) return pin.error();
      pins->pins.push_back(*pin);
    }
  }
  sequence.pins = pins;
  return {};
}

// ---- Room

/// The pages of the run are to be filled.
void HandoverReceiver::State::add_run(Incoming& sequence, TokenRun run) {
  const GroupLayout& group = own.layout.groups[run.group];
  const uint32_t pool_group = own.pool_group[run.group];
  const int64_t row = *pool.row_start(sequence.id, pool_group);
  std::vector<uint32_t>& pages = sequence.pages[run.group];
  for (int32_t p = run.first / group.page_tokens; p < group.pages_for(run.end); ++p)
    pages[static_cast<size_t>(p)] = pool.table(pool_group).entries[row + p];
  TokenRun* const last = sequence.runs.empty() ? nullptr : &sequence.runs.back();
  if (last != nullptr && last->group == run.group && last->end == run.first)
    last->end = run.end;
  else
    sequence.runs.push_back(run);
}

Status HandoverReceiver::State::reserve(Incoming& sequence) {
  const auto tokens = static_cast<int32_t>(sequence.tokens.size());
  Status s = pool.reserve(sequence.id, tokens - sequence.cached_tokens);
  if (s.is_ok()) add_run(sequence, {.first = sequence.cached_tokens, .end = tokens});
  return s;
}

/// Of each group what the token behind the prompt needs, and memory has not.
Status HandoverReceiver::State::reserve_groups(Incoming& sequence) {
  const int32_t page_size = own.layout.page_size();
  const auto tokens = static_cast<int32_t>(sequence.tokens.size());
  const int32_t first = sequence.cached_tokens / page_size;
  std::vector<pool::GroupBits> fill(
      static_cast<size_t>(own.layout.groups[0].pages_for(tokens) - first));
  if (Status s = pool.begin_whole_load(sequence.id, sequence.tokens, fill); !s.is_ok()) return s;
  for (uint32_t g = 0; g < own.layout.groups.size(); ++g) {
    for (size_t i = 0; i < fill.size(); ++i) {
      if ((fill[i] >> own.pool_group[g] & 1) == 0) continue;
      const int32_t begin = (first + static_cast<int32_t>(i)) * page_size;
      const bool is_state = own.layout.groups[g].is_state();
      add_run(sequence, {.group = g,
                         .first = is_state ? tokens - 1 : begin,
                         .end = is_state ? tokens : std::min(begin + page_size, tokens)});
    }
  }
  // pages of a leading group without layers have no bytes to come
  if (std::ranges::find(own.layout.group_of, 0) == own.layout.group_of.end()) {
    std::erase_if(sequence.runs, [](const TokenRun& run) { return run.group == 0; });
    std::ranges::fill(sequence.pages[0], no_page);
  }
  return {};
}

Status HandoverReceiver::State::open(const Announce& announce) {
  const Result<Admission> admission =
      pool.admit(announce.tokens,
                 {.salt = announce.salt, .adapter = announce.adapter, .spans = announce.spans});
  if (!admission) return admission.error();
  Unless done([&] { static_cast<void>(pool.release(admission->id)); });
  Incoming sequence{.id = admission->id,
                    .tokens = announce.tokens,
                    .salt = announce.salt,
                    .adapter = announce.adapter,
                    .spans = announce.spans,
                    .begun_ms = now_ms,
                    .heard_ms = now_ms};
  const auto tokens = static_cast<int32_t>(announce.tokens.size());
  for (const GroupLayout& group : own.layout.groups)
    sequence.pages.emplace_back(static_cast<size_t>(group.pages_for(tokens)), no_page);
  // A hit that ends inside a page is given up: whole pages come. Where a group has no state there,
  // all of the hit is.
  const int32_t page_size = own.layout.page_size();
  sequence.cached_tokens = admission->cached_tokens / page_size * page_size;
  Status s;
  if (sequence.cached_tokens != admission->cached_tokens) {
    s = pool.trim(sequence.id, sequence.cached_tokens, pool::CutItems::kept);
    if (!s.is_ok() && has_groups) {
      sequence.cached_tokens = 0;
      s = pool.trim(sequence.id, 0, pool::CutItems::kept);
    }
  }
  if (s.is_ok()) s = has_groups ? reserve_groups(sequence) : reserve(sequence);
  if (!s.is_ok()) return s;
  sequences.emplace(announce.request, std::move(sequence));
  done.is_done = true;
  return {};
}

/// Another part of a sequence that is on its way.
Status HandoverReceiver::State::join(const Incoming& sequence, const Peer& peer,
                                     const Announce& announce) const {
  const bool is_same = sequence.tokens == announce.tokens && sequence.salt == announce.salt &&
                       sequence.adapter == announce.adapter &&
                       std::ranges::equal(sequence.spans, announce.spans);
  if (!is_same)
    return fail(Errc::invalid_argument, "request {} is on its way with other tokens",
                announce.request);
  for (const PartId& id : sequence.parts) {
    const Bundles& there = peers.at(id.first).bundles;
    for (size_t layer = 0; layer < own.layout.num_layers(); ++layer) {
      const Bundle *const a = there.of_layer(layer), *const b = peer.bundles.of_layer(layer);
      if (a != nullptr && b != nullptr && a->heads.first < b->heads.first + b->heads.count &&
          b->heads.first < a->heads.first + a->heads.count)
        return fail(Errc::invalid_argument, "request {} has a sender of heads {} .. {} already",
                    announce.request, a->heads.first, a->heads.first + a->heads.count - 1);
    }
  }
  return {};
}

void HandoverReceiver::State::refuse(PeerId peer, uint64_t id, const Status& why) {
  const bool is_busy = is_want_of_room(why.code());
  ++(is_busy ? figures.busy : figures.refused);
  fault = why;
  static_cast<void>(outbox.send(
      peer, Abort{.id = id,
                  .code = static_cast<uint8_t>(is_busy ? AbortCode::busy : AbortCode::refused),
                  .reason = std::string(why.message())}));
}

std::vector<uint32_t> HandoverReceiver::State::direct_pages(const Incoming& sequence,
                                                            const Bundles& bundles) const {
  std::vector<uint32_t> pages;
  for (const TokenRun& run : sequence.runs) {
    if (!bundles.is_direct_to(run.group)) continue;
    const auto first =
        sequence.pages[run.group].begin() + run.first / own.layout.groups[run.group].page_tokens;
    pages.insert(pages.end(), first,
                 first + static_cast<std::ptrdiff_t>(num_pages(own.layout, run)));
  }
  return pages;
}

HandoverReceiver::State::Part HandoverReceiver::State::make_part(const Incoming& sequence,
                                                                 const Peer& peer,
                                                                 uint64_t request) const {
  Part part{.request = request, .heard_ms = now_ms};
  const auto tokens = static_cast<int32_t>(sequence.tokens.size());
  for (const Bundle& bundle : peer.bundles.all)
    part.entries.push_back(entries_of(peer.layout, bundle, sequence.runs, tokens));
  part.landed.assign(own.layout.num_layers(), 0);
  for (const int32_t bundle : peer.bundles.of) {
    const size_t pieces = bundle < 0 ? 0 : part.entries[static_cast<size_t>(bundle)].size();
    part.has_landed.emplace_back(pieces, false);
    part.pieces += static_cast<int64_t>(pieces);
  }
  part.open_pieces = part.pieces;
  return part;
}

void HandoverReceiver::State::take(PeerId from, Announce& announce) {
  Peer& peer = peers.at(from);
  if (announce.id <= peer.last_id) return refuse_message(from, "an announcement that was made");
  peer.last_id = announce.id;
  ++figures.announced;
  if (announce.tokens.empty() || std::ssize(announce.tokens) > options.max_tokens)
    return refuse(from, announce.id,
                  fail(Errc::invalid_argument, "the prompt has {} tokens, expected 1 .. {}",
                       announce.tokens.size(), options.max_tokens));
  if (parts.size() >= options.max_handovers)
    return refuse(from, announce.id,
                  fail(Errc::busy, "{} handovers have not ended (max_handovers)", parts.size()));
  const auto known = sequences.find(announce.request);
  const bool is_new = known == sequences.end();
  if (Status s = is_new ? open(announce) : join(known->second, peer, announce); !s.is_ok())
    return refuse(from, announce.id, s);
  Incoming& sequence = sequences.at(announce.request);
  Unless accepted([&] {
    if (!is_new) return;
    static_cast<void>(pool.release(sequence.id));
    sequences.erase(announce.request);
  });
  Part part = make_part(sequence, peer, announce.request);
  if (peer.bundles.has(true))
    if (Status s = pin(sequence, part.pins); !s.is_ok()) return refuse(from, announce.id, s);
  const auto cached = static_cast<uint32_t>(sequence.cached_tokens);
  std::vector<uint32_t> pages = direct_pages(sequence, peer.bundles);
  sequence.parts.reserve(sequence.parts.size() + 1);  // a sequence has parts that there are
  parts.emplace(PartId(from, announce.id), std::move(part));
  sequence.parts.emplace_back(from, announce.id);
  sequence.heard_ms = now_ms;
  accepted.is_done = true;
  ++figures.accepted;
  Status s = has_groups ? outbox.send(from, AcceptGroups{.id = announce.id,
                                                         .cached_tokens = cached,
                                                         .runs = sequence.runs,
                                                         .pages = std::move(pages)})
                        : outbox.send(from, Accept{.id = announce.id,
                                                   .cached_tokens = cached,
                                                   .pages = std::move(pages)});
  if (!s.is_ok()) fail_sequence(announce.request, AbortCode::failed, s);
}

}  // namespace folio::inline v1::tier
