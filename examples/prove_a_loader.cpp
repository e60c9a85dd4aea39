// SPDX-License-Identifier: Apache-2.0
/// examples/prove_a_loader.cpp: proves the K loader of a GPU kernel without a GPU: a two-stage ring
/// that walks pages with TMA.
#include <folio/folio.h>
#include <folio/kernels.h>
#include <folio/testing/pipeline.h>
#include <folio/testing/tma_copy.h>

#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace emu = folio::emulator;

constexpr int page_size = 16, head_size = 128, num_pages = 8, rows = 64, stages = 2, head = 3;
// One sequence; the last tile lies in unassigned pages but for its first page.
constexpr uint32_t table[12] = {5, 2, 7, 0, 1, 6, 3, 4, 0, 8, 8, 8};

struct Loader {
  folio::PagedKVView k;
  emu::GlobalMemory memory;
  folio::TMATensorTile<5> tile = folio::tma::page_tile(
      folio::tma::plane_of(k), {.swizzle = folio::tma::Swizzle::b128, .rows = rows});
  emu::SharedMemory shared{stages * tile.layout.bytes()};
  emu::BarrierId full[stages] = {}, empty[stages] = {};

  emu::Actor producer(emu::Pipeline& p) {  // what the kernel's producer warp does
    for (int t = 0; t < 3; ++t) {
      const int s = t % stages;
      co_await p.wait(empty[s], (t / stages & 1) ^ 1);
      co_await p.arrive_expect_tx(full[s], tile.layout.bytes());
      for (int row = 0; row < rows; row += page_size) {
        const auto page = static_cast<int32_t>(table[(t * rows + row) / page_size]);
        const int64_t to = s * tile.layout.bytes() + tile.layout.box_offset(row, 0);
        co_await p.copy(full[s], {to, tile.map.transaction_bytes()}, [this, to, page] {
          return emu::tma_load<5>(tile.map, memory, shared, to, {{0, 0, 0, head, page}});
        });
      }
    }
  }
  // reads every element of every tile where a fragment would
  emu::Actor consumer(emu::Pipeline& p) {
    for (int t = 0; t < 3; ++t) {
      const int s = t % stages;
      co_await p.wait(full[s], t / stages & 1);
      co_await p.read({s * tile.layout.bytes(), tile.layout.bytes()});
      for (int row = 0; row < rows; ++row) {
        for (int d = 0; d < head_size; ++d) {
          const int token = t * rows + row, page = static_cast<int>(table[token / page_size]);
          const int64_t at = page * k.page_stride_bytes + token % page_size * k.slot_stride_bytes +
                             head * k.head_stride_bytes + d * 2;
          uint16_t expected = 0;  // rows of unassigned pages
          if (page < num_pages) expected = static_cast<const uint16_t*>(k.data)[at / 2];
          if (shared.load<uint16_t>(s * tile.layout.bytes() + tile.layout.offset(row, d)) !=
              expected)
            co_await p.stop_if(
                folio::fail(folio::Errc::internal, "token {}, dim {} is wrong", token, d));
        }
      }
      co_await p.arrive(empty[s]);
    }
  }
};

int main() {
  const folio::KVShape shape{
      .num_layers = 2, .num_heads = 8, .head_size = head_size, .page_size = page_size};
  const int64_t bytes = num_pages * folio::page_bytes(shape).value();
  std::vector<uint16_t> blocks(static_cast<size_t>(bytes) / 2);
  std::iota(blocks.begin(), blocks.end(), uint16_t{1});
  const folio::PagedKVView k =
      folio::make_planes(shape, num_pages, {blocks.data(), bytes}).value()[1].key;
  const folio::Status status =
      emu::interleave(1 << 16, 1, 200, [&](emu::Pipeline& p) -> std::shared_ptr<Loader> {
        auto loader =
            std::make_shared<Loader>(Loader{k, emu::global_memory({blocks.data(), bytes})});
        for (auto& barrier : loader->full) barrier = p.add_barrier("full", 1);
        for (auto& barrier : loader->empty) barrier = p.add_barrier("empty", 1);
        p.add_actor("producer", loader->producer(p));
        p.add_actor("consumer", loader->consumer(p));
        return loader;
      });
  std::printf("%s\n", status.is_ok() ? "the loader is right in 200 orders"
                                     : std::string(status.message()).c_str());
  return status.is_ok() ? 0 : 1;
}
