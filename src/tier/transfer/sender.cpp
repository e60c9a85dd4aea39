// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/sender.cpp: handovers from their announcement to their end.
#include "tier/transfer/sender.h"

#include <algorithm>
#include <new>
#include <utility>

#include "tier/checks.h"

namespace folio::inline v1::tier {

namespace {

Status no_memory(const char* call) {
  return fail(Errc::out_of_memory, "HandoverSender::{}: no memory", call);
}

/// What the receiver's pool would refuse whatever it is.
Status check_options(std::span<const TokenId> prompt, const SequenceOptions& of) {
  const char* const call = "HandoverSender::begin";
  if (Status s = check_memory(call, "salt", of.salt.data(), of.salt.size()); !s.is_ok()) return s;
  if (of.salt.size() > PagePool::max_salt_bytes)
    return fail(Errc::invalid_argument, "{}: salt has {} bytes, expected at most {}", call,
                of.salt.size(), PagePool::max_salt_bytes);
  if (Status s = check_memory(call, "spans", of.spans.data(), of.spans.size()); !s.is_ok())
    return s;
  int64_t end = 0;
  for (size_t i = 0; i < of.spans.size(); ++i) {
    const ContentSpan& span = of.spans[i];
    if (span.offset < end || span.length < 1 ||
        int64_t{span.offset} + span.length > std::ssize(prompt))
      return fail(Errc::invalid_argument,
                  "{}: spans[{}] has {} tokens from {} on, expected at least 1 within {} .. {} "
                  "(behind the span before it, within the prompt)",
                  call, i, span.length, span.offset, end, prompt.size());
    end = int64_t{span.offset} + span.length;
  }
  return {};
}

}  // namespace

// ---- Ends

void HandoverSender::State::end(uint64_t id, Outgoing& h, HandoverOutcome outcome, Status reason) {
  if (h.step == Step::ending) return;
  h.step = Step::ending;
  h.end = {.id = {id}, .outcome = outcome, .reason = std::move(reason)};
  for (const Post& post : posts)
    if (post.id == id) static_cast<void>(transport.cancel(post.transfer));
}

void HandoverSender::State::say_computing(uint64_t id, Outgoing& h) {
  const int64_t often = std::max<int64_t>(options.end.idle_ms / 3, 1);
  if (!has_groups || now_ms - h.said_ms < often || outbox.bytes(h.peer) != 0) return;
  h.said_ms = now_ms;
  static_cast<void>(outbox.send(h.peer, Computing{.id = id}));
}

void HandoverSender::State::check_deadline(uint64_t id, Outgoing& h) {
  if (h.step == Step::ending) return;
  const bool awaits_peer = h.step != Step::accepted || h.posts != 0 ||
                           (h.slots.empty() && h.wanted_slots != h.got_slots);
  if (!awaits_peer) {
    h.heard_ms = now_ms;
    say_computing(id, h);
  }
  if (now_ms - h.heard_ms <= options.end.idle_ms) return;
  end(id, h, HandoverOutcome::late,
      fail(Errc::io, "HandoverSender: nothing has been heard of the handover for {} ms",
           now_ms - h.heard_ms));
}

HandoverOutcome HandoverSender::State::failure_of(PeerId peer) const {
  const Result<PeerState> state = transport.peer_state(peer);
  return state && *state != PeerState::lost ? HandoverOutcome::failed : HandoverOutcome::lost;
}

void HandoverSender::State::check_peers() {
  for (auto at = links.begin(); at != links.end();) {
    const Result<PeerState> state = transport.peer_state(at->first);
    if (state && *state != PeerState::lost) {
      ++at;
      continue;
    }
    bool is_used = false;
    for (auto& [id, h] : handovers) {
      if (h.peer != at->first) continue;
      is_used = true;
      end(id, h, HandoverOutcome::lost, fail(Errc::io, "HandoverSender: the receiver is lost"));
    }
    outbox.forget(at->first);
    at = is_used ? std::next(at) : links.erase(at);
  }
}

void HandoverSender::State::remove_ended() {
  for (auto at = handovers.begin(); at != handovers.end();) {
    Outgoing& h = at->second;
    if (h.step != Step::ending || h.posts != 0) {
      ++at;
      continue;
    }
    for (const std::vector<Page>& pages : h.pages)
      for (const Page& page : pages)
        if (page.is_held) static_cast<void>(pool.end_io(page.pin));
    if (h.end.outcome != HandoverOutcome::done && h.end.outcome != HandoverOutcome::lost)
      static_cast<void>(outbox.send(h.peer, Ended{.id = at->first}));
    ++figures.ended[static_cast<size_t>(h.end.outcome)];
    ends.push_back(std::move(h.end));
    at = handovers.erase(at);
  }
}

void HandoverSender::State::poll() {
  outbox.flush();
  poll_posts();
  receive();
  check_peers();
  for (auto& [id, h] : handovers) {
    advance(id, h);
    check_deadline(id, h);
  }
  remove_ended();
}

// ---- Calls

HandoverSender::State::Outgoing* HandoverSender::State::find(HandoverId id) {
  const auto at = handovers.find(id.value);
  return at == handovers.end() || at->second.step == Step::ending ? nullptr : &at->second;
}

Result<HandoverId> HandoverSender::State::begin(PeerId peer, uint64_t request, SequenceId sequence,
                                                std::span<const TokenId> prompt,
                                                const SequenceOptions& of) {
  const Result<int32_t> length = pool.length(sequence);
  if (!length) return length.error();
  if (prompt.data() == nullptr || prompt.empty() || std::ssize(prompt) < *length ||
      std::ssize(prompt) > 1 << 30)
    return fail(Errc::invalid_argument,
                "HandoverSender::begin: prompt has {} tokens, expected 1 or more, at least the {} "
                "of the sequence",
                prompt.size(), *length);
  if (Status s = check_options(prompt, of); !s.is_ok()) return s;
  if (handovers.size() >= options.max_handovers)
    return fail(Errc::busy, "HandoverSender::begin: {} handovers have not ended (max_handovers)",
                handovers.size());
  if (const auto known = links.find(peer); known == links.end()) {
    Hello hello{.version = has_groups ? groups_version : wire_version};
    if (!has_groups) hello.geometry = layout.groups[0].pages;
    if (Status s = outbox.send(peer, hello); !s.is_ok()) return s;
    if (has_groups)
      if (Status s = outbox.send(peer, Groups{.layout = layout}); !s.is_ok()) return s;
    links.emplace(peer, Link{});
  } else if (!known->second.refusal.is_ok()) {
    return known->second.refusal;
  }
  Outgoing h{.peer = peer,
             .sequence = sequence,
             .tokens = {prompt.begin(), prompt.end()},
             .salt = std::string(of.salt),
             .adapter = of.adapter,
             .spans = {of.spans.begin(), of.spans.end()},
             .ready = std::vector<int32_t>(num_layers(), *length),
             .heard_ms = now_ms,
             .said_ms = now_ms};
  const Announce announce{.id = next_id,
                          .request = request,
                          .adapter = h.adapter,
                          .salt = h.salt,
                          .spans = h.spans,
                          .tokens = h.tokens};
  const auto at = handovers.emplace(next_id, std::move(h)).first;
  if (Status s = outbox.send(peer, announce); !s.is_ok()) {
    handovers.erase(at);
    return s;
  }
  ++figures.begun;
  return HandoverId{next_id++};
}

Result<HandoverSender> HandoverSender::create(const HandoverSenderOptions& options) noexcept {
  const char* const function = "HandoverSender::create";
  Result<EndPages> pages = pages_of(function, options.end);
  if (!pages) return pages.error();
  Result<std::vector<Place>> places = places_of(function, options.end, *pages);
  if (!places) return places.error();
  const struct {
    const char* name;
    int64_t is;
  } counts[] = {{"max_handovers", options.max_handovers},
                {"max_posts", options.max_posts},
                {"post_bytes", options.post_bytes}};
  for (const auto& c : counts)
    if (c.is < 1)
      return fail(Errc::invalid_argument, "{}: {} is {}, expected 1 or more", function, c.name,
                  c.is);
  try {
    return HandoverSender(new State(options, std::move(*pages), std::move(*places)));
  } catch (const std::bad_alloc&) {
    return no_memory("create");
  }
}

HandoverSender::~HandoverSender() {
  if (state_ == nullptr) return;
  for (auto& [id, h] : state_->handovers)
    state_->end(id, h, HandoverOutcome::cancelled,
                fail(Errc::io, "HandoverSender: the sender is gone"));
  while (!state_->posts.empty()) state_->poll_posts();
  state_->remove_ended();
  delete state_;
}

Result<HandoverId> HandoverSender::begin(PeerId peer, uint64_t request, SequenceId sequence,
                                         std::span<const TokenId> prompt,
                                         const SequenceOptions& options) noexcept {
  if (state_ == nullptr) return moved_from("HandoverSender::begin");
  try {
    return state_->begin(peer, request, sequence, prompt, options);
  } catch (const std::bad_alloc&) {
    return no_memory("begin");
  }
}

namespace {

Status has_ended(const char* call, HandoverId id) {
  return fail(Errc::invalid_argument,
              "HandoverSender::{}: id is {}, expected that of a handover that has not ended", call,
              id.value);
}

Status no_such_layer(const char* call, int32_t layer, size_t layers) {
  return fail(Errc::invalid_argument, "HandoverSender::{}: layer is {}, expected 0 .. {}", call,
              layer, layers - 1);
}

}  // namespace

Status HandoverSender::push(HandoverId id, int32_t layer, int32_t first_token,
                            int32_t count) noexcept {
  if (state_ == nullptr) return moved_from("HandoverSender::push");
  State::Outgoing* const h = state_->find(id);
  if (h == nullptr) return has_ended("push", id);
  if (layer < 0 || layer >= std::ssize(h->ready))
    return no_such_layer("push", layer, h->ready.size());
  int32_t& ready = h->ready[static_cast<size_t>(layer)];
  if (first_token != ready)
    return fail(Errc::invalid_argument,
                "HandoverSender::push: first_token is {}, expected {}: the layer has those before",
                first_token, ready);
  if (count < 0 || count > std::ssize(h->tokens) - ready)
    return fail(Errc::invalid_argument, "HandoverSender::push: count is {}, expected 0 .. {}",
                count, std::ssize(h->tokens) - ready);
  ready += count;
  return {};
}

Status HandoverSender::push_layer(HandoverId id, int32_t layer) noexcept {
  if (state_ == nullptr) return moved_from("HandoverSender::push_layer");
  const State::Outgoing* const h = state_->find(id);
  if (h == nullptr) return has_ended("push_layer", id);
  if (layer < 0 || layer >= std::ssize(h->ready))
    return no_such_layer("push_layer", layer, h->ready.size());
  const int32_t ready = h->ready[static_cast<size_t>(layer)];
  return push(id, layer, ready, static_cast<int32_t>(h->tokens.size()) - ready);
}

Status HandoverSender::finish(HandoverId id, std::span<const TokenId> output) noexcept {
  if (state_ == nullptr) return moved_from("HandoverSender::finish");
  State::Outgoing* const h = state_->find(id);
  if (h == nullptr) return has_ended("finish", id);
  if (Status s = check_memory("HandoverSender::finish", "output", output.data(), output.size());
      !s.is_ok())
    return s;
  if (h->is_finished)
    return fail(Errc::invalid_argument,
                "HandoverSender::finish: handover {} has been finished, expected one that has not",
                id.value);
  for (size_t layer = 0; layer < h->ready.size(); ++layer)
    if (h->ready[layer] != std::ssize(h->tokens))
      return fail(Errc::invalid_argument,
                  "HandoverSender::finish: layer {} has {} tokens, expected {}", layer,
                  h->ready[layer], h->tokens.size());
  try {
    h->output.assign(output.begin(), output.end());
  } catch (const std::bad_alloc&) {
    return no_memory("finish");
  }
  h->is_finished = true;
  return {};
}

void HandoverSender::cancel(HandoverId id) noexcept {
  if (state_ == nullptr) return;
  if (State::Outgoing* const h = state_->find(id); h != nullptr)
    state_->end(id.value, *h, HandoverOutcome::cancelled,
                fail(Errc::io, "HandoverSender: cancelled by the sender"));
}

void HandoverSender::poll(int64_t now_ms) noexcept {
  if (state_ == nullptr) return;
  state_->now_ms = std::max(state_->now_ms, now_ms);
  if (!std::exchange(state_->is_timed, true))  // what began before could not know the time
    for (auto& [id, h] : state_->handovers) h.heard_ms = state_->now_ms;
  try {
    state_->poll();
  } catch (const std::bad_alloc&) {  // what was to be done is late
  }
}

size_t HandoverSender::take_ends(std::span<HandoverEnd> ends) noexcept {
  if (state_ == nullptr || ends.data() == nullptr) return 0;
  const size_t count = std::min(ends.size(), state_->ends.size());
  for (HandoverEnd& end : ends.first(count)) {
    end = std::move(state_->ends.front());
    state_->ends.pop_front();
  }
  return count;
}

HandoverSenderFigures HandoverSender::figures() const noexcept {
  if (state_ == nullptr) return {};
  HandoverSenderFigures figures = state_->figures;
  figures.handovers = std::ssize(state_->handovers);
  figures.posts = std::ssize(state_->posts);
  for (const auto& [id, h] : state_->handovers)
    for (const std::vector<State::Page>& pages : h.pages)
      figures.pinned_pages += std::ranges::count_if(pages, &State::Page::is_held);
  return figures;
}

}  // namespace folio::inline v1::tier
