// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/group_ends.h: ends of handovers of hybrid models whose K/V and states can be
/// foretold: an element stands for all tokens up to its own, its layer, plane, head of the model
/// and place in the head; a byte of a state for the same. All that a row has is looked at, whatever
/// the next query needs of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/cache/copy.h"
#include "folio/cache/planes.h"
#include "folio/core/buffer.h"
#include "folio/core/element.h"
#include "folio/core/execution.h"
#include "folio/names/sha256_names.h"
#include "folio/tier/transfer.h"
#include "support/random.h"
#include "tier/transfer/ends.h"

namespace folio::test {

/// A group of an end: what its layers are like.
struct GroupSpec {
  GroupOptions rule = {};  ///< without bytes
  std::vector<int32_t> layers = {};
  DType dtype = DType::bf16;
  int32_t head_size = 8;
  int32_t first_head = 0, num_heads = 2, total_heads = 2;
  StorageOrder order = StorageOrder::token_major;
  std::vector<int64_t> state_parts = {24, 8};

  [[nodiscard]] bool is_state() const { return rule.rule == GroupRule::state; }
  [[nodiscard]] int64_t state_bytes() const {
    return num_heads * std::reduce(state_parts.begin(), state_parts.end());
  }
};

struct GroupEndSpec {
  std::vector<GroupSpec> groups = {};
  int32_t page_size = 4;
  int64_t pages = 64;  ///< of the arena, in pages of all groups together
  uint32_t max_io_pins = 256;
  uint8_t model = 1;
  int32_t min_partial_tokens = 0;

  [[nodiscard]] size_t num_layers() const {
    size_t count = 0;
    for (const GroupSpec& group : groups) count += group.layers.size();
    return count;
  }
};

/// As the models of these names, and one that asks more of the rules; small.
inline GroupOptions full_rule() { return {}; }
inline GroupOptions window_rule(int32_t tokens, int32_t sinks = 0) {
  return {.rule = GroupRule::window, .window = tokens, .sinks = sinks};
}
inline GroupOptions chunk_rule(int32_t tokens) {
  return {.rule = GroupRule::chunked, .chunk = tokens};
}
inline GroupOptions state_rule(int32_t checkpoint) {
  return {.rule = GroupRule::state, .checkpoint = checkpoint};
}
inline GroupEndSpec gemma_end() {
  return {.groups = {{.rule = full_rule(), .layers = {5}},
                     {.rule = window_rule(9), .layers = {0, 1, 2, 3, 4}}}};
}
inline GroupEndSpec gpt_oss_end() {
  return {.groups = {{.rule = full_rule(), .layers = {1, 3}},
                     {.rule = window_rule(5), .layers = {0, 2}}}};
}
inline GroupEndSpec llama_4_end() {
  return {.groups = {{.rule = full_rule(), .layers = {3}},
                     {.rule = chunk_rule(12), .layers = {0, 1, 2}}}};
}
inline GroupEndSpec jamba_end() {
  return {.groups = {{.rule = full_rule(), .layers = {2}},
                     {.rule = state_rule(8), .layers = {0, 1, 3}}}};
}
inline GroupEndSpec mamba_end() {
  return {
      .groups = {{.rule = full_rule(), .layers = {}}, {.rule = state_rule(8), .layers = {0, 1}}}};
}
inline GroupEndSpec mixed_end() {
  return {.groups = {{.rule = full_rule(), .layers = {1}},
                     {.rule = window_rule(9, 3), .layers = {0, 4}},
                     {.rule = window_rule(14), .layers = {2}},
                     {.rule = state_rule(8), .layers = {3}}}};
}
inline std::vector<GroupEndSpec> group_ends() {
  return {gemma_end(), gpt_oss_end(), llama_4_end(), jamba_end(), mamba_end(), mixed_end()};
}
/// Each page and each state in other pages.
inline GroupEndSpec with_pages(GroupEndSpec spec, int32_t page_size) {
  spec.page_size = page_size;
  for (GroupSpec& group : spec.groups)
    if (group.is_state()) group.rule.checkpoint = 2 * page_size;
  return spec;
}

/// Pool, arena, planes, states and transport.
class GroupEnd {
 public:
  GroupEnd(const GroupEndSpec& of, std::unique_ptr<Transport> over)
      : spec(of),
        rules_(rules_of(of)),
        arena_(Buffer::allocate(of.pages * all_bytes()).value()),
        transport(std::move(over)),
        names_(Sha256Names::create().value()),
        pool(PagePool::create({.num_pages = rules_[0].page_bytes == 0 ? 64U : 0U,
                               .page_size = of.page_size,
                               .max_sequences = 32,
                               .max_pages_per_sequence = 64,
                               .name = names_.function(),
                               .groups = rules_,
                               .arena_bytes = arena_.span().bytes,
                               .min_partial_tokens = of.min_partial_tokens,
                               .max_io_pins = of.max_io_pins})
                 .value()) {
    std::memset(arena_.data(), 0x25, static_cast<size_t>(arena_.span().bytes));
    const std::span<std::byte> bytes(arena_.data(), static_cast<size_t>(arena_.span().bytes));
    regions.push_back({transport->add_region(bytes).value(), bytes});
    place_layers();
  }

  [[nodiscard]] TransferEnd end(int64_t idle_ms = 10'000) {
    return {.transport = transport.get(),
            .pool = &pool,
            .regions = regions,
            .model = {{spec.model}},
            .name = names_.function(),
            .idle_ms = idle_ms,
            .groups = groups};
  }

  /// What a model would put there for tokens [first, last), the end of a step.
  void compute(SequenceId id, const Tokens& tokens, int32_t layer, int32_t first, int32_t last) {
    const size_t g = group_of(layer);
    for (int32_t t = spec.groups[g].is_state() ? last - 1 : first; t < last; ++t)
      visit(id, tokens, layer, t, [](std::byte* at, float value, DType dtype) {
        put(at, value, dtype);
        return true;
      });
  }
  void copy() {
    for (uint32_t g = 0; g < pool.num_groups(); ++g) {
      const std::span<const PageCopy> copies = pool.take_copies(g);
      if (!planes[g].empty())
        copy_pages(planes[g], planes[g], copies, serial_executor()).or_throw();
      const int64_t stride = pool.group(g).value().page_bytes;
      if (!states[g].empty())
        for (const PageCopy& copy : copies)
          std::memcpy(arena_.data() + copy.to * stride, arena_.data() + copy.from * stride,
                      static_cast<size_t>(stride));
    }
  }
  /// The first thing that is wrong for a sequence of `length` tokens: in its rows, or what a query
  /// behind it needs and has not.
  [[nodiscard]] std::string wrong(SequenceId id, const Tokens& tokens, int32_t length,
                                  int32_t layers = 1 << 20) {
    for (int32_t layer = 0; layer < std::min(layers, static_cast<int32_t>(spec.num_layers()));
         ++layer) {
      const GroupSpec& group = spec.groups[group_of(layer)];
      for (int32_t t = 0; t < length; ++t) {
        if (group.is_state() && t != length - 1) continue;
        const bool is_there = page_of(id, layer, t) >= 0;
        bool is_right = is_there || !sees(group.rule, length, t);
        if (is_there)
          visit(id, tokens, layer, t, [&](const std::byte* at, float value, DType dtype) {
            return is_right = is_right && get(at, dtype) == value;
          });
        if (!is_right)
          return "token " + std::to_string(t) + " of " + std::to_string(length) + ", layer " +
                 std::to_string(layer) + (is_there ? "" : ": no page");
      }
    }
    return {};
  }

  const GroupEndSpec spec;

 private:
  [[nodiscard]] static std::vector<GroupOptions> rules_of(const GroupEndSpec& of) {
    std::vector<GroupOptions> rules;
    for (const GroupSpec& group : of.groups) {
      rules.push_back(group.rule);
      rules.back().page_bytes = group.is_state() ? std::ssize(group.layers) * group.state_bytes()
                                : group.layers.empty() ? 0
                                                       : page_bytes(shape(of, group)).value();
    }
    return rules;
  }
  [[nodiscard]] static KVShape shape(const GroupEndSpec& of, const GroupSpec& group) {
    return {.num_layers = static_cast<int32_t>(group.layers.size()),
            .num_heads = group.num_heads,
            .head_size = group.head_size,
            .page_size = of.page_size,
            .dtype = group.dtype,
            .order = group.order};
  }
  [[nodiscard]] int64_t all_bytes() const {
    int64_t bytes = 0;
    for (const GroupOptions& rule : rules_) bytes += rule.page_bytes;
    return bytes;
  }
  void place_layers() {
    planes.resize(spec.groups.size());
    states.resize(spec.groups.size());
    for (size_t g = 0; g < spec.groups.size(); ++g) {
      const GroupSpec& of = spec.groups[g];
      const GroupFigures figures = pool.group(static_cast<uint32_t>(g)).value();
      if (of.is_state()) {
        for (size_t l = 0; l < of.layers.size(); ++l)
          states[g].push_back({arena_.data() + static_cast<int64_t>(l) * of.state_bytes(),
                               figures.page_bytes, of.state_bytes()});
      } else if (!of.layers.empty()) {
        KVShape with_stride = shape(spec, of);
        with_stride.page_stride_bytes = figures.page_bytes;
        planes[g] = make_planes(with_stride, figures.num_pages, arena_.span()).value();
      }
      const bool has_layers = !of.layers.empty();
      groups.push_back({.pages = {planes[g], states[g], of.layers},
                        .first_head = has_layers ? of.first_head : 0,
                        .total_heads = has_layers ? of.total_heads : 0,
                        .state_parts = of.is_state() ? std::span<const int64_t>(of.state_parts)
                                                     : std::span<const int64_t>()});
    }
  }
  [[nodiscard]] size_t group_of(int32_t layer) const {
    for (size_t g = 0; g < spec.groups.size(); ++g)
      if (std::ranges::count(spec.groups[g].layers, layer) != 0) return g;
    ADD_FAILURE() << layer;
    return 0;
  }
  [[nodiscard]] static bool sees(const GroupOptions& rule, int32_t length, int32_t token) {
    switch (rule.rule) {
      case GroupRule::full: return true;
      case GroupRule::window: return token > length - rule.window || token < rule.sinks;
      case GroupRule::chunked: return token / rule.chunk == length / rule.chunk;
      case GroupRule::state: return token == length - 1;
    }
    return false;
  }
  /// -1: none.
  [[nodiscard]] int64_t page_of(SequenceId id, int32_t layer, int32_t token) const {
    const auto g = static_cast<uint32_t>(group_of(layer));
    const GroupFigures figures = pool.group(g).value();
    const int64_t row = pool.row_start(id, g).value();
    const uint32_t page = pool.table(g).entries[row + token / figures.page_size];
    return page < figures.num_pages ? int64_t{page} : -1;
  }
  [[nodiscard]] static uint64_t history(const Tokens& tokens, int32_t token) {
    uint64_t h = 1;
    for (int32_t t = 0; t <= token; ++t)
      h = Rng(h + static_cast<uint64_t>(tokens[static_cast<size_t>(t)])).next();
    return h;
  }
  /// Calls for each element of the token, or byte of the state behind it, until it returns false.
  template <class Visit>
  void visit(SequenceId id, const Tokens& tokens, int32_t layer, int32_t token, Visit each) {
    const size_t g = group_of(layer);
    const GroupSpec& of = spec.groups[g];
    const auto at = static_cast<size_t>(std::ranges::find(of.layers, layer) - of.layers.begin());
    const int64_t page = page_of(id, layer, token);
    ASSERT_GE(page, 0) << "token " << token << ", layer " << layer;
    const uint64_t seed = history(tokens, token) + static_cast<uint64_t>(layer) * 1024;
    if (of.is_state()) return visit_state(states[g][at], of, page, seed, each);
    for (const PagedKVView* view : {&planes[g][at].key, &planes[g][at].value}) {
      for (int32_t head = 0; head < of.num_heads; ++head) {
        Rng rng(seed + static_cast<uint64_t>(head + of.first_head) * 2 +
                (view == &planes[g][at].key ? 1 : 0));
        std::byte* const first =
            static_cast<std::byte*>(view->data) + page * view->page_stride_bytes +
            token % spec.page_size * view->slot_stride_bytes + head * view->head_stride_bytes;
        for (int32_t e = 0; e < of.head_size; ++e)
          if (!each(first + e * bit_width(of.dtype) / 8, static_cast<float>(rng.between(-8, 8)),
                    of.dtype))
            return;
      }
    }
  }
  template <class Visit>
  static void visit_state(const tier::StatePages& state, const GroupSpec& of, int64_t page,
                          uint64_t seed, Visit each) {
    std::byte* at = state.data + page * state.page_stride_bytes;
    for (size_t part = 0; part < of.state_parts.size(); ++part) {
      for (int32_t head = 0; head < of.num_heads; ++head) {
        Rng rng(seed + static_cast<uint64_t>(head + of.first_head) * 8 + part);
        for (int64_t b = 0; b < of.state_parts[part]; ++b)
          if (!each(at++, static_cast<float>(rng.between(0, 255)), DType::i8)) return;
      }
    }
  }
  static void put(std::byte* to, float value, DType dtype) {
    switch (dtype) {
      case DType::f32: *reinterpret_cast<float*>(to) = value; break;
      case DType::bf16: *reinterpret_cast<bf16*>(to) = from_float<bf16>(value); break;
      case DType::f16: *reinterpret_cast<f16*>(to) = from_float<f16>(value); break;
      case DType::f8_e4m3: *reinterpret_cast<f8_e4m3*>(to) = from_float<f8_e4m3>(value); break;
      default: *to = static_cast<std::byte>(value);
    }
  }
  [[nodiscard]] static float get(const std::byte* from, DType dtype) {
    switch (dtype) {
      case DType::f32: return *reinterpret_cast<const float*>(from);
      case DType::bf16: return to_float(*reinterpret_cast<const bf16*>(from));
      case DType::f16: return to_float(*reinterpret_cast<const f16*>(from));
      case DType::f8_e4m3: return to_float(*reinterpret_cast<const f8_e4m3*>(from));
      default: return static_cast<float>(std::to_integer<int>(*from));
    }
  }

  const std::vector<GroupOptions> rules_;
  Buffer arena_;  ///< outlives the transport, whose peers write to it

 public:
  const std::unique_ptr<Transport> transport;

 private:
  Sha256Names names_;

 public:
  PagePool pool;
  std::vector<std::vector<KVPlanes>> planes;          ///< by group
  std::vector<std::vector<tier::StatePages>> states;  ///< by group
  std::vector<tier::GroupOfTransfer> groups;
  std::vector<TransferRegion> regions;
};

/// An end that prefills.
class GroupPrefillEnd : public GroupEnd {
 public:
  GroupPrefillEnd(const GroupEndSpec& of, std::unique_ptr<Transport> over,
                  HandoverSenderOptions options = {})
      : GroupEnd(of, std::move(over)), sender(make(options)) {}

  [[nodiscard]] PeerId connect(GroupEnd& to) {
    PeerId& id = peers_[&to];
    if (id == PeerId{}) id = transport->connect(to.transport->address().value()).value();
    return id;
  }
  /// Computes tokens [first, last) layer by layer, pushes them, polls and commits. False where
  /// there is no room.
  bool prefill(SequenceId id, const Tokens& tokens, std::span<const HandoverId> handovers,
               int32_t first, int32_t last, int64_t now = 0) {
    if (!pool.reserve(id, last - first).is_ok()) return false;
    copy();
    for (int32_t layer = 0; layer < static_cast<int32_t>(spec.num_layers()); ++layer) {
      compute(id, tokens, layer, first, last);
      // refused where the handover has ended meanwhile
      for (const HandoverId h : handovers)
        static_cast<void>(sender.push(h, layer, first, last - first));
    }
    sender.poll(now);
    pool.commit(id, std::span(tokens).subspan(static_cast<size_t>(first),
                                              static_cast<size_t>(last - first)))
        .or_throw();
    return true;
  }

  HandoverSender sender;

 private:
  HandoverSender make(HandoverSenderOptions options) {
    options.end = end(options.end.idle_ms);
    return HandoverSender::create(options).value();
  }
  std::map<const GroupEnd*, PeerId> peers_;
};

/// An end that decodes.
class GroupDecodeEnd : public GroupEnd {
 public:
  GroupDecodeEnd(const GroupEndSpec& of, std::unique_ptr<Transport> over,
                 HandoverReceiverOptions options = {})
      : GroupEnd(of, std::move(over)), receiver(make(options)) {}

  /// The next sequence that has come, or one without tokens.
  [[nodiscard]] ReceivedSequence take() {
    ReceivedSequence sequence[1];
    static_cast<void>(receiver.take(sequence));
    return std::move(sequence[0]);
  }
  /// Computes all tokens of a sequence that has none. What is wrong.
  std::string compute_all(SequenceId id, const Tokens& tokens) {
    const auto length = static_cast<int32_t>(tokens.size());
    if (!pool.reserve(id, length).is_ok()) return "no room";
    for (int32_t layer = 0; layer < static_cast<int32_t>(spec.num_layers()); ++layer)
      compute(id, tokens, layer, 0, length);
    pool.commit(id, tokens).or_throw();
    return wrong(id, tokens, length);
  }
  /// Computes what comes behind, some tokens, and looks at all of it. What is wrong.
  std::string go_on(SequenceId id, Tokens& tokens, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      if (!pool.reserve(id, 1).is_ok()) return {};
      copy();
      const auto length = static_cast<int32_t>(tokens.size());
      tokens.push_back(60'000 + i);
      for (int32_t layer = 0; layer < static_cast<int32_t>(spec.num_layers()); ++layer)
        compute(id, tokens, layer, length, length + 1);
      pool.commit(id, std::span(tokens).last(1)).or_throw();
      if (std::string what = wrong(id, tokens, length + 1); !what.empty()) return what;
    }
    return {};
  }
  /// What is wrong with what a prompt finds, and so with each of its beginnings.
  std::string look_for(const Tokens& tokens) {
    for (size_t size = tokens.size(); size > 0; --size) {
      const Tokens prompt(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(size));
      const Result<Admission> a = pool.admit(prompt);
      if (!a) return {};
      copy();
      const std::string what = wrong(a->id, prompt, a->cached_tokens);
      pool.release(a->id).or_throw();
      if (!what.empty()) return "found again: " + what;
    }
    return {};
  }

  HandoverReceiver receiver;

 private:
  HandoverReceiver make(HandoverReceiverOptions options) {
    options.end = end(options.end.idle_ms);
    return HandoverReceiver::create(options).value();
  }
};

inline void expect_idle(GroupPrefillEnd& end) {
  EXPECT_EQ(end.pool.check_invariants().message(), "");
  const HandoverSenderFigures figures = end.sender.figures();
  EXPECT_EQ(figures.handovers, 0);
  EXPECT_EQ(figures.posts, 0);
  EXPECT_EQ(figures.pinned_pages, 0);
}
inline void expect_idle(GroupDecodeEnd& end) {
  EXPECT_EQ(end.pool.check_invariants().message(), "");
  const HandoverReceiverFigures figures = end.receiver.figures();
  EXPECT_EQ(figures.handovers, 0);
  EXPECT_EQ(figures.sequences, 0);
  EXPECT_EQ(figures.used_slots, 0);
  EXPECT_EQ(figures.pinned_pages, 0);
}
/// Of all groups.
inline int64_t used_pages(const GroupEnd& end) {
  int64_t used = 0;
  for (uint32_t g = 0; g < end.pool.num_groups(); ++g) used += end.pool.group(g).value().used_pages;
  return used;
}

}  // namespace folio::test
