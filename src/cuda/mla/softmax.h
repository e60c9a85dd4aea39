// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/softmax.h: a tile's scores to weights, once for the block: eight lanes own a row,
/// each of them four keys, and keep its maximum and their share of its sum.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/mla/config.h"
#include "cuda/mla/rows.h"

namespace folio::cuda::mla {

template <class C, class Thread>
class RowSoftmax {
 public:
  FOLIO_DEVICE RowSoftmax(Thread& t, const AttendCall& call, const Batch& batch,
                          const TaskRows& rows, int warp)
      : call_(call),
        batch_(batch),
        rows_(rows),
        row_(warp * C::rows_per_warp + (t.lane() >> 3)),
        key_((t.lane() & 7) * 4),
        token_(rows.token_of(row_)),
        seen_(row_ < rows.count() ? rows.seen_by(call.problem, batch, token_) : SeenKeys()),
        scale_(call.problem.scale * log2_e) {
    if (C::is_general && row_ < rows.count()) terms_ = rows.terms_of(t, call, row_);
  }

  FOLIO_DEVICE void clear() { state_ = {minus_infinity(), 0.0f}; }

  /// The scores of a tile, as all warps left them, to weights and factors.
  FOLIO_DEVICE void step(Thread& t, const KeyTile& tile) {
    const uint32_t base = t.shared_base();
    float s[4] = {};
    FOLIO_UNROLL
    for (int part = 0; part < C::parts; ++part) {
      const auto four = t.template load_shared<FourFloats>(
          base + C::scores_at +
          static_cast<uint32_t>((part * C::rows + row_) * C::scores_row + key_) * 4);
      FOLIO_UNROLL
      for (int e = 0; e < 4; ++e) s[e] = part == 0 ? four.x[e] : s[e] + four.x[e];
    }
    mask(t, tile, s);

    float top = fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3]));
    FOLIO_UNROLL
    for (int mask = 1; mask < 8; mask *= 2) top = fmaxf(top, t.shuffle_xor(top, mask));
    top = fmaxf(top, state_.max);
    const float reference = top == minus_infinity() ? 0.0f : top;
    // before the first key there is nothing to rescale
    const float factor = state_.max == minus_infinity() ? 1.0f : t.exp2(state_.max - reference);
    FOLIO_UNROLL
    for (int e = 0; e < 4; ++e) s[e] = t.exp2(s[e] - reference);
    state_ = {top, state_.sum * factor + ((s[0] + s[1]) + (s[2] + s[3]))};

    t.store_shared(
        base + C::weights_at + static_cast<uint32_t>(row_ * C::weights_row + key_ * 2),
        TwoPairs{{t.template pack<C::type>(s[0], s[1]), t.template pack<C::type>(s[2], s[3])}});
    if (key_ == 0) t.store_shared(base + C::factors_at + static_cast<uint32_t>(row_) * 4, factor);
  }

  /// The rows' maximum and sum over the part.
  FOLIO_DEVICE void publish(Thread& t) {
    float sum = state_.sum;
    FOLIO_UNROLL
    for (int mask = 1; mask < 8; mask *= 2) sum += t.shuffle_xor(sum, mask);
    if (key_ == 0 && row_ < C::rows)
      t.store_shared(t.shared_base() + C::sums_at + static_cast<uint32_t>(row_) * 8,
                     MaxSum{state_.max, sum});
  }

 private:
  struct alignas(8) TwoPairs {
    uint32_t x[2];
  };

  /// Products to logits in the log2 domain, -inf where the row does not see the key.
  FOLIO_DEVICE void mask(Thread& t, const KeyTile& tile, float (&s)[4]) {
    uint32_t seen = C::is_general
                        ? rows_.seen_in_tile(call_.problem, batch_, token_, seen_, tile.first)
                        : seen_.in_tile<32>(tile.first);
    seen = (seen & tile.present) >> key_;
    const auto terms = [&] { return terms_.from(call_.problem, tile.first + key_); };
    const float of_softcap = C::is_general ? inverse_softcap(call_.problem) : 0.0f;
    FOLIO_UNROLL
    for (int e = 0; e < 4; ++e) {
      if ((seen >> e & 1) == 0) {
        s[e] = minus_infinity();
      } else if constexpr (C::is_general) {
        s[e] = logit(t, call_.problem, of_softcap, terms, e, s[e]);
      } else {
        s[e] *= scale_;
      }
    }
  }

  const AttendCall& call_;
  const Batch& batch_;
  const TaskRows& rows_;
  const int row_, key_;  // of the task; of the tile
  const int32_t token_;
  const SeenKeys seen_;
  RowTerms terms_;
  const float scale_;
  MaxSum state_ = {};
};

}  // namespace folio::cuda::mla
