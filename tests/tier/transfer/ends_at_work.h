// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/ends_at_work.h: ends that hand over what they like, and look at all that
/// comes.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "tier/transfer/ends.h"

namespace folio::test {

/// Prefills random prompts for one receiver, some at a time, in random chunks.
class Prefiller {
 public:
  Prefiller(PrefillEnd& end, PeerId to, uint64_t seed) : end_(end), to_(to), rng_(seed) {}

  /// One random thing. False where it cannot begin another handover.
  bool step(int64_t now_ms, double cancels = 0) {
    if (work_.size() < 4 && rng_.chance(0.3) && !begin()) return false;
    if (!work_.empty()) {
      Work& work = rng_.pick(work_);
      if (cancels > 0 && rng_.chance(cancels)) end_.sender.cancel(work.handover);
      if (!work.is_over) go_on(work);
    }
    if (rng_.chance(0.5)) look(now_ms);
    return true;
  }
  void look(int64_t now_ms) {
    end_.sender.poll(now_ms);
    HandoverEnd ends[4];
    const size_t count = end_.sender.take_ends(ends);
    for (const HandoverEnd& end : std::span(ends).first(count)) {
      ++ended[static_cast<size_t>(end.outcome)];
      const auto at = std::ranges::find(work_, end.id, &Work::handover);
      ASSERT_NE(at, work_.end()) << "twice";
      faults += end_.count_wrong(at->id, at->tokens, 0, at->done);
      end_.pool.release(at->id).or_throw();
      work_.erase(at);
    }
  }
  [[nodiscard]] bool is_idle() const { return work_.empty(); }
  /// Of a handover that has not ended; 0: there is none.
  [[nodiscard]] uint64_t some_request() { return work_.empty() ? 0 : rng_.pick(work_).request; }

  int64_t ended[num_handover_outcomes] = {};
  int64_t faults = 0;

 private:
  struct Work {
    SequenceId id;
    HandoverId handover;
    uint64_t request = 0;
    Tokens tokens;
    int32_t done = 0;
    bool is_over = false;
  };

  bool begin() {
    // some prompts begin alike, so that receivers have parts of them
    Rng prefix(static_cast<uint64_t>(rng_.between(1, 3)));
    Tokens tokens = random_tokens(prefix, rng_.int_between(0, 2) * 8);
    const Tokens rest = random_tokens(rng_, rng_.int_between(1, 30));
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    const Result<Admission> a = end_.admit(tokens);
    if (!a) return true;
    const uint64_t request = rng_.next();
    const Result<HandoverId> h = end_.sender.begin(to_, request, a->id, tokens);
    if (!h) {
      end_.pool.release(a->id).or_throw();
      return false;
    }
    work_.push_back({a->id, *h, request, tokens, a->cached_tokens});
    return true;
  }
  void go_on(Work& work) {
    const auto size = static_cast<int32_t>(work.tokens.size());
    const int32_t last = std::min(work.done + rng_.int_between(1, 20), size);
    for (int32_t layer = 0; layer < end_.spec.num_layers; ++layer) {
      end_.compute(work.id, work.tokens, layer, work.done, last);
      // refused where the handover has ended meanwhile
      static_cast<void>(end_.sender.push(work.handover, layer, work.done, last - work.done));
      if (rng_.chance(0.2)) end_.sender.poll(0);
    }
    end_.pool
        .commit(work.id,
                std::span(work.tokens)
                    .subspan(static_cast<size_t>(work.done), static_cast<size_t>(last - work.done)))
        .or_throw();
    work.done = last;
    if (last != size) return;
    static_cast<void>(end_.sender.finish(work.handover));
    work.is_over = true;
  }

  PrefillEnd& end_;
  PeerId to_;
  Rng rng_;
  std::vector<Work> work_;
};

/// Takes what comes, keeps it for a while and looks at every byte before and after.
class Decoder {
 public:
  explicit Decoder(DecodeEnd& end) : end_(end) {}

  void step(int64_t now_ms) {
    end_.receiver.poll(now_ms);
    ReceivedSequence got = end_.take();
    if (!got.tokens.empty()) {
      ++taken;
      look_at(got);
      const int32_t page_size = end_.spec.page_size;
      committed_pages +=
          static_cast<int32_t>(got.tokens.size()) / page_size - got.cached_tokens / page_size;
      if (known_.size() < max_known) known_.push_back(got.tokens);
      kept_.push_back(std::move(got));
    }
    if (kept_.size() > max_kept || (got.tokens.empty() && ++idle_steps_ % 64 == 0)) release_one();
  }
  void release_all() {
    while (!kept_.empty()) release_one();
  }
  /// What of the sequences that have come is findable is right.
  void look_again() {
    for (const Tokens& tokens : known_) {
      const Result<Admission> a = end_.pool.admit(tokens);
      if (!a) continue;
      faults += end_.count_wrong(a->id, tokens, 0, a->cached_tokens);
      end_.pool.release(a->id).or_throw();
    }
    known_.clear();
  }

  int64_t faults = 0, taken = 0;
  int64_t committed_pages = 0;  ///< full ones that were new, at most

 private:
  static constexpr size_t max_kept = 3, max_known = 16;

  void look_at(const ReceivedSequence& s) {
    const auto size = static_cast<int32_t>(s.tokens.size());
    faults += end_.count_wrong(s.id, s.tokens, 0, size);
    faults += end_.pool.length(s.id).value() == size ? 0 : 1;
  }
  void release_one() {
    if (kept_.empty()) return;
    look_at(kept_.front());
    end_.pool.release(kept_.front().id).or_throw();
    kept_.pop_front();
  }

  DecodeEnd& end_;
  std::deque<ReceivedSequence> kept_;
  std::vector<Tokens> known_;
  int64_t idle_steps_ = 0;
};

}  // namespace folio::test
