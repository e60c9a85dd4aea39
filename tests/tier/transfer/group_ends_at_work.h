// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/group_ends_at_work.h: ends of hybrid models that hand over what they like,
/// and look at all that comes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "tier/transfer/group_ends.h"

namespace folio::test {

inline constexpr int32_t longest_hybrid_prompt = 60;

/// Prefills random prompts for one receiver, some at a time, in random chunks.
class GroupPrefiller {
 public:
  GroupPrefiller(GroupPrefillEnd& end, PeerId to, uint64_t seed) : end_(end), to_(to), rng_(seed) {}

  /// One random thing. False where it cannot begin another handover.
  bool step(int64_t now, double cancels = 0) {
    if (work_.size() < 3 && rng_.chance(0.3) && !begin()) return false;
    if (!work_.empty()) {
      Work& work = rng_.pick(work_);
      if (cancels > 0 && rng_.chance(cancels)) end_.sender.cancel(work.handover);
      if (!work.is_over) go_on(work, now);
    }
    look(now);
    return true;
  }
  void look(int64_t now) {
    end_.sender.poll(now);
    HandoverEnd ends[4];
    const size_t count = end_.sender.take_ends(ends);
    for (const HandoverEnd& end : std::span(ends).first(count)) {
      ++ended[static_cast<size_t>(end.outcome)];
      const auto at = std::ranges::find(work_, end.id, &Work::handover);
      ASSERT_NE(at, work_.end()) << "twice";
      const std::string what = end_.wrong(at->id, at->tokens, at->done);
      EXPECT_EQ(what, "");
      faults += what.empty() ? 0 : 1;
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
    Tokens tokens = random_tokens(prefix, rng_.int_between(0, 3) * 10);
    const Tokens rest = random_tokens(rng_, rng_.int_between(1, longest_hybrid_prompt - 30));
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    const Result<Admission> a = end_.pool.admit(tokens);
    if (!a) return true;
    end_.copy();
    const uint64_t request = rng_.next();
    const Result<HandoverId> h = end_.sender.begin(to_, request, a->id, tokens);
    if (!h) {
      end_.pool.release(a->id).or_throw();
      return false;
    }
    work_.push_back({a->id, *h, request, tokens, a->cached_tokens});
    return true;
  }
  void go_on(Work& work, int64_t now) {
    const auto size = static_cast<int32_t>(work.tokens.size());
    const int32_t last = std::min(work.done + rng_.int_between(1, 20), size);
    if (!end_.prefill(work.id, work.tokens, {&work.handover, 1}, work.done, last, now)) {
      end_.sender.cancel(work.handover);  // no room
      work.is_over = true;
      return;
    }
    work.done = last;
    if (last != size) return;
    static_cast<void>(end_.sender.finish(work.handover));
    work.is_over = true;
  }

  GroupPrefillEnd& end_;
  PeerId to_;
  Rng rng_;
  std::vector<Work> work_;
};

/// Takes what comes, goes on with it, keeps it for a while and looks at every byte.
class GroupDecoder {
 public:
  GroupDecoder(GroupDecodeEnd& end, uint64_t seed) : end_(end), rng_(seed) {}

  void step(int64_t now) {
    end_.receiver.poll(now);
    ReceivedSequence got = end_.take();
    const bool has_come = !got.tokens.empty();
    if (has_come) {
      ++taken;
      const auto size = static_cast<int32_t>(got.tokens.size());
      expect_right(end_.wrong(got.id, got.tokens, size));
      expect_right(end_.pool.length(got.id).value() == size ? "" : "another length");
      kept_.push_back(std::move(got));
    } else if (!kept_.empty() && rng_.chance(0.3)) {
      ReceivedSequence& some = rng_.pick(kept_);
      if (some.tokens.size() >= longest_hybrid_prompt) return;
      expect_right(end_.go_on(some.id, some.tokens, 1));
    }
    if (kept_.size() > 2 || (!has_come && rng_.chance(0.02))) release_one();
  }
  void release_all() {
    while (!kept_.empty()) release_one();
  }
  /// What of the sequences that have come is findable is right.
  void look_again() {
    for (const Tokens& tokens : known_) expect_right(end_.look_for(tokens));
    known_.clear();
  }

  int64_t taken = 0;
  int64_t faults = 0;
  int64_t committed_pages = 0;  ///< full ones of the leading group that were new, at most

 private:
  static constexpr size_t max_known = 16;

  void release_one() {
    if (kept_.empty()) return;
    const Tokens tokens = kept_.front().tokens;
    const int32_t page_size = end_.spec.page_size;
    committed_pages +=
        static_cast<int32_t>(tokens.size()) / page_size - kept_.front().cached_tokens / page_size;
    end_.pool.release(kept_.front().id).or_throw();
    kept_.pop_front();
    expect_right(end_.look_for(tokens));
    if (known_.size() < max_known) known_.push_back(tokens);
  }
  void expect_right(const std::string& what) {
    EXPECT_EQ(what, "");
    faults += what.empty() ? 0 : 1;
  }

  GroupDecodeEnd& end_;
  Rng rng_;
  std::deque<ReceivedSequence> kept_;
  std::vector<Tokens> known_;
};

}  // namespace folio::test
