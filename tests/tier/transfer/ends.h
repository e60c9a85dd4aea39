// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/ends.h: ends of handovers whose K/V can be foretold: each element is a small
/// whole number that stands for all tokens up to its own, its layer, plane, head of the model and
/// place in the head. It is exact in every dtype.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "folio/cache/planes.h"
#include "folio/core/buffer.h"
#include "folio/core/element.h"
#include "folio/names/sha256_names.h"
#include "folio/tier/transfer.h"
#include "support/random.h"

namespace folio::test {

using Tokens = std::vector<TokenId>;

/// What the rows of V are, where they are not as K's.
struct ValueSpec {
  DType dtype = DType::invalid;  ///< invalid: as K's
  DType scale_dtype = DType::invalid;
  int32_t granularity = 0;
  Zeros zeros = Zeros::none;
  Hadamard hadamard = {};
};

/// What an end is like.
struct EndSpec {
  int32_t page_size = 4;
  DType dtype = DType::bf16;
  int32_t first_head = 0, num_heads = 2, total_heads = 2;
  int32_t num_layers = 3, head_size = 32;
  bool is_mla = false;
  StorageOrder order = StorageOrder::token_major;
  DType scale_dtype = DType::invalid;
  int32_t granularity = 0;
  Zeros zeros = Zeros::none;
  Hadamard hadamard = {};
  ValueSpec value = {};
  float channels = 0.0f;  ///< channel scales of head h, column c: channels + h + c % 5; 0: none
  uint32_t num_pages = 64;
  uint32_t max_io_pins = 256;
  int32_t min_partial_tokens = 0;
  uint8_t model = 1;
};

/// Pool, planes and transport.
class End {
 public:
  End(const EndSpec& of, std::unique_ptr<Transport> over)
      : spec(of),
        transport(std::move(over)),
        names_(Sha256Names::create().value()),
        pool(std::move(PagePool::create({.num_pages = of.num_pages,
                                         .page_size = of.page_size,
                                         .max_sequences = 64,
                                         .name = names_.function(),
                                         .min_partial_tokens = of.min_partial_tokens,
                                         .max_io_pins = of.max_io_pins}))
                 .value()),
        planes(make(shape())) {
    if (has_values_apart()) {
      const std::vector<KVPlanes> values = make(value_shape());
      for (size_t layer = 0; layer < planes.size(); ++layer)
        planes[layer].value = values[layer].key;
    }
    if (of.channels != 0.0f) add_channels();
  }

  [[nodiscard]] KVShape shape() const {
    return {.num_layers = spec.num_layers,
            .num_heads = spec.num_heads,
            .head_size = spec.head_size,
            .page_size = spec.page_size,
            .dtype = spec.dtype,
            .is_mla = spec.is_mla || has_values_apart(),
            .scale_dtype = spec.scale_dtype,
            .quantization_granularity = spec.granularity,
            .zeros = spec.zeros,
            .hadamard = spec.hadamard,
            .order = spec.order};
  }
  [[nodiscard]] TransferEnd end(int64_t idle_ms = 10'000) {
    return {.transport = transport.get(),
            .pool = &pool,
            .planes = planes,
            .regions = regions,
            .model = {{spec.model}},
            .first_head = spec.first_head,
            .total_heads = spec.total_heads,
            .name = names_.function(),
            .idle_ms = idle_ms};
  }

  /// What a model would put there for tokens [first, last) of a sequence with `tokens`.
  void compute(SequenceId id, const Tokens& tokens, int32_t layer, int32_t first, int32_t last) {
    for_elements(
        id, tokens, layer, first, last,
        [](const PagedKVView& view, const Place& at, float value) { put(view, at, value); });
  }
  /// Elements that are not what they have to be, of tokens [first, last) in all layers.
  [[nodiscard]] int64_t count_wrong(SequenceId id, const Tokens& tokens, int32_t first,
                                    int32_t last) {
    int64_t wrong = 0;
    for (int32_t layer = 0; layer < spec.num_layers; ++layer)
      for_elements(id, tokens, layer, first, last,
                   [&](const PagedKVView& view, const Place& at, float value) {
                     wrong += get(view, at) == value ? 0 : 1;
                   });
    return wrong;
  }

  const EndSpec spec;

 private:
  std::vector<Buffer> memory_;  ///< outlives the transport, whose peers write to it
  std::vector<float> channels_;

 public:
  const std::unique_ptr<Transport> transport;

 private:
  struct Place {
    uint32_t page;
    int32_t slot, head, element;
  };
  Sha256Names names_;

  [[nodiscard]] bool has_values_apart() const { return spec.value.dtype != DType::invalid; }
  [[nodiscard]] KVShape value_shape() const {
    KVShape shape = this->shape();
    shape.dtype = spec.value.dtype;
    shape.scale_dtype = spec.value.scale_dtype;
    shape.quantization_granularity = spec.value.granularity;
    shape.zeros = spec.value.zeros;
    shape.hadamard = spec.value.hadamard;
    return shape;
  }
  /// Planes in memory of their own, which peers may write to.
  [[nodiscard]] std::vector<KVPlanes> make(const KVShape& of) {
    MemorySpan spans[2];
    for (const bool is_scales : {false, true}) {
      const int64_t page = (is_scales ? scale_page_bytes(of) : page_bytes(of)).value();
      if (page == 0) continue;
      const Buffer& buffer = memory_.emplace_back(Buffer::allocate(page * spec.num_pages).value());
      const std::span<std::byte> bytes(buffer.data(), static_cast<size_t>(buffer.bytes()));
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
      regions.push_back({transport->add_region(bytes).value(), bytes});
      spans[is_scales ? 1 : 0] = buffer.span();
    }
    return make_planes(of, spec.num_pages, spans[0], spans[1]).value();
  }
  void add_channels() {
    for (int32_t head = 0; head < spec.num_heads; ++head)
      for (int32_t column = 0; column < spec.head_size; ++column)
        channels_.push_back(spec.channels +
                            static_cast<float>(head + spec.first_head + column % 5));
    for (KVPlanes& layer : planes) {
      for (PagedKVView* view : {&layer.key, &layer.value}) {
        if (view->data == nullptr) continue;
        view->has_channel_scales = true;
        view->channel_scales = channels_.data();
      }
    }
  }

  [[nodiscard]] static std::byte* address(const PagedKVView& view, const Place& at) {
    return static_cast<std::byte*>(view.data) + at.page * view.page_stride_bytes +
           at.slot * view.slot_stride_bytes + at.head * view.head_stride_bytes +
           at.element * bit_width(view.dtype) / 8;
  }
  /// Scales are 2 to the power of the head's number.
  [[nodiscard]] static float* scale(const PagedKVView& view, const Place& at) {
    const ScaleView& s = view.scales;
    if (s.data == nullptr) return nullptr;
    return reinterpret_cast<float*>(static_cast<std::byte*>(s.data) +
                                    at.page * s.page_stride_bytes + at.slot * s.slot_stride_bytes +
                                    at.head * s.head_stride_bytes +
                                    at.element / s.granularity * s.granule_stride_bytes);
  }
  template <class T>
  static void put_as(std::byte* at, float value) {
    *reinterpret_cast<T*>(at) = from_float<T>(value);
  }
  static void put(const PagedKVView& view, const Place& at, float value) {
    if (float* const s = scale(view, at); s != nullptr) {
      *s = static_cast<float>(2 << at.head % 4);
      value /= *s;
    }
    std::byte* const to = address(view, at);
    switch (view.dtype) {
      case DType::f32: return put_as<float>(to, value);
      case DType::bf16: return put_as<bf16>(to, value);
      case DType::f16: return put_as<f16>(to, value);
      default: return put_as<f8_e4m3>(to, value);
    }
  }
  [[nodiscard]] static float get(const PagedKVView& view, const Place& at) {
    const float* const s = scale(view, at);
    const float factor = s == nullptr ? 1 : *s;
    const std::byte* const from = address(view, at);
    switch (view.dtype) {
      case DType::f32: return factor * *reinterpret_cast<const float*>(from);
      case DType::bf16: return factor * to_float(*reinterpret_cast<const bf16*>(from));
      case DType::f16: return factor * to_float(*reinterpret_cast<const f16*>(from));
      default: return factor * to_float(*reinterpret_cast<const f8_e4m3*>(from));
    }
  }
  template <class Visit>
  void for_elements(SequenceId id, const Tokens& tokens, int32_t layer, int32_t first, int32_t last,
                    Visit visit) {
    const int64_t row = pool.row_start(id).value();
    uint64_t history = 1;
    for (int32_t t = 0; t < last; ++t) {
      history = Rng(history + static_cast<uint64_t>(tokens[static_cast<size_t>(t)])).next();
      if (t < first) continue;
      const uint32_t page = pool.table().entries[row + t / spec.page_size];
      const KVPlanes& of_layer = planes[static_cast<size_t>(layer)];
      for (const PagedKVView* view : {&of_layer.key, &of_layer.value}) {
        if (view->data == nullptr) continue;
        for (int32_t head = 0; head < spec.num_heads; ++head) {
          Rng rng(history + static_cast<uint64_t>(layer * 64 + head + spec.first_head) * 2 +
                  (view == &of_layer.key ? 1 : 0));
          for (int32_t e = 0; e < spec.head_size; ++e)
            visit(*view, {page, t % spec.page_size, head, e},
                  static_cast<float>(rng.between(-8, 8)));
        }
      }
    }
  }

 public:
  PagePool pool;
  std::vector<TransferRegion> regions;
  std::vector<KVPlanes> planes;
};

/// An end that prefills.
class PrefillEnd : public End {
 public:
  PrefillEnd(const EndSpec& of, std::unique_ptr<Transport> over, HandoverSenderOptions options = {})
      : End(of, std::move(over)), sender(make(options)) {}

  [[nodiscard]] PeerId connect(End& to) {
    return transport->connect(to.transport->address().value()).value();
  }
  /// A sequence with room for its prompt.
  [[nodiscard]] Result<Admission> admit(const Tokens& tokens) {
    Result<Admission> a = pool.admit(tokens);
    if (!a) return a;
    if (Status s = pool.reserve(a->id, static_cast<int32_t>(tokens.size()) - a->cached_tokens);
        !s.is_ok()) {
      pool.release(a->id).or_throw();
      return s;
    }
    return a;
  }
  /// Computes tokens [first, last) layer by layer and pushes them.
  void prefill(SequenceId id, const Tokens& tokens, std::span<const HandoverId> handovers,
               int32_t first, int32_t last) {
    for (int32_t layer = 0; layer < spec.num_layers; ++layer) {
      compute(id, tokens, layer, first, last);
      for (const HandoverId h : handovers) sender.push(h, layer, first, last - first).or_throw();
    }
    pool.commit(id, std::span(tokens).subspan(static_cast<size_t>(first),
                                              static_cast<size_t>(last - first)))
        .or_throw();
  }

  HandoverSender sender;
  std::map<const End*, PeerId> peers;  ///< that it has connected to

 private:
  HandoverSender make(HandoverSenderOptions options) {
    options.end = end(options.end.idle_ms);
    return HandoverSender::create(options).value();
  }
};

/// An end that decodes.
class DecodeEnd : public End {
 public:
  DecodeEnd(const EndSpec& of, std::unique_ptr<Transport> over,
            HandoverReceiverOptions options = {})
      : End(of, std::move(over)), receiver(make(options)) {}

  /// The next sequence that has come, or one without tokens.
  [[nodiscard]] ReceivedSequence take() {
    ReceivedSequence sequence[1];
    static_cast<void>(receiver.take(sequence));
    return std::move(sequence[0]);
  }

  HandoverReceiver receiver;

 private:
  HandoverReceiver make(HandoverReceiverOptions options) {
    options.end = end(options.end.idle_ms);
    return HandoverReceiver::create(options).value();
  }
};

inline Tokens random_tokens(Rng& rng, int32_t count) {
  Tokens tokens;
  for (int32_t t = 0; t < count; ++t) tokens.push_back(rng.int_between(0, 50'000));
  return tokens;
}

/// Nothing is held by anything that has ended.
inline void expect_idle(PrefillEnd& end) {
  EXPECT_EQ(end.pool.check_invariants().message(), "");
  const HandoverSenderFigures figures = end.sender.figures();
  EXPECT_EQ(figures.handovers, 0);
  EXPECT_EQ(figures.posts, 0);
  EXPECT_EQ(figures.pinned_pages, 0);
}
inline void expect_idle(DecodeEnd& end) {
  EXPECT_EQ(end.pool.check_invariants().message(), "");
  const HandoverReceiverFigures figures = end.receiver.figures();
  EXPECT_EQ(figures.handovers, 0);
  EXPECT_EQ(figures.sequences, 0);
  EXPECT_EQ(figures.used_slots, 0);
  EXPECT_EQ(figures.pinned_pages, 0);
}

}  // namespace folio::test
