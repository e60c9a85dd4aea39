// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/wild_calls.cpp: what a wild engine calls of its pool and its manager, and
/// what its sequences are behind that.
#include <algorithm>

#include "tier/manager/wild_engine.h"

namespace folio::test {

// ---- What it knows

void WildEngine::edit(Sequence& s) {
  ++s.edits;
  s.coming = 0;
  s.early.clear();
  s.in_step = false;
}

WildEngine::Sequence* WildEngine::find(SequenceId id) {
  const auto at = std::ranges::find(sequences_, id, &Sequence::id);
  return at == sequences_.end() ? nullptr : &*at;
}

void WildEngine::begin(Sequence& s, Tokens tokens, int32_t cached, int32_t loading) {
  edit(s);
  s.wish = std::move(tokens);
  s.content.append(std::span(s.wish).first(static_cast<size_t>(cached)));
  if (loading != 0) s.coming = static_cast<size_t>(cached + loading);
  copies_may_wait_ = true;
}

/// Few, so that prompts share beginnings; those of items are among those of texts.
WildEngine::Tokens WildEngine::random_prompt() {
  Tokens prompt;
  const int64_t tokens = rng_.between(1, 5) * page_size + rng_.between(0, 3);
  for (int64_t t = 0; t < tokens; ++t) prompt.push_back(t % 5 == 2 ? rng_.int_between(6, 7) : 7);
  return prompt;
}

std::vector<ContentSpan> WildEngine::random_items(size_t tokens) {
  std::vector<ContentSpan> items;
  int32_t offset = rng_.int_between(0, 9);
  for (int i = 0; rng_.chance(0.4) && i < 3; ++i) {
    const int32_t length = rng_.int_between(1, 6);
    if (static_cast<size_t>(offset + length) > tokens) break;
    const auto hash = static_cast<uint8_t>(rng_.between(1, 2));
    items.push_back({.offset = offset, .length = length, .hash = {{hash}}});
    offset += length + rng_.int_between(0, 4);
  }
  return items;
}

void WildEngine::admit() {
  Sequence s;
  const Tokens prompt = random_prompt();
  if (rng_.chance(0.15)) s.content.salt = "a";
  s.content.adapter = rng_.chance(0.15) ? 1 : 0;
  s.content.items = random_items(prompt.size());
  const SequenceOptions options{
      .salt = s.content.salt, .adapter = s.content.adapter, .spans = s.content.items};
  if (rng_.chance(0.2)) {
    const Result<Admission> a = pool_.admit(prompt, options);
    if (!a) return;
    s.id = a->id;
    begin(s, prompt, a->cached_tokens, 0);
  } else {
    const Result<TieredAdmission> a = manager_.admit(prompt, options);
    if (!a) return;
    s.id = a->id;
    begin(s, prompt, a->cached_tokens, a->loading_tokens);
  }
  sequences_.push_back(std::move(s));
}

void WildEngine::prefetch() {
  const Tokens prompt = random_prompt();
  const std::vector<ContentSpan> items = random_items(prompt.size());
  static_cast<void>(manager_.prefetch(prompt, {.spans = items}));
}

WildEngine::Tokens WildEngine::next_tokens(Sequence& s, size_t most) {
  const size_t length = s.content.tokens.size() + s.early.size();
  if (rng_.chance(0.1)) s.wish.resize(std::min(s.wish.size(), length));
  const auto count = static_cast<size_t>(rng_.between(1, static_cast<int64_t>(most)));
  Tokens next;
  for (size_t t = length; t < length + count; ++t)
    next.push_back(t < s.wish.size() ? s.wish[t] : rng_.int_between(6, 7));
  return next;
}

uint64_t* WildEngine::key_at(SequenceId id, size_t position) const {
  const PagedKVView& key = planes_[0].key;
  const uint32_t page =
      pool_.table().entries[pool_.row_start(id).value() + static_cast<int64_t>(position / slots)];
  return reinterpret_cast<uint64_t*>(
      static_cast<std::byte*>(key.data) + page * key.page_stride_bytes +
      static_cast<int64_t>(position % slots) * key.slot_stride_bytes);
}

void WildEngine::write(const Sequence& s, size_t first, std::span<const uint64_t> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    uint64_t* const key = key_at(s.id, first + i);
    key[0] = key[slots] = words[i];  // V is behind K
  }
}

void WildEngine::compute(Sequence& s) {
  if (s.in_step || (is_loading(s) && s.coming != 0)) return;
  if (s.content.tokens.size() > s.wish.size() + 4)  // done
    return release(s.id);
  if (!has_pages(s) && rng_.chance(0.8)) return resume(s);
  Tokens next = std::move(s.early);
  s.early.clear();
  if (next.empty()) {
    next = next_tokens(s, rng_.chance(0.5) ? s.wish.size() + 1 : 3);
    if (!pool_.reserve(s.id, static_cast<int32_t>(next.size())).is_ok())
      return rng_.chance(0.5) ? preempt(rng_.pick(sequences_)) : release(rng_.pick(sequences_).id);
    run_copies();
    write(s, s.content.tokens.size(), s.content.words_of(next));
  }
  const Merge merge = rng_.chance(0.5) ? Merge::allowed : Merge::refused;
  if (rng_.chance(0.2))
    expect(pool_.commit(s.id, next, merge), "the pool's commit");
  else
    expect(manager_.commit(s.id, next, merge), "commit");
  s.content.append(next);
}

/// Behind what comes, as docs/tiers.md allows.
void WildEngine::compute_early(Sequence& s) {
  if (s.in_step || s.coming == 0 || !is_loading(s) || s.wish.size() < s.coming) return;
  Sequence whole = s;
  whole.content.append(std::span(s.wish).first(s.coming).subspan(s.content.tokens.size()));
  const Tokens next = next_tokens(whole, 6);
  const size_t more = whole.content.tokens.size() - s.content.tokens.size() + s.early.size();
  if (!pool_.reserve(s.id, static_cast<int32_t>(more + next.size())).is_ok()) return;
  copies_may_wait_ = true;
  whole.content.append(s.early);
  write(s, whole.content.tokens.size(), whole.content.words_of(next));
  s.early.insert(s.early.end(), next.begin(), next.end());
}

/// Nobody may.
void WildEngine::commit_while_loading(Sequence& s) {
  if (s.coming == 0 || !is_loading(s)) return;
  const TokenId next[] = {7, 7};
  if (pool_.commit(s.id, next).is_ok()) blame("the pool commits what a tier is writing");
}

void WildEngine::reserve_several() {
  std::vector<ReserveRequest> requests;
  for (const Sequence& s : sequences_)
    if (rng_.chance(0.5)) requests.push_back({s.id, rng_.int_between(0, 9)});
  static_cast<void>(pool_.reserve(requests));
  copies_may_wait_ = true;
}

void WildEngine::begin_step() {
  if (steps_.size() == 4) return;
  std::vector<SequenceId> ids;
  Step step;
  for (Sequence& s : sequences_) {
    if (!rng_.chance(0.6)) continue;
    ids.push_back(s.id);
    if (s.in_step || is_loading(s) || s.coming != 0) continue;
    const Tokens next = next_tokens(s, 3);
    if (!pool_.reserve(s.id, static_cast<int32_t>(next.size())).is_ok()) continue;
    s.in_step = true;
    s.early.clear();
    step.parts.push_back({s.id, s.edits, next});
  }
  run_copies();
  for (const Step::Part& part : step.parts) {
    const TrueContent& content = find(part.id)->content;
    const std::vector<uint64_t> words = content.words_of(part.tokens);
    for (size_t i = 0; i < words.size(); ++i)
      step.writes.push_back({key_at(part.id, content.tokens.size() + i), words[i]});
  }
  step.ticket = pool_.begin_step(ids).value();
  steps_.push_back(std::move(step));
}

/// It writes where it was told to, whatever has become of its sequences.
void WildEngine::end_step() {
  if (steps_.empty()) return;
  const auto at = steps_.begin() + rng_.between(0, std::ssize(steps_) - 1);
  const Step step = std::move(*at);
  steps_.erase(at);
  for (const Step::Write& write : step.writes) write.key[0] = write.key[slots] = write.word;
  expect(pool_.end_step(step.ticket), "end_step");
  for (const Step::Part& part : step.parts) {
    Sequence* const s = find(part.id);
    if (s == nullptr || s->edits != part.edits) continue;
    s->in_step = false;
    expect(manager_.commit(s->id, part.tokens), "commit of a step");
    s->content.append(part.tokens);
  }
}

// ---- Rows that change

void WildEngine::fork(Sequence& s) {
  const auto length =
      static_cast<size_t>(rng_.between(0, static_cast<int64_t>(s.content.tokens.size())));
  std::vector<SequenceId> children(static_cast<size_t>(rng_.between(1, 2)));
  copies_may_wait_ = true;
  if (sequences_.size() + children.size() > most_sequences_) return;
  if (children.size() == 1) {
    const Result<SequenceId> child = pool_.fork(s.id, static_cast<int32_t>(length));
    if (!child) return;
    children[0] = *child;
  } else if (!pool_.fork(s.id, static_cast<int32_t>(length), children).is_ok()) {
    return;
  }
  Sequence child{.id = {}, .content = s.content};
  child.content.cut(length, false);
  child.wish = s.wish;
  for (const SequenceId id : children) {
    child.id = id;
    sequences_.push_back(child);
  }
}

void WildEngine::keep_path(Sequence& s) {
  std::vector<SequenceId> tree = {s.id};
  for (const Sequence& other : sequences_)
    if (other.id != s.id && other.content.is_of(s.content) && rng_.chance(0.3))
      tree.push_back(other.id);
  const auto leaf = static_cast<size_t>(rng_.between(0, std::ssize(tree) - 1));
  expect(pool_.keep_path(tree, leaf), "keep_path");
  if (leaf != 0) {
    const Sequence kept = *find(tree[leaf]);
    edit(s);
    s.content = kept.content;
    s.wish = kept.wish;
    s.in_step = kept.in_step;  // which goes on to write into what is the row of `s` now
    for (Step& step : steps_)
      for (Step::Part& part : step.parts)
        if (part.id == kept.id && part.edits == kept.edits) {
          part.id = s.id;
          part.edits = s.edits;
        }
  }
  std::erase_if(sequences_, [&](const Sequence& other) {
    return std::ranges::find(tree.begin() + 1, tree.end(), other.id) != tree.end();
  });
}

void WildEngine::trim(Sequence& s) {
  const auto length =
      static_cast<size_t>(rng_.between(0, static_cast<int64_t>(s.content.tokens.size())));
  const size_t cut = rng_.chance(0.4) ? s.content.tokens.size() : length;
  const CutItems items = rng_.chance(0.4) ? CutItems::kept : CutItems::removed;
  expect(pool_.trim(s.id, static_cast<int32_t>(cut), items), "trim");
  edit(s);
  s.content.cut(cut, items == CutItems::kept);
}

void WildEngine::preempt(Sequence& s) {
  expect(rng_.chance(0.5) ? manager_.preempt(s.id) : pool_.preempt(s.id), "preempt");
  edit(s);
  s.content.cut(0, true);
}

void WildEngine::resume(Sequence& s) {
  if (has_pages(s)) {
    if (rng_.chance(0.7)) return preempt(s);
    if (manager_.resume(s.id, s.wish.empty() ? random_prompt() : s.wish))
      blame("resumes a sequence with pages");
    return;
  }
  Tokens tokens = s.wish.empty() || rng_.chance(0.2) ? random_prompt() : s.wish;
  if (rng_.chance(0.2)) {
    const Result<Admission> a = pool_.resume(s.id, tokens);
    expect(a.error(), "the pool's resume");
    if (a) begin(s, std::move(tokens), a->cached_tokens, 0);
  } else {
    const Result<TieredAdmission> a = manager_.resume(s.id, tokens);
    expect(a.error(), "resume");
    if (a) begin(s, std::move(tokens), a->cached_tokens, a->loading_tokens);
  }
}

void WildEngine::release(SequenceId id) {
  expect(rng_.chance(0.7) ? manager_.release(id) : pool_.release(id), "release");
  std::erase_if(sequences_, [id](const Sequence& s) { return s.id == id; });
}

/// Memory forgets all that nobody will write to or read.
void WildEngine::empty() {
  if (rng_.chance(0.3)) return static_cast<void>(pool_.clear());
  for (Sequence& s : sequences_) preempt(s);
  while (!steps_.empty()) end_step();
  for (int i = 0; i < 20; ++i) end_pages();
  manager_.poll();
  run_copies();
  run_copies();  // those that were taken last have run
  static_cast<void>(pool_.clear());
}

}  // namespace folio::test
