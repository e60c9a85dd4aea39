// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/group_engine.h: an engine of a hybrid model whose K/V and states can be
/// foretold: bytes of a token in a layer, or of a state behind it, stand for all tokens up to it,
/// and all that a query may see is looked at all the time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/cache/copy.h"
#include "folio/cache/planes.h"
#include "folio/core/buffer.h"
#include "folio/core/execution.h"
#include "folio/names/sha256_names.h"
#include "folio/tier/cache_manager.h"
#include "support/random.h"
#include "tier/manager/pattern_engine.h"

namespace folio::test {

/// A group's rule, without bytes, and its layers' numbers in the model.
struct GroupShape {
  GroupOptions rule;
  std::vector<int32_t> layers;
};
struct ModelShape {
  std::string name;
  std::vector<GroupShape> groups;
};

inline constexpr int32_t group_page_size = 4;

/// As the models of these names, and some that ask more of the rules; small.
inline std::vector<ModelShape> model_shapes() {
  const GroupOptions full = {};
  const auto window = [](int32_t tokens, int32_t sinks) {
    return GroupOptions{.rule = GroupRule::window, .window = tokens, .sinks = sinks};
  };
  const GroupOptions chunked{.rule = GroupRule::chunked, .chunk = 12};
  const GroupOptions state{.rule = GroupRule::state, .checkpoint = 8};
  return {{"gemma", {{full, {2, 5}}, {window(9, 0), {0, 1, 3, 4}}}},
          {"gpt_oss", {{full, {1, 3}}, {window(3, 0), {0, 2}}}},
          {"llama_4", {{full, {3}}, {chunked, {0, 1, 2}}}},
          {"jamba", {{full, {2}}, {state, {0, 1, 3}}}},
          {"mamba", {{full, {}}, {state, {0, 1}}}},
          {"two_windows_and_a_state",
           {{full, {1}}, {window(6, 2), {0}}, {window(14, 0), {2, 4}}, {state, {3}}}}};
}

class GroupEngine {
 public:
  using Tokens = std::vector<TokenId>;
  static constexpr int32_t page_size = group_page_size;
  static constexpr int64_t token_bytes = 2 * 64, state_bytes = 128;

  struct Options {
    ModelShape model;
    int64_t pages = 0;  ///< of all layers with attention, in bytes
    std::vector<TierOfCache> tiers = {};
    uint32_t max_io_pins = 128;
    int32_t min_partial_tokens = 0;
    uint32_t max_spans = 0;
    EventFunction on_event = {};
    int32_t hit_interval = 0;          ///< of all groups that may have one
    CacheManagerOptions manager = {};  ///< pool, name, groups and tiers are the engine's
  };

  explicit GroupEngine(const Options& options)
      : model_(options.model),
        names_(Sha256Names::create().value()),
        rules_(rules_of(options.model)),
        arena_(Buffer::allocate(options.pages * all_bytes()).value()),
        pool_(PagePool::create({.num_pages = rules_[0].page_bytes == 0 ? 64U : 0U,
                                .page_size = page_size,
                                .max_sequences = 12,
                                .max_pages_per_sequence = 160,
                                .name = names_.function(),
                                .groups = rules_,
                                .arena_bytes = arena_.span().bytes,
                                .on_event = options.on_event,
                                .min_partial_tokens = options.min_partial_tokens,
                                .max_spans = options.max_spans,
                                .max_io_pins = options.max_io_pins})
                  .value()),
        spares_(spares_of(options.tiers, options.manager)),
        manager_(make_manager(options)) {
    std::memset(arena_.data(), 0xa5, static_cast<size_t>(arena_.span().bytes));
  }

  [[nodiscard]] CacheManager& manager() { return manager_; }
  [[nodiscard]] PagePool& pool() { return pool_; }
  [[nodiscard]] NameFunction names() { return names_.function(); }
  [[nodiscard]] std::span<const tier::GroupOfCache> groups() const { return groups_; }
  [[nodiscard]] std::span<std::byte> memory() {
    return {arena_.data(), static_cast<size_t>(arena_.span().bytes)};
  }
  [[nodiscard]] size_t living() const { return sequences_.size(); }
  [[nodiscard]] SequenceId id(size_t i) const { return sequences_[i].id; }
  [[nodiscard]] int32_t length(size_t i) const { return pool_.length(id(i)).value(); }
  [[nodiscard]] LoadState load_state(size_t i) const { return manager_.load_state(id(i)); }
  [[nodiscard]] static int64_t page_bytes(const GroupShape& group) {
    const auto layers = std::ssize(group.layers);
    return layers * (group.rule.rule == GroupRule::state ? state_bytes : token_bytes * page_size);
  }

  /// A query behind `length` tokens sees this one; of states, that behind it.
  [[nodiscard]] static bool sees(const GroupOptions& rule, int32_t length, int32_t token) {
    switch (rule.rule) {
      case GroupRule::full: return true;
      case GroupRule::window: return token > length - rule.window || token < rule.sinks;
      case GroupRule::chunked: return token / rule.chunk == length / rule.chunk;
      case GroupRule::state: return token == length - 1;
    }
    return false;
  }

  /// Null where the pool has no sequence.
  const TieredAdmission* admit(const Tokens& prompt) {
    const Result<TieredAdmission> a = manager_.admit(prompt);
    if (!a) return nullptr;
    admission_ = *a;
    sequences_.push_back({a->id, prompt, a->cached_tokens + a->loading_tokens});
    copy();
    return &admission_;
  }
  /// Computes what the sequence has not, step by step, as far as there is room. False while it
  /// loads.
  bool compute(size_t i) {
    Sequence& s = sequences_[i];
    if (load_state(i) == LoadState::loading) return false;
    for (;;) {
      const int32_t done = length(i), end = static_cast<int32_t>(s.tokens.size());
      if (done == end) return true;
      int32_t step = std::min(end - done, 7);
      for (const GroupOptions& rule : rules_)
        if (rule.rule == GroupRule::state)
          step = tokens_to_checkpoint(done, end, 7, page_size, rule.checkpoint);
      if (!pool_.reserve(s.id, step).is_ok()) return true;
      copy();
      for (size_t g = 0; g < rules_.size(); ++g)
        for (int32_t t = done; t < done + step; ++t) write(s, g, t, t + 1 == done + step);
      manager_
          .commit(s.id,
                  std::span(s.tokens).subspan(static_cast<size_t>(done), static_cast<size_t>(step)))
          .or_throw();
    }
  }
  void preempt(size_t i) { manager_.preempt(id(i)).or_throw(); }
  void resume(size_t i) {
    Sequence& s = sequences_[i];
    const TieredAdmission a = manager_.resume(s.id, s.tokens).value();
    s.reach = a.cached_tokens + a.loading_tokens;
    copy();
  }
  void extend(size_t i, TokenId token) { sequences_[i].tokens.push_back(token); }
  void release(size_t i) {
    manager_.release(id(i)).or_throw();
    sequences_.erase(sequences_.begin() + static_cast<long>(i));
  }
  /// Who has waited for another load may begin one of its own when that has ended.
  void settle() {
    const auto is_busy = [this] {
      return manager_.figures().loads + manager_.figures().stores != 0;
    };
    do {
      while (is_busy()) manager_.poll();
      manager_.poll();
    } while (is_busy());
  }

  /// What the query behind each sequence may see is right in all groups; with `is_honest` tiers,
  /// behind what it loads, too, in the layers that are said to be ready.
  void check(bool is_honest = false) {
    ASSERT_EQ(pool_.check_invariants().message(), "");
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const Sequence& s = sequences_[i];
      if (load_state(i) != LoadState::loading) {
        ASSERT_EQ(wrong(s, length(i), num_layers()), "") << "sequence " << i;
        continue;
      }
      const int32_t ready = is_honest ? manager_.layers_ready(s.id) : 0;
      if (ready == 0 || s.reach != length(i) + loading(i)) continue;
      ++early_looks_;
      ASSERT_EQ(wrong(s, s.reach, ready), "") << "layers before " << ready << " of sequence " << i;
    }
  }
  [[nodiscard]] int64_t early_looks() const { return early_looks_; }

  /// Nothing is held by anybody in the end.
  void finish() {
    while (!sequences_.empty()) release(0);
    settle();
    copy();
    ASSERT_EQ(pool_.check_invariants().message(), "");
    for (uint32_t g = 0; g < pool_.num_groups(); ++g)
      ASSERT_EQ(pool_.group(g).value().used_pages, spares_) << "group " << g;
    ASSERT_EQ(pool_.stats().sequences, 0);
    ASSERT_EQ(pool_.clear().is_ok(), spares_ == 0);
  }

 private:
  struct Sequence {
    SequenceId id;
    Tokens tokens;
    int32_t reach = 0;  ///< tokens of its admission: cached and on their way
  };

  [[nodiscard]] static std::vector<GroupOptions> rules_of(const ModelShape& model) {
    std::vector<GroupOptions> rules;
    for (const GroupShape& group : model.groups) {
      rules.push_back(group.rule);
      rules.back().page_bytes = page_bytes(group);
    }
    return rules;
  }
  [[nodiscard]] int64_t all_bytes() const {
    int64_t bytes = 0;
    for (const GroupOptions& rule : rules_) bytes += rule.page_bytes;
    return bytes;
  }
  [[nodiscard]] int32_t num_layers() const {
    int32_t layers = 0;
    for (const GroupShape& group : model_.groups)
      layers += static_cast<int32_t>(group.layers.size());
    return layers;
  }
  [[nodiscard]] int32_t loading(size_t i) const {
    const int32_t target = pool_.load_length(id(i)).value();
    return target == 0 ? 0 : target - length(i);
  }

  CacheManager make_manager(const Options& options) {
    states_.resize(model_.groups.size());
    planes_.resize(model_.groups.size());
    for (size_t g = 0; g < model_.groups.size(); ++g) {
      const GroupFigures figures = pool_.group(static_cast<uint32_t>(g)).value();
      const auto layers = static_cast<int32_t>(model_.groups[g].layers.size());
      page_sizes_.push_back(figures.page_size);
      strides_.push_back(figures.page_bytes);
      if (rules_[g].rule == GroupRule::state) {
        for (int32_t l = 0; l < layers; ++l)
          states_[g].push_back({arena_.data() + l * state_bytes, figures.page_bytes, state_bytes});
      } else if (layers != 0) {
        planes_[g] = make_planes({.num_layers = layers,
                                  .num_heads = 2,
                                  .head_size = 8,
                                  .page_size = page_size,
                                  .dtype = DType::f32,
                                  .page_stride_bytes = figures.page_bytes},
                                 figures.num_pages, arena_.span())
                         .value();
      }
      const bool has_interval = g != 0 && rules_[g].rule != GroupRule::state;
      groups_.push_back({.planes = planes_[g],
                         .states = states_[g],
                         .layers = model_.groups[g].layers,
                         .hit_interval = has_interval ? options.hit_interval : 0});
    }
    CacheManagerOptions all = options.manager;
    all.pool = &pool_;
    all.groups = groups_;
    all.tiers = options.tiers;
    return CacheManager::create(all).value();
  }

  void copy() {
    for (uint32_t g = 0; g < pool_.num_groups(); ++g) {
      const std::span<const PageCopy> copies = pool_.take_copies(g);
      if (rules_[g].rule != GroupRule::state) {
        if (!planes_[g].empty())
          copy_pages(planes_[g], planes_[g], copies, serial_executor()).or_throw();
        continue;
      }
      for (const PageCopy& copy : copies)
        std::memcpy(arena_.data() + copy.to * strides_[g], arena_.data() + copy.from * strides_[g],
                    static_cast<size_t>(strides_[g]));
    }
  }

  /// Bytes of layer `l` of the group, of a token or of the state behind it.
  std::vector<std::span<std::byte>> places(const Sequence& s, size_t g, int32_t token, size_t l) {
    const auto group = static_cast<uint32_t>(g);
    const uint32_t* const row = pool_.table(group).entries + pool_.row_start(s.id, group).value();
    const uint32_t page = row[token / page_sizes_[g]];
    if (page >= pool_.group(group).value().num_pages) return {};
    if (rules_[g].rule == GroupRule::state)
      return {{arena_.data() + page * strides_[g] + static_cast<int64_t>(l) * state_bytes,
               static_cast<size_t>(state_bytes)}};
    std::vector<std::span<std::byte>> both;
    for (const PagedKVView* view : {&planes_[g][l].key, &planes_[g][l].value})
      both.emplace_back(static_cast<std::byte*>(view->data) + page * view->page_stride_bytes +
                            token % page_size * view->slot_stride_bytes,
                        64);
    return both;
  }
  /// What these bytes are to be.
  static std::vector<std::byte> bytes_of(const Sequence& s, int32_t token, int32_t layer,
                                         size_t count) {
    uint64_t history = 1;
    for (int32_t t = 0; t <= token; ++t)
      history = history * 0x9e3779b97f4a7c15U +
                static_cast<uint64_t>(s.tokens[static_cast<size_t>(t)]) + 1;
    Rng rng(history + static_cast<uint64_t>(layer) * 977);
    std::vector<std::byte> bytes(count);
    for (size_t b = 0; b < count; b += 8) {
      const uint64_t word = rng.next();
      std::memcpy(&bytes[b], &word, 8);
    }
    return bytes;
  }
  void write(const Sequence& s, size_t g, int32_t token, bool ends_step) {
    if (rules_[g].rule == GroupRule::state && !ends_step) return;
    for (size_t l = 0; l < model_.groups[g].layers.size(); ++l) {
      size_t side = 0;
      for (const auto& place : places(s, g, token, l)) {
        const auto bytes = bytes_of(
            s, token, 2 * model_.groups[g].layers[l] + static_cast<int32_t>(side++), place.size());
        std::ranges::copy(bytes, place.begin());
      }
    }
  }
  /// The first thing that is wrong for a query behind `length` tokens, in layers before `layers`.
  std::string wrong(const Sequence& s, int32_t length, int32_t layers) {
    for (size_t g = 0; g < rules_.size(); ++g) {
      for (int32_t t = 0; t < length; ++t) {
        if (!sees(rules_[g], length, t)) continue;
        for (size_t l = 0; l < model_.groups[g].layers.size(); ++l) {
          const int32_t layer = model_.groups[g].layers[l];
          if (layer >= layers) continue;
          const auto there = places(s, g, t, l);
          bool is_right = !there.empty();
          for (size_t side = 0; side < there.size(); ++side)
            is_right =
                is_right && std::ranges::equal(
                                there[side], bytes_of(s, t, 2 * layer + static_cast<int32_t>(side),
                                                      there[side].size()));
          if (!is_right)
            return "token " + std::to_string(t) + " of " + std::to_string(length) + ", group " +
                   std::to_string(g) + ", layer " + std::to_string(layer);
        }
      }
    }
    return {};
  }

  ModelShape model_;
  Sha256Names names_;
  std::vector<GroupOptions> rules_;
  Buffer arena_;
  PagePool pool_;
  std::vector<std::vector<KVPlanes>> planes_;
  std::vector<std::vector<tier::StatePages>> states_;
  std::vector<tier::GroupOfCache> groups_;
  std::vector<int32_t> page_sizes_;
  std::vector<int64_t> strides_;
  int64_t spares_;
  CacheManager manager_;
  std::vector<Sequence> sequences_;
  TieredAdmission admission_;
  int64_t early_looks_ = 0;
};

}  // namespace folio::test
