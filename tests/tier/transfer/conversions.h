// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/conversions.h: handovers between ends that differ in their rows: what comes
/// is what `copy_slots` makes of the sender's pages, and near to what the sender was given.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "folio/cache/copy.h"
#include "folio/tier/transports.h"
#include "tier/peer/transport_helpers.h"
#include "tier/transfer/ends.h"
#include "tier/transfer/geometry.h"

namespace folio::test {

inline constexpr int32_t max_tokens = 50;

/// K and V of a sequence's tokens, each a row, as f32.
class Rows {
 public:
  explicit Rows(const EndSpec& of)
      : shape_{.num_layers = of.num_layers,
               .num_heads = of.num_heads,
               .head_size = of.head_size,
               .page_size = max_tokens,
               .dtype = DType::f32,
               .is_mla = of.is_mla},
        memory_(Buffer::allocate(page_bytes(shape_).value()).value()),
        planes(make_planes(shape_, 1, memory_.span()).value()) {
    for (float& x : values()) x = 0;
  }
  [[nodiscard]] std::span<float> values() {
    return {reinterpret_cast<float*>(memory_.data()), static_cast<size_t>(memory_.bytes() / 4)};
  }

 private:
  KVShape shape_;
  Buffer memory_;

 public:
  std::vector<KVPlanes> planes;
};

/// The slots of a sequence's first tokens.
inline std::vector<int64_t> slots_of(const End& end, SequenceId id, int32_t count) {
  const uint32_t* const row = end.pool.table().entries + end.pool.row_start(id).value();
  const int32_t size = end.spec.page_size;
  std::vector<int64_t> slots;
  slots.reserve(static_cast<size_t>(count));
  for (int32_t t = 0; t < count; ++t) slots.push_back(int64_t{row[t / size]} * size + t % size);
  return slots;
}

inline void copy_rows(std::span<const KVPlanes> from, std::span<const int64_t> from_slots,
                      std::span<const KVPlanes> to, std::span<const int64_t> to_slots) {
  std::vector<SlotCopy> copies;
  for (size_t t = 0; t < from_slots.size(); ++t) copies.push_back({from_slots[t], to_slots[t]});
  copy_slots(from, to, copies, serial_executor()).or_throw();
}

/// Heads of `planes`, which has those from `first` on.
inline std::vector<KVPlanes> heads_of(std::span<const KVPlanes> planes, int32_t first,
                                      int32_t count) {
  std::vector<KVPlanes> narrow;
  for (const KVPlanes& layer : planes) narrow.push_back(tier::with_heads(layer, first, count));
  return narrow;
}

/// Equal channel scales are known to be by where they lie.
inline void share_channels(std::span<const KVPlanes> from, std::span<KVPlanes> to) {
  for (size_t layer = 0; layer < from.size(); ++layer) {
    to[layer].key.channel_scales = from[layer].key.channel_scales;
    to[layer].value.channel_scales = from[layer].value.channel_scales;
  }
}

/// The slots of `count` rows.
inline std::vector<int64_t> first_rows(int32_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

class Conversions : public ::testing::Test {
 protected:
  /// A prompt goes from senders to a receiver, which then has what `copy_slots` makes of theirs.
  void hand_over(const std::vector<EndSpec>& senders, const EndSpec& receiver,
                 Landing landing = Landing::direct) {
    const Tokens tokens = random_tokens(rng, rng.int_between(1, max_tokens));
    const auto count = static_cast<int32_t>(tokens.size());
    const std::vector<int64_t> rows = first_rows(count);
    EndSpec all = receiver, like = receiver;
    all.num_heads = receiver.total_heads;
    like.page_size = max_tokens, like.num_pages = 1;
    Rows truth(all), got(receiver), wanted(receiver);
    for (float& x : truth.values()) x = static_cast<float>(rng.between(-1000, 1000)) / 1000;
    InProcessNetwork network;
    DecodeEnd to(receiver, network.make_end().value(),
                 {.landing = landing, .staging_slots = 5, .staging_slot_bytes = 1 << 16});
    End expected(like, network.make_end().value());
    std::vector<std::unique_ptr<PrefillEnd>> froms;
    for (const EndSpec& spec : senders) {
      PrefillEnd& from =
          *froms.emplace_back(std::make_unique<PrefillEnd>(spec, network.make_end().value()));
      const SequenceId id = from.admit(tokens).value().id;
      const std::vector<int64_t> slots = slots_of(from, id, count);
      copy_rows(heads_of(truth.planes, spec.first_head, spec.num_heads), rows, from.planes, slots);
      const HandoverId h = from.sender.begin(from.connect(to), 1, id, tokens).value();
      for (int32_t layer = 0; layer < spec.num_layers; ++layer)
        from.sender.push_layer(h, layer).or_throw();
      from.sender.finish(h).or_throw();
      const int32_t first = std::max(spec.first_head, receiver.first_head);
      const int32_t heads =
          std::min(spec.first_head + spec.num_heads, receiver.first_head + receiver.num_heads) -
          first;
      const std::vector<KVPlanes> theirs = heads_of(from.planes, first - spec.first_head, heads);
      std::vector<KVPlanes> ours = heads_of(expected.planes, first - receiver.first_head, heads);
      if (spec.channels == receiver.channels) share_channels(theirs, ours);
      copy_rows(theirs, slots, ours, rows);
    }
    ASSERT_TRUE(comes_true([&] {
      for (const auto& from : froms) from->sender.poll(0);
      to.receiver.poll(0);
      return to.receiver.figures().committed == 1 || !to.receiver.last_fault().is_ok();
    }));
    ASSERT_TRUE(to.receiver.last_fault().is_ok()) << to.receiver.last_fault().message();
    figures = to.receiver.figures();
    const ReceivedSequence sequence = to.take();
    copy_rows(to.planes, slots_of(to, sequence.id, count), got.planes, rows);
    copy_rows(expected.planes, rows, wanted.planes, rows);
    EXPECT_TRUE(std::ranges::equal(got.values(), wanted.values()));
    Rows near(receiver);
    copy_rows(heads_of(truth.planes, receiver.first_head, receiver.num_heads), rows, near.planes,
              rows);
    for (size_t i = 0; i < got.values().size(); ++i)
      ASSERT_NEAR(got.values()[i], near.values()[i], largest_error) << i;
  }
  Rng rng{test_seed()};
  /// What can be told of an element that went through the formats of two ends, of [-1, 1].
  float largest_error = 0.3F;
  HandoverReceiverFigures figures;  ///< of the latest handover
};

inline EndSpec spec_of(DType dtype, int32_t page_size = 4) {
  return {.page_size = page_size, .dtype = dtype, .num_layers = 2, .head_size = 64};
}
inline EndSpec scaled(DType dtype, int32_t granularity, int32_t page_size = 4) {
  EndSpec spec = spec_of(dtype, page_size);
  spec.scale_dtype = DType::f32, spec.granularity = granularity;
  return spec;
}

}  // namespace folio::test
