// SPDX-License-Identifier: Apache-2.0
/// tests/tma/proof_pipeline_test.cpp: a page-walking loader and its consumers, whole: barriers,
/// stages, copies and elements, under random interleaving; and the same loader with one mistake.
///
/// The kernel walks (sequence, head, tile). One producer fills a ring of stages; K comes through
/// cache_tile, V through a ragged tile, so that slots past the context read as zeros. Consumers
/// compare what they read with the cache, element by element.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/testing/pipeline.h"
#include "folio/testing/tma_copy.h"
#include "folio/tma/ragged_tile.h"
#include "folio/tma/row_tiles.h"
#include "tma/proof_cache.h"

namespace folio::test {
namespace {

using emulator::Actor;
using emulator::BarrierId;
using emulator::Fault;
using emulator::Pipeline;
using ::testing::HasSubstr;

enum class Mistake {
  none,
  counts_assigned_pages_only,    // expects too few bytes
  skips_unassigned_pages,        // expects all bytes, issues some
  leaves_unassigned_pages,       // expects and issues the assigned ones only: what was there stays
  releases_keys_before_reading,  //
  same_parity_in_every_round,    //
  page_of_the_next_tile,         // reads the table one entry too far
};

struct Geometry {
  DType dtype = DType::bf16;
  int32_t head_size = 64;
  int32_t page_size = 16;
  int32_t tile_rows = 64;
  StorageOrder order = StorageOrder::token_major;
  int32_t stages = 2;
  int32_t consumers = 2;
};

/// One tile of the walk.
struct Item {
  int32_t sequence = 0;
  int32_t head = 0;
  int32_t base = 0;
};

class LoaderKernel {
 public:
  static constexpr int32_t num_sequences = 3;
  static constexpr int max_stages = 4;

  LoaderKernel(const Geometry& g, Mistake mistake, Rng& rng)
      : g_(g), mistake_(mistake), cache_(g.dtype, g.head_size, g.page_size, g.order) {
    const tma::TileSpec spec{.swizzle = tma::Swizzle::b128, .rows = g.tile_rows};
    k_tile_ = tma::cache_tile(cache_.plane(0, 1), spec);
    v_tile_ = tma::ragged_tile(cache_.plane(1, 1), spec);
    EXPECT_TRUE(k_tile_.check().is_ok()) << k_tile_.check().message();
    EXPECT_TRUE(v_tile_.check().is_ok()) << v_tile_.check().message();
    for (int32_t b = 0; b < num_sequences; ++b) {
      tables_.emplace_back(cache_.num_pages, rng);
      contexts_.push_back(rng.int_between(1, 3 * g.tile_rows));
      for (int32_t head = 0; head < ProofCache::num_heads; ++head) {
        for (int32_t base = 0; base < contexts_.back(); base += g.tile_rows)
          items_.push_back({b, head, base});
      }
    }
    bytes_ = k_tile_.layout.bytes();
  }

  Status run(uint64_t seed, Fault& fault) {
    Pipeline p(2 * g_.stages * bytes_, seed);
    shared_.fill(0xff);
    for (int s = 0; s < g_.stages; ++s) {
      const std::string stage = std::to_string(s);
      full_k_[s] = p.add_barrier("full K " + stage, 1);
      full_v_[s] = p.add_barrier("full V " + stage, 1);
      empty_k_[s] = p.add_barrier("empty K " + stage, g_.consumers);
      empty_v_[s] = p.add_barrier("empty V " + stage, g_.consumers);
    }
    p.add_actor("producer", producer(p));
    for (int32_t i = 0; i < g_.consumers; ++i)
      p.add_actor("consumer " + std::to_string(i), consumer(p, i));
    Status status = p.run();
    fault = p.fault();
    return status;
  }

 private:
  [[nodiscard]] int32_t box_rows() const { return k_tile_.box_shape[0]; }
  [[nodiscard]] int64_t stage_address(int kv, int stage) const { return (2 * stage + kv) * bytes_; }
  [[nodiscard]] int64_t page_of(const Item& item, int32_t row) const {
    return tables_[static_cast<size_t>(item.sequence)][(item.base + row) / g_.page_size];
  }
  [[nodiscard]] bool is_assigned(const Item& item, int32_t row) const {
    return page_of(item, row) < cache_.num_pages;
  }

  /// Bytes of one stage that the barrier is to wait for.
  [[nodiscard]] int64_t expected_bytes(const Item& item) const {
    if (mistake_ != Mistake::counts_assigned_pages_only &&
        mistake_ != Mistake::leaves_unassigned_pages)
      return bytes_;
    int64_t bytes = 0;
    for (int32_t row = 0; row < g_.tile_rows; row += box_rows()) {
      if (is_assigned(item, row)) bytes += bytes_ * box_rows() / g_.tile_rows;
    }
    return bytes;
  }

  Actor producer(Pipeline& p) {
    std::vector<uint32_t> rows;
    const tma::PlaneGeometry plane = cache_.plane(0, 1);
    const PageRows pages{plane.num_pages, plane.row_stride()};
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      const auto stage = static_cast<int>(i % static_cast<size_t>(g_.stages));
      const int round = mistake_ == Mistake::same_parity_in_every_round
                            ? 0
                            : static_cast<int>(i / static_cast<size_t>(g_.stages));
      const uint32_t* table = tables_[static_cast<size_t>(item.sequence)].data();
      populate_any(g_.page_size, g_.tile_rows, table, static_cast<uint32_t>(item.base), pages,
                   rows);
      if (mistake_ == Mistake::page_of_the_next_tile)
        std::rotate(rows.begin(), rows.begin() + 1, rows.end());
      for (int kv = 0; kv < 2; ++kv) {
        const BarrierId full = kv == 0 ? full_k_[stage] : full_v_[stage];
        co_await p.wait(kv == 0 ? empty_k_[stage] : empty_v_[stage], (round & 1) ^ 1);
        co_await p.arrive_expect_tx(full, expected_bytes(item));
        for (int32_t row = 0; row < g_.tile_rows; row += box_rows()) {
          const bool skips = mistake_ == Mistake::skips_unassigned_pages ||
                             mistake_ == Mistake::leaves_unassigned_pages;
          if (skips && !is_assigned(item, row)) continue;
          const int64_t first = rows[static_cast<size_t>(row / box_rows())];
          for (int32_t chunk = 0; chunk < k_tile_.layout.num_chunks(); ++chunk) {
            const int64_t to = stage_address(kv, stage) + k_tile_.layout.box_offset(row, chunk);
            const int64_t bytes = int64_t{box_rows()} * k_tile_.layout.chunk_bytes();
            co_await p.copy(full, {to, bytes}, [this, item, kv, row, chunk, first, to] {
              return load(item, kv, row, chunk, first, to);
            });
          }
        }
      }
    }
  }

  Result<int64_t> load(const Item& item, int kv, int32_t row, int32_t chunk, int64_t first,
                       int64_t to) {
    if (kv == 0) {
      return emulator::tma_load<3>(
          k_tile_.map, cache_.memory(), shared_, to,
          {{chunk * k_tile_.layout.chunk, item.head, static_cast<int32_t>(first)}});
    }
    const int64_t valid = is_assigned(item, row)
                              ? contexts_[static_cast<size_t>(item.sequence)] - item.base - row
                              : 0;
    const tma::RaggedRows piece{first, std::clamp<int64_t>(valid, 0, box_rows()), 0};
    return emulator::tma_load(v_tile_.map, cache_.memory(), shared_, to,
                              v_tile_.coordinates(piece, item.head, chunk));
  }

  Actor consumer(Pipeline& p, int32_t index) {
    Rng rng(static_cast<uint64_t>(index));
    for (size_t i = 0; i < items_.size(); ++i) {
      const auto stage = static_cast<int>(i % static_cast<size_t>(g_.stages));
      const auto parity = static_cast<int>(i / static_cast<size_t>(g_.stages) & 1);
      for (int kv = 0; kv < 2; ++kv) {
        const BarrierId empty = kv == 0 ? empty_k_[stage] : empty_v_[stage];
        const bool early = kv == 0 && mistake_ == Mistake::releases_keys_before_reading;
        co_await p.wait(kv == 0 ? full_k_[stage] : full_v_[stage], parity);
        if (early) co_await p.arrive(empty);
        co_await p.read({stage_address(kv, stage), bytes_});
        co_await p.stop_if(compare(items_[i], kv, stage, rng));
        if (!early) co_await p.arrive(empty);
      }
    }
  }

  /// Every element that a fragment reader would take from the stage.
  Status compare(const Item& item, int kv, int stage, Rng& rng) const {
    const int32_t context = contexts_[static_cast<size_t>(item.sequence)];
    const auto head_of = [&](int32_t row) -> const std::byte* {
      const bool is_visible = kv == 0 || item.base + row < context;
      if (!is_assigned(item, row) || !is_visible) return nullptr;
      return cache_.head_of(kv, 1, page_of(item, row), (item.base + row) % g_.page_size, item.head);
    };
    const std::string difference = tile_difference(
        shared_, stage_address(kv, stage), k_tile_.layout, 0, cache_.head_bytes, rng, head_of);
    if (difference.empty()) return {};
    return fail(Errc::internal, "{} of sequence {}, tile at {}: {}", kv == 0 ? "K" : "V",
                item.sequence, item.base, difference);
  }

  Geometry g_;
  Mistake mistake_;
  ProofCache cache_;
  TMATensorTile<3> k_tile_;
  RaggedTMA3DTile v_tile_;
  std::vector<ProofTable> tables_;
  std::vector<int32_t> contexts_;
  std::vector<Item> items_;
  int64_t bytes_ = 0;
  emulator::SharedMemory shared_{512 << 10};
  BarrierId full_k_[max_stages], full_v_[max_stages], empty_k_[max_stages], empty_v_[max_stages];
};

TEST(TmaProof, a_page_walking_loader_is_right_in_every_order) {
  Rng rng(test_seed());
  const Geometry geometries[] = {
      {.page_size = 16, .tile_rows = 64, .stages = 2},
      {.page_size = 1, .tile_rows = 16, .stages = 3},
      {.page_size = 8, .tile_rows = 32, .order = StorageOrder::head_major, .stages = 2},
      {.head_size = 128, .page_size = 64, .tile_rows = 64, .stages = 4, .consumers = 3},
      {.head_size = 72, .page_size = 32, .tile_rows = 128, .stages = 2, .consumers = 1},
      {.dtype = DType::f8_e4m3, .head_size = 256, .page_size = 128, .tile_rows = 32, .stages = 3},
      {.dtype = DType::f32, .head_size = 80, .page_size = 256, .tile_rows = 64, .stages = 2},
      {.dtype = DType::i8,
       .head_size = 576,
       .page_size = 16,
       .tile_rows = 16,
       .stages = 4,
       .consumers = 2},
  };
  for (const Geometry& g : geometries) {
    for (uint64_t i = 0; i < 12; ++i) {
      LoaderKernel kernel(g, Mistake::none, rng);
      Fault fault;
      const Status status = kernel.run(rng.next() % 100000, fault);
      ASSERT_TRUE(status.is_ok()) << "page " << g.page_size << " tile " << g.tile_rows << ": "
                                  << status.message();
    }
  }
}

/// Runs until the mistake shows, which is at once unless the table happens to have no unassigned
/// page.
std::string first_failure(Mistake mistake, Fault& fault) {
  Rng rng(test_seed());
  for (int i = 0; i < 20; ++i) {
    LoaderKernel kernel({}, mistake, rng);
    if (const Status status = kernel.run(1, fault); !status.is_ok())
      return std::string(status.message());
  }
  return "";
}

TEST(TmaProof, a_loader_with_a_mistake_is_named) {
  Fault fault;
  EXPECT_EQ(first_failure(Mistake::none, fault), "");
  first_failure(Mistake::counts_assigned_pages_only, fault);
  EXPECT_EQ(fault, Fault::wrong_byte_count);
  first_failure(Mistake::skips_unassigned_pages, fault);
  EXPECT_EQ(fault, Fault::wrong_byte_count);
  EXPECT_THAT(first_failure(Mistake::leaves_unassigned_pages, fault),
              HasSubstr("which nothing has written"));
  EXPECT_EQ(fault, Fault::read_before_arrival);
  EXPECT_THAT(first_failure(Mistake::releases_keys_before_reading, fault),
              ::testing::AnyOf(HasSubstr("overwrites"), HasSubstr("reads")));
  first_failure(Mistake::same_parity_in_every_round, fault);
  EXPECT_EQ(fault, Fault::wrong_phase);
  EXPECT_THAT(first_failure(Mistake::page_of_the_next_tile, fault), HasSubstr("row "));
  EXPECT_EQ(fault, Fault::stopped);
}

}  // namespace
}  // namespace folio::test
