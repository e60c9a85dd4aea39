// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_calls.cpp: bytes become calls that are mostly allowed, seldom impossible.
#include "pool/group_calls.h"

#include <algorithm>
#include <vector>

#include "pool/call_bytes.h"

namespace folio::test {
namespace {

void admit(GroupModel& model, const GroupCall& call) {
  std::vector<TokenId> prompt;
  std::vector<ContentSpan> spans;
  if (model.num_sequences() != 0 && call[1] % 2 == 0) {
    prompt = model.tokens(call[1] / 2U % model.num_sequences());
    spans = model.spans(call[1] / 2U % model.num_sequences());
  }
  const std::vector<TokenId> tail = letters(call[2] % 20U, call[3]);
  prompt.insert(prompt.end(), tail.begin(), tail.end());
  NaiveWish wish;
  if (model.keeps()) wish.ranges = ranges(call[5]);
  if (model.keeps() && call[5] % 16 == 3) wish.decode = {.level = call[5] / 16 * 5};
  model.admit(prompt, items(model.max_spans(), prompt, spans, call[4]), wish);
}

/// Half of the time of what some sequence has.
void retain(GroupModel& model, const GroupCall& call) {
  std::vector<TokenId> prompt = letters(call[2] % 20U, call[3]);
  std::vector<ContentSpan> spans;
  if (model.num_sequences() != 0 && call[1] % 2 == 0) {
    prompt = model.tokens(call[1] / 2U % model.num_sequences());
    spans = model.spans(call[1] / 2U % model.num_sequences());
  }
  model.retain(prompt, items(model.max_spans(), prompt, spans, call[4]),
               model.keeps() ? ranges(2 + 7U * call[5]) : ranges(0));
}

void load(GroupModel& model, size_t s, uint32_t choice, const GroupCall& call) {
  const auto pages = static_cast<int32_t>(call[4] % 8) - 1;
  std::vector<TokenId> more = letters(call[2] % 32U, call[3]);
  if (call[4] % 16 < 8 && model.num_sequences() > 1) {  // as another one goes on
    const std::vector<TokenId>& other = model.tokens(call[5] % model.num_sequences());
    const size_t had = std::min(model.tokens(s).size(), other.size());
    more.insert(more.begin(), other.begin() + static_cast<std::ptrdiff_t>(had), other.end());
  }
  const Merge merge = call[5] % 4 < 2 ? Merge::refused : Merge::allowed;
  if (choice == 0) return model.find_parts(s, more);
  if (choice == 1) return model.shorten_load(s, pages);
  if (choice == 2) return model.commit_load(s, merge);
  if (call[5] % 8 < 6) {  // room and part of a page are in the way of a load
    const auto had = static_cast<int32_t>(model.tokens(s).size());
    model.trim(s, had - had % model.page_size());
  }
  if (call[4] % 32 < 12)
    model.begin_whole_load(s, more);
  else
    model.begin_load(s, more, pages);
  if (choice == 3) return;
  if (choice == 4) model.shorten_load(s, pages - 1 - call[5] % 3);
  model.commit_load(s, merge);
}

}  // namespace

void apply(GroupModel& model, const GroupCall& call) {
  const uint32_t kind = call[0] % 32U;
  const uint32_t choice = call[0] / 32U;
  if (kind < 5 && choice == 7) return retain(model, call);
  if (kind < 5 && choice == 6) return model.advance_time(call[1] % 40);
  if (model.num_sequences() == 0 || kind < 5) return admit(model, call);
  const size_t s = call[1] % model.num_sequences();
  const auto tokens = letters(call[2] % 9U, call[3]);
  const auto count = static_cast<int32_t>(tokens.size());
  if (kind < 6 && call[1] % 2 == 0) return model.reserve_all(count);
  if (kind < 6) return model.reserve(s, call[2] > 250 ? -1 : count);
  if (kind == 7) return load(model, s, choice, call);
  if (kind < 8) return model.commit(s, tokens);
  if (kind < 16) {
    model.reserve(s, count + (kind < 10 ? 3 : 0));
    if (kind < 14) model.take_copies();
    return model.commit(s, tokens, choice < 4 ? Merge::refused : Merge::allowed);
  }
  if (kind < 18) return model.trim(s, cut(model.tokens(s).size(), call[2]));
  if (kind < 22) return model.fork(s, cut(model.tokens(s).size(), call[2]));
  if (kind < 25) {
    if (call[2] % 8 == 0)
      return model.fork_children(s, cut(model.tokens(s).size(), call[2] / 8), call[3] % 4U);
    if (call[2] % 8 == 1) return model.keep_path(s);
    if (call[2] % 8 == 2) return model.clear();
    if (call[2] % 8 > 4) return model.release(s);
    const std::vector<TokenId> present = model.tokens(s);
    if (call[2] % 8 == 3) model.preempt(s);
    return model.resume(s, present);
  }
  if (kind < 26) return model.take_copies();
  if (kind < 27 && choice < 4) {
    const uint32_t group = call[2] % (model.pool().num_groups() + call[3] % 8 / 7);
    return model.begin_io(s, group, call[4] > 250 ? -1 : call[4] % 6);
  }
  if (kind < 29) {
    std::vector<size_t> members;
    for (size_t i = 0; i < model.num_sequences(); ++i) {
      if ((call[2] >> i & 1) != 0) members.push_back(i);
    }
    return model.begin_step(members);
  }
  return model.num_steps() == 0 ? model.take_copies() : model.end_step(call[2] % model.num_steps());
}

}  // namespace folio::test
