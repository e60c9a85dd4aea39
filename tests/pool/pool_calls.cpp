// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_calls.cpp: bytes become calls that are mostly allowed, seldom impossible.
#include "pool/pool_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "pool/call_bytes.h"
#include "pool/checked.h"

namespace folio::test {
namespace {

uint32_t number(const PoolCall& call) {
  return call[1] * 7U + call[2] * 1000003U + call[3] * 257U + call[4] * 65537U;
}

NaiveWish wish(const PoolModel& model, const PoolCall& call) {
  if (!model.keeps()) return {};
  NaiveWish wish{.ranges = ranges(number(call)), .decode = {}, .prompt = 0};
  if (call[2] % 4 == 0) {
    const std::vector<RetentionRange> one = ranges(2 + 7U * call[3]);
    wish.decode = {one.front().level, one.front().milliseconds};
  }
  return wish;
}

const PoolModel::Space& space_of(uint8_t choice) {
  static const PoolModel::Space spaces[] = {{"", 0}, {"", 0},       {"", 0},       {"", 0},
                                            {"", 1}, {"tenant", 0}, {"tenan", 't'}};
  return spaces[choice % std::size(spaces)];
}

void admit(PoolModel& model, const PoolCall& call) {
  std::vector<TokenId> prompt;
  std::vector<ContentSpan> spans;
  if (model.num_sequences() != 0 && call[1] % 2 == 0) {
    prompt = model.tokens(call[1] / 2U % model.num_sequences());
    spans = model.spans(call[1] / 2U % model.num_sequences());
  }
  const std::vector<TokenId> tail = letters(call[2] % 14U, call[3]);
  prompt.insert(prompt.end(), tail.begin(), tail.end());
  model.admit(prompt, space_of(call[4]), wish(model, call),
              items(model.max_spans(), prompt, spans, call[5]));
}

/// Mostly of what some sequence has.
void retain(PoolModel& model, const PoolCall& call) {
  std::vector<TokenId> prompt = letters(call[2] % 14U, call[3]);
  std::vector<ContentSpan> spans;
  if (model.num_sequences() != 0 && call[1] % 4 != 0) {
    prompt = model.tokens(call[1] / 4U % model.num_sequences());
    spans = model.spans(call[1] / 4U % model.num_sequences());
  }
  model.retain(prompt, space_of(call[4]), model.keeps() ? ranges(2 + number(call)) : ranges(0),
               items(model.max_spans(), prompt, spans, call[5]));
}

/// Mostly a little, sometimes beyond all deadlines, sometimes back.
void advance_time(PoolModel& model, const PoolCall& call) {
  const int64_t now = model.now_ms();
  if (call[2] > 250) return model.advance_time(now - 1);
  model.advance_time(now + (call[2] > 240 ? int64_t{1} << call[3] % 40 : call[2] % 32));
}

void begin_step(PoolModel& model, uint8_t members) {
  std::vector<size_t> listed;
  for (size_t i = 0; i < model.num_sequences(); ++i) {
    if ((members >> i & 1) != 0) listed.push_back(i);
  }
  model.begin_step(listed);
}

/// Mostly a page of the sequence, mostly without a failure of the function.
void name_a_page(PoolModel& model, size_t s, const PoolCall& call) {
  const auto tokens = static_cast<int32_t>(model.tokens(s).size());
  const int32_t position = call[2] > 250 ? 250 - call[2] : call[2] % (tokens + 2);
  model.name(s, position < 0 ? position : position / model.page_size(),
             call[3] % 4 == 0 ? call[4] % 3 : -1);
}

/// Room for each sequence that `call[2]` names, seldom for one of them twice.
void reserve_some(PoolModel& model, const PoolCall& call) {
  std::vector<std::pair<size_t, int32_t>> requests;
  for (size_t i = 0; i < model.num_sequences(); ++i) {
    if ((call[2] >> i & 1) != 0) requests.emplace_back(i, (call[3] + 3 * static_cast<int>(i)) % 6);
  }
  if (call[4] > 250) requests.emplace_back(0, call[4] > 253 ? -1 : 1);
  model.reserve(requests);
}

/// Mostly of sequences that differ.
void keep_path(PoolModel& model, const PoolCall& call) {
  std::vector<size_t> tree;
  for (size_t i = 0; i < model.num_sequences(); ++i) {
    if ((call[2] >> i & 1) != 0) tree.push_back((i + call[1]) % model.num_sequences());
  }
  if (call[4] > 250) tree.push_back(0);
  model.keep_path(tree, call[4] > 245 ? tree.size() : call[3] % std::max<size_t>(1, tree.size()));
}

/// What an engine does that is out of pages: it comes back with what the sequence had.
void preempt_and_resume(PoolModel& model, size_t s, const PoolCall& call) {
  std::vector<TokenId> tokens = model.tokens(s);
  const std::vector<TokenId> tail = letters(call[2] % 3U, call[3]);
  tokens.insert(tokens.end(), tail.begin(), tail.end());
  model.preempt(s);
  model.resume(s, tokens);
}

/// Mostly a page that has tokens.
void begin_io(PoolModel& model, size_t s, const PoolCall& call) {
  const auto pages = static_cast<int32_t>(model.tokens(s).size()) / model.page_size();
  model.begin_io(s, call[2] > 250 ? 250 - call[2] : call[2] % (pages + 2));
}

}  // namespace

void apply(PoolModel& model, const PoolCall& call) {
  const uint32_t kind = call[0] % 58U;
  if (kind > 56)
    return model.num_transfers() == 0 ? model.take_copies()
                                      : model.end_io(call[2] % model.num_transfers());
  if (kind > 55) return model.clear();
  if (kind > 52) return advance_time(model, call);
  if (kind > 49) return retain(model, call);
  if (model.num_sequences() == 0 || kind < 4) return admit(model, call);
  const size_t s = call[1] % model.num_sequences();
  const auto tokens = letters(call[2] % 8U, call[3]);
  const auto count = static_cast<int32_t>(tokens.size());
  const Merge merge = call[4] % 2 == 0 ? Merge::refused : Merge::allowed;
  if (kind < 5) return model.reserve(s, call[2] > 250 ? -1 : count);
  if (kind < 7) return model.commit(s, tokens);
  if (kind < 14) {  // a prefill or decode step of one sequence, as engines do it
    model.reserve(s, count);
    if (kind < 12) model.take_copies();
    return model.commit(s, tokens, merge);
  }
  if (kind < 16)
    return model.trim(s, cut(model.tokens(s).size(), call[2]),
                      call[4] % 3 == 0 ? CutItems::kept : CutItems::removed);
  if (kind < 18) {  // a roll-back of a few tokens and new ones
    model.trim(s, cut(model.tokens(s).size(), call[2]));
    model.reserve(s, 2);
    return model.commit(s, letters(2, call[3]));
  }
  if (kind < 22) return model.fork(s, cut(model.tokens(s).size(), call[2]));
  if (kind < 24) return model.release(s);
  if (kind < 25) return model.take_copies();
  if (kind < 27) return begin_step(model, call[2]);
  if (kind < 29)
    return model.num_steps() == 0 ? model.take_copies()
                                  : model.end_step(call[2] % model.num_steps());
  if (kind < 32) return name_a_page(model, s, call);
  if (kind < 33) return model.use_stale_ids(call[2] % 4);
  if (kind < 36) return reserve_some(model, call);
  if (kind < 38) return model.explain(s, call[2] > 250 ? -1 : call[2] % 8);
  if (kind < 41) return model.fork(s, cut(model.tokens(s).size(), call[2]), call[3] % 4U);
  if (kind < 43) return keep_path(model, call);
  if (kind < 45) return preempt_and_resume(model, s, call);
  if (kind < 46) return model.preempt(s);
  if (kind < 48) return begin_io(model, s, call);
  return model.resume(s, letters(call[2] % 12U, call[3]));
}

void give_all_back(PoolModel& model) {
  while (model.num_sequences() != 0) model.release(0);
  while (model.num_steps() != 0) model.end_step(0);
  while (model.num_transfers() != 0) model.end_io(0);
  model.take_copies();
  model.take_copies();
  RC_ASSERT(model.held_pages() == 0);
}

}  // namespace folio::test
