// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_tiles.cuh: copies by tensor maps on a GPU and in the emulator, compared byte for
/// byte; or, before any kernel, the maps of all of them, as the driver encodes them.
#pragma once

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "cuda/gpu_device.cuh"
#include "cuda/gpu_emulation.h"
#include "cuda/gpu_supervise.h"
#include "cuda/tma_kernels.cuh"
#include "folio/cache/paged_kv_cache_collection.h"
#include "folio/core/element.h"

namespace folio::test {

struct TileRun {
  GpuRecords& records;
  Cases& cases;
  bool has_gather4 = false;
  bool only_maps = false;  ///< records every map once and launches nothing

  template <class Do>
  void with_map(const std::string& name, const tma::TensorMap& map, Do&& launch) {
    if (!cases.begin(name)) return;
    const Result<tma::EncodedTensorMap> encoded = tma::encode(map);
    if (!encoded) return records.fail(name, std::string(encoded.error().message()));
    if (!only_maps) return launch(*encoded);
    if (seen.insert(GpuRecords::json_of(map)).second) records.map(name, map, *encoded);
  }

  std::set<std::string> seen = {};  ///< maps that are recorded
};

/// The grid of gpu_cases.h: random storage on both sides, every case on both.
class TileGrid {
 public:
  explicit TileGrid(TileRun& run) : run_(run) {
    Rng rng(gpu_storage_seed);
    for (uint64_t& word : host_) word = rng.next();
    device_.upload(host_.data(), gpu_storage_bytes);
  }

  void run() {
    run_.records.facts("\"storage_base\": \"" + GpuRecords::hexadecimal(device_.address()) + "\"");
    GpuCases grid(device_.address(), gpu_grid_seed);
    grid.add_all();
    for (const GpuCase& c : grid.cases) {
      if (c.map.use == tma::Use::gather4 && !run_.has_gather4) {
        if (run_.cases.begin(c.name)) run_.records.skip(c.name, "compute capability below 10.0");
        continue;
      }
      run_.with_map(c.name, c.map, [&](const tma::EncodedTensorMap& encoded) {
        c.is_store ? store(c, encoded) : load(c, encoded);
      });
    }
  }

 private:
  std::byte* host() { return reinterpret_cast<std::byte*>(host_.data()); }
  emulator::GlobalMemory memory(std::byte* bytes) const {
    return {bytes, gpu_storage_bytes, device_.address(), "storage"};
  }

  void load(const GpuCase& c, const tma::EncodedTensorMap& encoded) {
    const auto bytes = static_cast<int>(c.layout.bytes());
    const auto count = static_cast<int>(c.copies.size()),
               each = static_cast<int>(c.map.transaction_bytes());
    copies_.upload(c.copies.data(), static_cast<int64_t>(c.copies.size() * sizeof(ListedCopy)));
    if (c.map.use == tma::Use::gather4) {
      launch_block(run_gathers, 128, bytes, encoded, copies_.as<ListedCopy>(), count, each, bytes,
                   out_.data());
    } else if (c.map.rank == 2) {
      launch_block(run_loads<2>, 128, bytes, encoded, copies_.as<ListedCopy>(), count, each, bytes,
                   out_.data());
    } else if (c.map.rank == 3) {
      launch_block(run_loads<3>, 128, bytes, encoded, copies_.as<ListedCopy>(), count, each, bytes,
                   out_.data());
    } else if (c.map.rank == 4) {
      launch_block(run_loads<4>, 128, bytes, encoded, copies_.as<ListedCopy>(), count, each, bytes,
                   out_.data());
    } else {
      launch_block(run_loads<5>, 128, bytes, encoded, copies_.as<ListedCopy>(), count, each, bytes,
                   out_.data());
    }
    std::vector<std::byte> got(static_cast<size_t>(bytes));
    out_.download(got.data(), bytes);
    emulator::SharedMemory shared(bytes);
    if (const Status status = emulate(c, memory(host()), shared); !status.is_ok())
      return run_.records.fail(c.name, std::string(status.message()));
    run_.records.compare(c.name, got.data(), shared.at(0), bytes);
  }

  /// Stores over a copy of the storage's first part, which holds the ragged tensor, and compares
  /// all of that.
  void store(const GpuCase& c, const tma::EncodedTensorMap& encoded) {
    constexpr int64_t part = gpu_stored_bytes;
    const auto bytes = static_cast<int>(c.layout.bytes());
    emulator::SharedMemory shared(bytes);
    std::memcpy(shared.at(0), host() + gpu_storage_bytes - bytes, static_cast<size_t>(bytes));
    in_.upload(shared.at(0), bytes);
    copies_.upload(c.copies.data(), static_cast<int64_t>(c.copies.size() * sizeof(ListedCopy)));
    launch_block(run_stores, 128, bytes, encoded, copies_.as<ListedCopy>(),
                 static_cast<int>(c.copies.size()), bytes, in_.data());
    std::vector<std::byte> got(part), expected(host(), host() + part);
    device_.download(got.data(), part);
    device_.upload(host_.data(), part);
    const emulator::GlobalMemory global{expected.data(), part, device_.address(), "storage"};
    if (const Status status = emulate(c, global, shared); !status.is_ok())
      return run_.records.fail(c.name, std::string(status.message()));
    run_.records.compare(c.name, got.data(), expected.data(), part);
  }

  TileRun& run_;
  std::vector<uint64_t> host_ = std::vector<uint64_t>(gpu_storage_bytes / 8);
  DeviceBytes device_{gpu_storage_bytes};
  DeviceBytes copies_{4096 * static_cast<int64_t>(sizeof(ListedCopy))};
  DeviceBytes in_{max_shared_bytes}, out_{max_shared_bytes};
};

/// The kernels that do their own arithmetic, on a cache of the static face; what they should find
/// is read through its host twin.
template <DType D, KVCacheStaticParams Params, int PageSize, int BN>
void check_device_geometry(TileRun& run, const std::string& title) {
  using Collection = PagedKVCacheCollection<D, Params, PageSize>;
  using Cache = typename Collection::CacheType;
  constexpr int64_t num_pages = 12, layers = 2,
                    columns = 2 * 256 / PageSize < 16 ? 16 : 512 / PageSize,
                    padded = (columns + 7) / 8 * 8 + 16;
  constexpr int64_t block_bytes = num_pages * Collection::num_planes * layers * PageSize *
                                  Cache::row_size * int64_t{sizeof(element_t<D>)};
  Rng rng(11);
  std::vector<uint64_t> blocks((block_bytes + 7) / 8);
  for (uint64_t& word : blocks) word = rng.next();
  alignas(32) static uint32_t table[2 * padded];
  for (uint32_t& entry : table)
    entry = static_cast<uint32_t>(rng.chance(0.15) ? num_pages : rng.between(0, num_pages - 1));
  const uint32_t lengths[2] = {0, 0};
  DeviceBytes device_blocks(block_bytes), device_table(sizeof table),
      device_lengths(sizeof lengths);
  device_blocks.upload(blocks.data(), block_bytes);
  device_table.upload(table, sizeof table);
  device_lengths.upload(lengths, sizeof lengths);

  const auto make = [&](void* data, const uint32_t* entries, const uint32_t* cached) {
    CacheTables tables;
    tables.cache_lengths = cached;
    tables.lookup_table = entries;
    tables.lut_stride = padded;
    tables.lut_cols = padded;
    tables.batch = 2;
    tables.max_seq_length = 1;
    tables.max_cache_length = static_cast<uint32_t>(columns * PageSize);
    return Collection::make({data, block_bytes}, num_pages, layers, tables);
  };
  const auto on_device =
      make(device_blocks.data(), device_table.as<uint32_t>(), device_lengths.as<uint32_t>());
  const auto on_host = make(blocks.data(), table, lengths);
  if (!on_device || !on_host)
    return run.records.fail(title,
                            std::string((on_device ? on_host : on_device).error().message()));
  const Cache cache = on_device->get_key_cache(1), host = on_host->get_key_cache(1);
  constexpr int head = Params.num_heads - 1;
  constexpr int64_t head_bytes = int64_t{Params.head_size} * sizeof(element_t<D>);

  DeviceBytes out(max_shared_bytes);
  const auto compare = [&](const std::string& name, const tma::TileLayout& layout, auto&& key) {
    const int64_t row_bytes = int64_t{layout.columns} * layout.element_bytes;
    std::vector<std::byte> got(static_cast<size_t>(layout.bytes())), expected(got.size());
    for (int row = 0; row < layout.rows; ++row) {
      if (const void* data = key(row); data != nullptr)
        std::memcpy(expected.data() + row * row_bytes, data, head_bytes);
    }
    out.download(got.data(), layout.bytes());
    run.records.compare(title + " " + name, got.data(), expected.data(), layout.bytes());
  };
  for (uint32_t base = 0; base < 2 * BN; base += BN) {
    const auto key = [&](int row) -> const void* {
      return host.template block_paged_ptr<1>(1, base + static_cast<uint32_t>(row), head);
    };
    const auto rows = cache.template create_tma_tile<tma::Swizzle::b128, BN>();
    run.with_map(title + " rows from " + std::to_string(base), rows.map,
                 [&](const tma::EncodedTensorMap& map) {
                   launch_block(load_row_tile<Cache, BN>, 128,
                                static_cast<int>(rows.layout.bytes()), cache, map, rows, 1u, base,
                                head, out.data());
                   compare("rows from " + std::to_string(base), rows.layout, key);
                 });
    const auto pages = cache.template create_page_tma_tile<tma::Swizzle::b128, BN>();
    run.with_map(title + " pages from " + std::to_string(base), pages.map,
                 [&](const tma::EncodedTensorMap& map) {
                   launch_block(load_page_tile<Cache>, 128, static_cast<int>(pages.layout.bytes()),
                                cache, map, pages, 1u, base, head, out.data());
                   compare("pages from " + std::to_string(base), pages.layout, key);
                 });
  }
  if constexpr (Params.num_heads == 1) {
    if (!run.has_gather4) return;
    int64_t slots[64];
    for (int64_t& slot : slots)
      slot = rng.chance(0.2) ? -1 : rng.between(0, num_pages * PageSize - 1);
    DeviceBytes device_slots(sizeof slots);
    device_slots.upload(slots, sizeof slots);
    const auto tile = cache.template create_gather4_tma_tile<Params.head_size, Params.head_size,
                                                             tma::Swizzle::b128, 64>();
    run.with_map(title + " selected", tile.map, [&](const tma::EncodedTensorMap& map) {
      launch_block(load_selected<Cache>, 128, static_cast<int>(tile.layout.bytes()), cache, map,
                   tile, device_slots.as<int64_t>(), out.data());
      compare("selected", tile.layout, [&](int row) -> const void* {
        return slots[row] < 0
                   ? nullptr
                   : host.blocks.pointer(slots[row] / PageSize, slots[row] % PageSize, 0, 0);
      });
    });
  }
}

/// copy_ragged_tile: coordinates computed on the device, both ways.
inline void check_ragged(TileRun& run) {
  constexpr int64_t rows = 150, heads = 4, depth = 128, bytes = rows * heads * depth * 2;
  Rng rng(13);
  std::vector<uint64_t> host(bytes / 8);
  for (uint64_t& word : host) word = rng.next();
  DeviceBytes device(bytes), matrix(max_shared_bytes);
  tma::PlaneGeometry plane = rows_of(DType::bf16, rows, heads, depth);
  plane.base = device.address();
  const RaggedTMA3DTile tile =
      tma::ragged_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 64}, 2);
  const int64_t tile_bytes = tile.layout.bytes(), piece = depth * 2;  // bytes of a head
  for (const tma::RaggedRows& r :
       {tma::RaggedRows{20, 50, 32}, tma::RaggedRows{20, 50, 0}, tma::RaggedRows{70, 80, -7}}) {
    // Row i of the tile is head i % 2 of the group and row i / 2 of the sequence; group 1 is heads
    // 2 and 3.
    const auto offset = [&](int64_t i) {
      const int64_t row = r.first + i / 2;
      return row < 0 || row >= r.length ? int64_t{-1}
                                        : ((r.start + row) * heads + 2 + i % 2) * piece;
    };
    const std::string name =
        "ragged geometry from " + std::to_string(r.first) + " of " + std::to_string(r.length);
    const auto* blocks = reinterpret_cast<const std::byte*>(host.data());
    run.with_map(name + ", loaded", tile.map, [&](const tma::EncodedTensorMap& map) {
      device.upload(host.data(), bytes);
      std::vector<std::byte> got(static_cast<size_t>(tile_bytes)), expected(got.size());
      for (int64_t i = 0; i < 64; ++i) {
        if (offset(i) >= 0) std::memcpy(expected.data() + i * piece, blocks + offset(i), piece);
      }
      launch_block(copy_ragged_tile, 128, static_cast<int>(tile_bytes), map, tile, r, 1,
                   static_cast<const std::byte*>(nullptr), matrix.data());
      matrix.download(got.data(), tile_bytes);
      run.records.compare(name + ", loaded", got.data(), expected.data(), tile_bytes);
    });
    run.with_map(name + ", stored", tile.map, [&](const tma::EncodedTensorMap& map) {
      device.upload(host.data(), bytes);
      std::vector<std::byte> stored(static_cast<size_t>(tile_bytes)), after(bytes),
          want(blocks, blocks + bytes);
      for (std::byte& byte : stored) byte = static_cast<std::byte>(rng.next());
      for (int64_t i = 0; i < 64; ++i) {
        if (offset(i) >= 0) std::memcpy(want.data() + offset(i), stored.data() + i * piece, piece);
      }
      matrix.upload(stored.data(), tile_bytes);
      launch_block(copy_ragged_tile, 128, static_cast<int>(tile_bytes), map, tile, r, 1,
                   static_cast<const std::byte*>(matrix.data()), static_cast<std::byte*>(nullptr));
      device.download(after.data(), bytes);
      run.records.compare(name + ", stored", after.data(), want.data(), bytes);
    });
  }
}

/// Everything; throws at the first error of CUDA.
inline void run_tiles(TileRun& run) {
  TileGrid(run).run();
  check_ragged(run);
  check_device_geometry<DType::bf16, KVCacheStaticParams{8, 128}, 16, 128>(run, "llama");
  check_device_geometry<DType::bf16, KVCacheStaticParams{1, 576, true}, 64, 64>(run, "latent");
}

}  // namespace folio::test
