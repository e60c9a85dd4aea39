// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_check.cu: does on a GPU what the emulator does, compares bit for bit, records
/// descriptors. See tools/gpu_check.sh.
///
/// usage: gpu_check RESULT.json [DESCRIPTORS.json]
/// Exit status: 0 all equal, 1 something differs or fails, 77 no GPU that has tensor maps.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/gpu_emulation.h"
#include "cuda/gpu_json.h"
#include "cuda/tma_kernels.cuh"
#include "folio/cache/paged_kv_cache_collection.h"
#include "folio/core/element.h"

namespace folio::test {
namespace {

constexpr int no_gpu = 77;
constexpr int max_shared_bytes = 200 * 1024;

/// Throws, so that what was found before is still written.
void must(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// Device memory for the life of the program.
class DeviceBytes {
 public:
  explicit DeviceBytes(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    must(cudaMalloc(&data_, bytes_), "cudaMalloc");
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { cudaFree(data_); }
  void upload(const void* from, int64_t bytes) {
    must(cudaMemcpy(data_, from, static_cast<size_t>(bytes), cudaMemcpyDefault), "upload");
  }
  void download(void* to, int64_t bytes) const {
    must(cudaMemcpy(to, data_, static_cast<size_t>(bytes), cudaMemcpyDefault), "download");
  }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  [[nodiscard]] uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

/// The grid of gpu_cases.h: random storage on both sides, every case on both.
class Grid {
 public:
  explicit Grid(GpuReport& report) : report_(report) {
    Rng rng(20240607);
    for (uint64_t& word : host_) word = rng.next();
    device_.upload(host_.data(), gpu_storage_bytes);
  }

  void run(bool has_gather4) {
    GpuCases grid(device_.address(), 7);
    grid.add_all();
    for (const GpuCase& c : grid.cases) {
      if (c.map.use == tma::Use::gather4 && !has_gather4) {
        ++report_.skipped;
        continue;
      }
      const Result<tma::EncodedTensorMap> encoded = tma::encode(c.map);
      if (!encoded) {
        report_.fail(c.name, std::string(encoded.error().message()));
        continue;
      }
      report_.record(c.name, c.map, *encoded);
      c.is_store ? store(c, *encoded) : load(c, *encoded);
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
      launch(run_gathers, bytes, encoded, copies_.as<ListedCopy>(), count, each, bytes,
             out_.data());
    } else if (c.map.rank == 2) {
      launch(run_loads<2>, bytes, encoded, copies_.as<ListedCopy>(), count, each, bytes,
             out_.data());
    } else if (c.map.rank == 3) {
      launch(run_loads<3>, bytes, encoded, copies_.as<ListedCopy>(), count, each, bytes,
             out_.data());
    } else if (c.map.rank == 4) {
      launch(run_loads<4>, bytes, encoded, copies_.as<ListedCopy>(), count, each, bytes,
             out_.data());
    } else {
      launch(run_loads<5>, bytes, encoded, copies_.as<ListedCopy>(), count, each, bytes,
             out_.data());
    }
    std::vector<std::byte> got(static_cast<size_t>(bytes));
    out_.download(got.data(), bytes);
    emulator::SharedMemory shared(bytes);
    if (const Status status = emulate(c, memory(host()), shared); !status.is_ok())
      return report_.fail(c.name, std::string(status.message()));
    report_.compare(c.name, got.data(), shared.at(0), bytes);
  }

  /// Stores over a copy of the storage's first part, which holds the ragged tensor, and compares
  /// all of that.
  void store(const GpuCase& c, const tma::EncodedTensorMap& encoded) {
    constexpr int64_t part = int64_t{1} << 20;
    const auto bytes = static_cast<int>(c.layout.bytes());
    emulator::SharedMemory shared(bytes);
    std::memcpy(shared.at(0), host() + gpu_storage_bytes - bytes, static_cast<size_t>(bytes));
    in_.upload(shared.at(0), bytes);
    copies_.upload(c.copies.data(), static_cast<int64_t>(c.copies.size() * sizeof(ListedCopy)));
    launch(run_stores, bytes, encoded, copies_.as<ListedCopy>(), static_cast<int>(c.copies.size()),
           bytes, in_.data());
    std::vector<std::byte> got(part), expected(host(), host() + part);
    device_.download(got.data(), part);
    device_.upload(host_.data(), part);
    const emulator::GlobalMemory global{expected.data(), part, device_.address(), "storage"};
    if (const Status status = emulate(c, global, shared); !status.is_ok())
      return report_.fail(c.name, std::string(status.message()));
    report_.compare(c.name, got.data(), expected.data(), part);
  }

 public:
  template <class... Parameters, class... Args>
  static void launch(void (*kernel)(Parameters...), int shared_bytes, const Args&... args) {
    must(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, max_shared_bytes),
        "cudaFuncSetAttribute");
    kernel<<<1, 128, static_cast<size_t>(shared_bytes)>>>(args...);
    must(cudaGetLastError(), "launch");
    must(cudaDeviceSynchronize(), "kernel");
  }

 private:
  GpuReport& report_;
  std::vector<uint64_t> host_ = std::vector<uint64_t>(gpu_storage_bytes / 8);
  DeviceBytes device_{gpu_storage_bytes};
  DeviceBytes copies_{4096 * static_cast<int64_t>(sizeof(ListedCopy))};
  DeviceBytes in_{max_shared_bytes}, out_{max_shared_bytes};
};

/// The kernels that do their own arithmetic, on a cache of the static face; what they should find
/// is read through its host twin.
template <DType D, KVCacheStaticParams Params, int PageSize, int BN>
void check_device_geometry(GpuReport& report, const std::string& title, bool has_gather4) {
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
    return report.fail(title, std::string((on_device ? on_host : on_device).error().message()));
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
    report.compare(title + " " + name, got.data(), expected.data(), layout.bytes());
  };
  const auto with_map = [&](const std::string& name, const auto& tile, auto&& run) {
    const Result<tma::EncodedTensorMap> encoded = tma::encode(tile);
    if (!encoded) return report.fail(title + " " + name, std::string(encoded.error().message()));
    report.record(title + " " + name, tile.map, *encoded);
    run(*encoded);
  };

  for (uint32_t base = 0; base < 2 * BN; base += BN) {
    const auto key = [&](int row) -> const void* {
      return host.template block_paged_ptr<1>(1, base + static_cast<uint32_t>(row), head);
    };
    const auto rows = cache.template create_tma_tile<tma::Swizzle::b128, BN>();
    with_map("rows from " + std::to_string(base), rows, [&](const tma::EncodedTensorMap& map) {
      Grid::launch(load_row_tile<Cache, BN>, static_cast<int>(rows.layout.bytes()), cache, map,
                   rows, 1u, base, head, out.data());
      compare("rows from " + std::to_string(base), rows.layout, key);
    });
    const auto pages = cache.template create_page_tma_tile<tma::Swizzle::b128, BN>();
    with_map("pages from " + std::to_string(base), pages, [&](const tma::EncodedTensorMap& map) {
      Grid::launch(load_page_tile<Cache>, static_cast<int>(pages.layout.bytes()), cache, map, pages,
                   1u, base, head, out.data());
      compare("pages from " + std::to_string(base), pages.layout, key);
    });
  }
  if constexpr (Params.num_heads == 1) {
    if (!has_gather4) return void(++report.skipped);
    int64_t slots[64];
    for (int64_t& slot : slots)
      slot = rng.chance(0.2) ? -1 : rng.between(0, num_pages * PageSize - 1);
    DeviceBytes device_slots(sizeof slots);
    device_slots.upload(slots, sizeof slots);
    const auto tile = cache.template create_gather4_tma_tile<Params.head_size, Params.head_size,
                                                             tma::Swizzle::b128, 64>();
    with_map("selected", tile, [&](const tma::EncodedTensorMap& map) {
      Grid::launch(load_selected<Cache>, static_cast<int>(tile.layout.bytes()), cache, map, tile,
                   device_slots.as<int64_t>(), out.data());
      compare("selected", tile.layout, [&](int row) -> const void* {
        return slots[row] < 0
                   ? nullptr
                   : host.blocks.pointer(slots[row] / PageSize, slots[row] % PageSize, 0, 0);
      });
    });
  }
}

/// copy_ragged_tile: coordinates computed on the device, both ways.
void check_ragged(GpuReport& report) {
  constexpr int64_t rows = 150, heads = 4, depth = 128, bytes = rows * heads * depth * 2;
  Rng rng(13);
  std::vector<uint64_t> host(bytes / 8);
  for (uint64_t& word : host) word = rng.next();
  DeviceBytes device(bytes), matrix(max_shared_bytes);
  tma::PlaneGeometry plane = rows_of(DType::bf16, rows, heads, depth);
  plane.base = device.address();
  const RaggedTMA3DTile tile =
      tma::ragged_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 64}, 2);
  const Result<tma::EncodedTensorMap> map = tma::encode(tile);
  if (!map) return report.fail("ragged geometry", std::string(map.error().message()));
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
    device.upload(host.data(), bytes);
    const auto* blocks = reinterpret_cast<const std::byte*>(host.data());
    std::vector<std::byte> got(static_cast<size_t>(tile_bytes)), expected(got.size());
    for (int64_t i = 0; i < 64; ++i) {
      if (offset(i) >= 0) std::memcpy(expected.data() + i * piece, blocks + offset(i), piece);
    }
    Grid::launch(copy_ragged_tile, static_cast<int>(tile_bytes), *map, tile, r, 1,
                 static_cast<const std::byte*>(nullptr), matrix.data());
    matrix.download(got.data(), tile_bytes);
    report.compare(name + ", loaded", got.data(), expected.data(), tile_bytes);

    std::vector<std::byte> stored(static_cast<size_t>(tile_bytes)), after(bytes),
        want(blocks, blocks + bytes);
    for (std::byte& byte : stored) byte = static_cast<std::byte>(rng.next());
    for (int64_t i = 0; i < 64; ++i) {
      if (offset(i) >= 0) std::memcpy(want.data() + offset(i), stored.data() + i * piece, piece);
    }
    matrix.upload(stored.data(), tile_bytes);
    Grid::launch(copy_ragged_tile, static_cast<int>(tile_bytes), *map, tile, r, 1,
                 static_cast<const std::byte*>(matrix.data()), static_cast<std::byte*>(nullptr));
    device.download(after.data(), bytes);
    report.compare(name + ", stored", after.data(), want.data(), bytes);
  }
}

void check_everything(GpuReport& report, bool has_gather4) {
  check_device_geometry<DType::bf16, KVCacheStaticParams{8, 128}, 16, 128>(report, "llama",
                                                                           has_gather4);
  check_device_geometry<DType::bf16, KVCacheStaticParams{1, 576, true}, 64, 64>(report, "latent",
                                                                                has_gather4);
  check_ragged(report);
  Grid(report).run(has_gather4);
}

int run(const char* result_path, const char* descriptors_path) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::puts("gpu_check: no GPU on this machine");
    return no_gpu;
  }
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess || properties.major < 9) {
    std::puts("gpu_check: the GPU of this machine has no tensor maps");
    return no_gpu;
  }
  GpuReport report;
  report.gpu = properties.name;
  report.major = properties.major;
  report.minor = properties.minor;
  try {
    must(cudaDriverGetVersion(&report.driver_version), "cudaDriverGetVersion");
    check_everything(report, properties.major >= 10);
  } catch (const std::runtime_error& error) {
    report.fail("gpu_check", error.what());
  }
  report.print();
  const bool is_written =
      report.write_result(result_path) &&
      (descriptors_path == nullptr || report.write_descriptors(descriptors_path));
  return is_written && report.failures.empty() && report.passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace folio::test

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fputs("usage: gpu_check RESULT.json [DESCRIPTORS.json]\n", stderr);
    return 2;
  }
  return folio::test::run(argv[1], argc > 2 ? argv[2] : nullptr);
}
