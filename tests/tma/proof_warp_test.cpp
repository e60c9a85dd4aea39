// SPDX-License-Identifier: Apache-2.0
/// tests/tma/proof_warp_test.cpp: a decode kernel's warp, whole: tiles by TMA, scores and values by
/// ldmatrix and mma.sync, against a plain double loop over the cache. Slots that no query may see
/// hold NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "folio/core/element.h"
#include "folio/testing/operands.h"
#include "folio/testing/pipeline.h"
#include "folio/testing/tma_copy.h"
#include "folio/tma/page_tile.h"
#include "folio/tma/ragged_tile.h"
#include "tma/proof_cache.h"

namespace folio::test {
namespace {

using namespace emulator;

constexpr int32_t head_size = 64, page_size = 16, tile_rows = 32, q_rows = 16, num_pages = 9;
constexpr int64_t head_bytes = head_size * 2;
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// [page, K or V, slot, dim] of one head, NaN but for the tokens of one sequence.
class Sequence {
 public:
  Sequence(int32_t context, Rng& rng)
      : context_(context), words_(num_pages * 2 * page_size * head_size + 8, bf16{0xffff}) {
    const auto address = reinterpret_cast<uintptr_t>(words_.data());
    begin_ = words_.data() + (16 - address % 16) % 16 / 2;
    std::vector<uint32_t> pages(num_pages);
    for (uint32_t i = 0; i < num_pages; ++i) pages[i] = i;
    rng.shuffle(pages);
    std::fill(std::begin(table), std::end(table), uint32_t{num_pages});
    for (int32_t i = 0; i * page_size < context; ++i) table[i] = pages[static_cast<size_t>(i)];
    for (int32_t token = 0; token < context; ++token) {
      for (int kv = 0; kv < 2; ++kv) {
        for (int32_t d = 0; d < head_size; ++d)
          element(kv, token, d) = from_float<bf16>(rng.uniform(-1, 1));
      }
    }
  }
  bf16& element(int kv, int32_t token, int32_t d) {
    return begin_[((int64_t{table[token / page_size]} * 2 + kv) * page_size + token % page_size) *
                      head_size +
                  d];
  }
  [[nodiscard]] GlobalMemory memory() const {
    return global_memory({begin_, int64_t{num_pages} * 2 * page_size * head_bytes}, "pages");
  }
  [[nodiscard]] tma::PlaneGeometry plane(int kv) const {
    return {.base = tma::address_of(begin_ + kv * page_size * head_size),
            .dtype = DType::bf16,
            .num_heads = 1,
            .head_size = head_size,
            .num_pages = num_pages,
            .page_size = page_size,
            .page_stride_bytes = 2 * page_size * head_bytes,
            .slot_stride_bytes = head_bytes,
            .head_stride_bytes = head_bytes};
  }
  [[nodiscard]] int32_t context() const { return context_; }

  uint32_t table[16];

 private:
  int32_t context_;
  std::vector<bf16> words_;
  bf16* begin_;
};

/// 16 rows of queries of one warp, and its state.
struct Warp {
  Registers<4> q[head_size / 16] = {};
  Accumulators out[head_size / 8] = {};
  float row_max[q_rows];
  float row_sum[q_rows] = {};
};

size_t at(int32_t i) { return static_cast<size_t>(i); }

/// S = Q * K^T of a tile, masked.
void scores(const Warp& warp, const SharedMemory& shared, const tma::TileLayout& k, int64_t address,
            int32_t visible, Accumulators (&s)[tile_rows / 8]) {
  for (int32_t n = 0; n < tile_rows / 8; ++n) {
    s[n] = {};
    for (int32_t i = 0; i < head_size / 16; ++i) {
      const auto rows = ldmatrix_rows<2>(
          k, address, {MatrixElement{8 * n, 16 * i}, MatrixElement{8 * n, 16 * i + 8}});
      ASSERT_TRUE(
          mma_sync(DType::bf16, warp.q[i], ldmatrix<2>(shared, rows).value(), s[n]).is_ok());
    }
    for (int32_t lane = 0; lane < warp_lanes; ++lane) {
      for (int32_t reg = 0; reg < 4; ++reg) {
        if (8 * n + mma_c_element(lane, reg).column >= visible)
          s[n][at(lane)][at(reg)] = minus_infinity;
      }
    }
  }
}

/// The online softmax step: scores become weights, the output so far is rescaled.
void softmax(Warp& warp, Accumulators (&s)[tile_rows / 8]) {
  float before[q_rows];
  std::copy(std::begin(warp.row_max), std::end(warp.row_max), before);
  const auto for_each = [](auto&& tiles, auto&& f) {
    for (auto& tile : tiles) {
      for (int32_t lane = 0; lane < warp_lanes; ++lane) {
        for (int32_t reg = 0; reg < 4; ++reg)
          f(tile[at(lane)][at(reg)], mma_c_element(lane, reg).row);
      }
    }
  };
  for_each(s, [&](float& x, int32_t row) { warp.row_max[row] = std::max(warp.row_max[row], x); });
  for (int32_t row = 0; row < q_rows; ++row)
    warp.row_sum[row] *= std::exp(before[row] - warp.row_max[row]);
  for_each(s, [&](float& x, int32_t row) {
    x = std::exp(x - warp.row_max[row]);
    warp.row_sum[row] += x;
  });
  for_each(warp.out,
           [&](float& x, int32_t row) { x *= std::exp(before[row] - warp.row_max[row]); });
}

/// O += P * V. The weights' accumulators are the A fragment: two tiles of eight keys are its left
/// and right half.
void values(Warp& warp, const SharedMemory& shared, const tma::TileLayout& v, int64_t address,
            const Accumulators (&s)[tile_rows / 8]) {
  for (int32_t t = 0; t < tile_rows / 16; ++t) {
    Registers<4> p{};
    for (int32_t lane = 0; lane < warp_lanes; ++lane) {
      for (int32_t reg = 0; reg < 4; ++reg) {
        for (int32_t part = 0; part < 2; ++part) {
          const float weight = s[2 * t + reg / 2][at(lane)][at(reg % 2 * 2 + part)];
          p[at(lane)][at(reg)] |= uint32_t{from_float<bf16>(weight).bits} << (16 * part);
        }
      }
    }
    for (int32_t n = 0; n < head_size / 8; ++n) {
      const auto rows = ldmatrix_rows<2>(
          v, address, {MatrixElement{16 * t, 8 * n}, MatrixElement{16 * t + 8, 8 * n}});
      ASSERT_TRUE(
          mma_sync(DType::bf16, p, ldmatrix<2>(shared, rows, true).value(), warp.out[n]).is_ok());
    }
  }
}

struct Kernel {
  const Sequence& sequence;
  TMATensorTile<5> k_tile =
      tma::page_tile(sequence.plane(0), {.swizzle = tma::Swizzle::b128, .rows = tile_rows});
  RaggedTMA3DTile v_tile =
      tma::ragged_tile(sequence.plane(1), {.swizzle = tma::Swizzle::b128, .rows = tile_rows});
  int64_t bytes = k_tile.layout.bytes();
  SharedMemory shared{4 * bytes};
  BarrierId full[2] = {}, empty[2] = {};
  Warp warp = {};

  Actor producer(Pipeline& p) {
    for (int32_t tile = 0; tile * tile_rows < sequence.context(); ++tile) {
      const int stage = tile % 2;
      co_await p.wait(empty[stage], (tile / 2 & 1) ^ 1);
      co_await p.arrive_expect_tx(full[stage], 2 * bytes);
      for (int32_t row = 0; row < tile_rows; row += page_size) {
        const int32_t token = tile * tile_rows + row;
        const uint32_t page = sequence.table[token / page_size];
        const int64_t k_to = 2 * stage * bytes + k_tile.layout.box_offset(row, 0),
                      v_to = k_to + bytes;
        const int64_t valid = std::clamp(sequence.context() - token, 0, page_size);
        const tma::RaggedRows rows{page * sequence.plane(1).row_stride(),
                                   page < num_pages ? valid : 0, 0};
        const tma::RaggedRows piece = page < num_pages ? rows : tma::RaggedRows{};
        co_await p.copy(full[stage], {k_to, page_size * head_bytes}, [this, k_to, page] {
          return tma_load<5>(k_tile.map, sequence.memory(), shared, k_to,
                             {{0, 0, 0, 0, static_cast<int32_t>(page)}});
        });
        co_await p.copy(full[stage], {v_to, page_size * head_bytes}, [this, v_to, piece] {
          return tma_load(v_tile.map, sequence.memory(), shared, v_to,
                          v_tile.coordinates(piece, 0, 0));
        });
      }
    }
  }
  Actor consumer(Pipeline& p) {
    for (int32_t tile = 0; tile * tile_rows < sequence.context(); ++tile) {
      const int stage = tile % 2;
      co_await p.wait(full[stage], tile / 2 & 1);
      co_await p.read({2 * stage * bytes, 2 * bytes});
      Accumulators s[tile_rows / 8];
      scores(warp, shared, k_tile.layout, 2 * stage * bytes, sequence.context() - tile * tile_rows,
             s);
      softmax(warp, s);
      values(warp, shared, v_tile.layout, (2 * stage + 1) * bytes, s);
      co_await p.arrive(empty[stage]);
    }
  }
};

TEST(TmaProof, a_decode_warp_computes_attention) {
  Rng rng(test_seed());
  for (const int32_t context : {1, 15, 16, 17, 31, 32, 33, 64, 100, 127}) {
    Sequence sequence(context, rng);
    Kernel kernel{sequence};
    ASSERT_TRUE(kernel.k_tile.check().is_ok() && kernel.v_tile.check().is_ok());
    float q[q_rows][head_size];
    for (int32_t row = 0; row < q_rows; ++row) {
      kernel.warp.row_max[row] = minus_infinity;
      for (int32_t d = 0; d < head_size; ++d) {
        const bf16 x = from_float<bf16>(rng.uniform(-1, 1));
        q[row][d] = to_float(x);
        const FragmentSlot slot = mma_a_slot(16, {row, d % 16});
        kernel.warp.q[d / 16][at(slot.lane)][at(slot.reg)] |= uint32_t{x.bits} << (16 * slot.part);
      }
    }
    Pipeline p(4 * kernel.bytes, rng.next() % 1000);
    for (int s = 0; s < 2; ++s) {
      kernel.full[s] = p.add_barrier("full", 1);
      kernel.empty[s] = p.add_barrier("empty", 1);
    }
    p.add_actor("producer", kernel.producer(p));
    p.add_actor("consumer", kernel.consumer(p));
    const Status status = p.run();
    ASSERT_TRUE(status.is_ok()) << status.message();

    for (int32_t row = 0; row < q_rows; ++row) {
      std::vector<double> weight(at(context));
      double sum = 0, expected[head_size] = {};
      for (int32_t t = 0; t < context; ++t) {
        double score = 0;
        for (int32_t d = 0; d < head_size; ++d)
          score += static_cast<double>(q[row][d]) *
                   static_cast<double>(to_float(sequence.element(0, t, d)));
        sum += weight[at(t)] = std::exp(score);
      }
      for (int32_t t = 0; t < context; ++t) {
        for (int32_t d = 0; d < head_size; ++d)
          expected[d] +=
              weight[at(t)] / sum * static_cast<double>(to_float(sequence.element(1, t, d)));
      }
      for (int32_t d = 0; d < head_size; ++d) {
        const FragmentSlot slot = mma_c_slot({row, d % 8});
        const float got =
            kernel.warp.out[d / 8][at(slot.lane)][at(slot.reg)] / kernel.warp.row_sum[row];
        // Weights are rounded to bf16, |V| <= 1: each contributes 2^-9 of itself, and they sum to
        // one.
        ASSERT_NEAR(static_cast<double>(got), expected[d], 0x1p-8)
            << "context " << context << ", row " << row << ", dim " << d;
      }
    }
  }
}

}  // namespace
}  // namespace folio::test
