// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/kv_buffer_test.cpp: the instances of KVBuffer for GPUs, run in the emulator: the
/// conformance suite, register tiles, several stages in flight.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/kv_buffer_kernels.h"
#include "folio/testing/cta/grid.h"
#include "folio/testing/cta/tile_map.h"
#include "support/kv_buffer_conformance.h"

namespace folio::test {
namespace {

using emulator::EmulatedThread;
using emulator::Grid;

template <class Loader> concept CopiesByMap = requires { &Loader::tile_of; };

/// A load of a block: into which stage, after which tile was set.
struct LoadOf {
  int stage = 0;
  bool is_set = false;
  int64_t first = 0;
  uint64_t seen = 0;
  int64_t head = 0;
};

/// Bytes of a view's plane, from its first to its last element.
int64_t bytes_of(const PagedKVView& view) {
  const bool unbounded = view.page_size == unbounded_page_size;
  const int64_t slots = unbounded ? 0 : view.page_size - 1;
  return (view.num_pages - 1) * view.page_stride_bytes + slots * view.slot_stride_bytes +
         (view.num_heads - 1) * view.head_stride_bytes +
         view.head_size * (bit_width(view.dtype) / 8);
}

/// The buffers of a block's warps in the emulator. Every load runs the block anew, with all loads
/// before it, and keeps what the stages hold then.
template <class Instance>
class EmulatedBlock {
 public:
  using Operand = ViewMHAOperand<Instance::dtype>;
  using Buffer = KVBuffer<Operand, typename Instance::Config>;
  using Loader = typename Buffer::Loader;
  using smem_type = typename Buffer::smem_type;
  static constexpr int64_t stage_bytes = Buffer::smem_stage_size * int64_t{sizeof(smem_type)};

  EmulatedBlock(const Operand& operand, int64_t head, int64_t end)
      : operand_(operand), head_(head), end_(end) {
    if constexpr (CopiesByMap<Loader>) {
      const RaggedTMA3DTile tile = Loader::tile_of(operand.tma_plane());
      EXPECT_TRUE(tile.check().is_ok()) << tile.check().message();
      map_ = emulator::encode(tile.map);
      box_rows_ = tile.map.box[2];
    }
  }
  /// Whether the instance has a map of such planes; it says so itself.
  static bool can_load(const Operand& operand) {
    if constexpr (CopiesByMap<Loader>) return Loader::tile_of(operand.tma_plane()).check().is_ok();
    return true;
  }

  void set_tile(const KeyTile& keys, int64_t head) {
    next_ = {0, true, keys.first, keys.seen, head};
  }
  void load(int stage) {
    next_.stage = stage;
    loads_.push_back(next_);
    next_ = {};
    run([](EmulatedThread&, Buffer&) {});
  }
  [[nodiscard]] float at(int stage, int key, int column) const {
    smem_type value;
    const int64_t unit = int64_t{sizeof(smem_type)};
    std::memcpy(&value,
                staged_.data() + stage * stage_bytes + (key * Buffer::smem_cols + column) * unit,
                sizeof value);
    return to_float(value);
  }
  /// Does the loads, then `then(t, buffer)`; what the emulator says against it is a failure.
  template <class Then>
  void run(Then then, void* out = nullptr, int64_t out_bytes = 0) {
    staged_.assign(static_cast<size_t>(Buffer::num_smem_stages * stage_bytes), std::byte{0xff});
    Grid grid({.blocks = 1,
               .resident = 1,
               .threads = Buffer::num_threads,
               .shared_bytes = 1024 + Buffer::num_smem_stages * stage_bytes,
               .seed = ++seed_});
    grid.add_input("pool", operand_.view.data, bytes_of(operand_.view));
    grid.add_buffer("staged", staged_.data(), static_cast<int64_t>(staged_.size()));
    if (out != nullptr) grid.add_buffer("out", out, out_bytes);
    const std::string fault = grid.run([&](EmulatedThread& t) { block(t, then); });
    EXPECT_EQ(fault, "");
    counts_ = grid.counts();
  }
  /// Of the last run.
  [[nodiscard]] const emulator::GridCounts& counts() const { return counts_; }

 private:
  template <class Then>
  void block(EmulatedThread& t, Then then) {
    const SharedMemBarrier barriers{t.shared_base()};
    const SharedPointer<EmulatedThread, smem_type> smem{&t, t.shared_base() + 1024};
    if constexpr (CopiesByMap<Loader>) {
      if (t.thread() == 0) Loader::init_barriers(t, barriers);
      t.sync_block();
      Buffer buffer(operand_, 0, head_, {smem, map_, barriers, box_rows_}, end_,
                    static_cast<uint32_t>(t.warp()));
      loads(t, buffer, then);
    } else {
      Buffer buffer(operand_, 0, head_, {smem, {}}, end_, static_cast<uint32_t>(t.warp()));
      loads(t, buffer, then);
    }
  }
  template <class Then>
  void loads(EmulatedThread& t, Buffer& buffer, Then then) {
    uint32_t loaded = 0;
    for (const LoadOf& load : loads_) {
      if constexpr (Buffer::BN == tile_keys)
        if (load.is_set) buffer.kv_cache_iter.set_tile(load.first, load.seen, load.head);
      buffer.begin_load(load.stage);
      while (buffer.load_from_dram_step()) {}
      if constexpr (CopiesByMap<Loader>) {
        buffer.loader().wait(load.stage);
      } else {
        buffer.loader().commit();
        buffer.loader().template wait<0>();
      }
      t.sync_block();
      loaded |= 1u << load.stage;
    }
    for (int stage = 0; stage < Buffer::num_smem_stages; ++stage)
      if ((loaded >> stage & 1) != 0) show(t, buffer, stage);
    then(t, buffer);
  }
  /// A stage as rows of columns, unit by unit.
  void show(EmulatedThread& t, const Buffer& buffer, int stage) {
    using Unit = detail::SharedUnit<smem_type>;
    constexpr int units = Buffer::smem_cols / Unit::width;
    for (int i = t.thread(); i < Buffer::BN * units; i += t.threads()) {
      const uint32_t at = buffer.loader().address_of(stage, i / units, i % units * Unit::width);
      t.store(reinterpret_cast<Unit*>(staged_.data() + stage * stage_bytes) + i,
              t.template load_shared<Unit>(at));
    }
  }

  Operand operand_;
  int64_t head_, end_;
  tma::EncodedTensorMap map_ = {};
  int32_t box_rows_ = 0;
  LoadOf next_ = {};
  std::vector<LoadOf> loads_;
  std::vector<std::byte> staged_;
  emulator::GridCounts counts_ = {};
  uint64_t seed_ = 0;
};

template <class C, DType D>
struct EmulatedInstance {
  using Config = C;
  using BlockType = EmulatedBlock<EmulatedInstance>;
  static constexpr DType dtype = D;
  static constexpr bool has_scales = false;
  static constexpr bool applies_scales = false;
  static bool can_run() { return true; }
};
template <class Base, DType D = DType::bf16>
using CpAsync = EmulatedInstance<ByCpAsync<Base, EmulatedThread>, D>;
template <class Base, DType D = DType::bf16>
using Tma = EmulatedInstance<ByTma<Base, EmulatedThread>, D>;

using CpAsyncTypes = ::testing::Types<CpAsync<LaneKeys>, CpAsync<LaneValues, DType::f16>,
                                      CpAsync<LaneBytes, DType::f8_e4m3>, CpAsync<LaneRope>>;
INSTANTIATE_TYPED_TEST_SUITE_P(CpAsync, KVBufferConformance, CpAsyncTypes);
using TmaTypes = ::testing::Types<Tma<LaneKeys>, Tma<LaneValues, DType::f16>,
                                  Tma<LaneBytes, DType::i8>, Tma<LaneStreamedKeys>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Tma, KVBufferConformance, TmaTypes);

/// Every element of every register tile is the one that mma.sync takes it for.
template <class Base, class Instance>
void expect_fragments() {
  using Buffer = typename Instance::BlockType::Buffer;
  Rng rng(test_seed());
  Pool<Instance> pool({.page_size = 16, .context = 57}, rng);
  for (int64_t token = 0; token < 57; ++token) pool.store(token);
  EmulatedBlock<Instance> block(pool.operand(), 1, 57);
  block.load(1);
  constexpr int strips = Buffer::num_k_tiles, steps = Buffer::num_k_mmas2;
  constexpr int per_thread = strips * steps * Buffer::num_mmas * 4;
  std::vector<float> found(static_cast<size_t>(Buffer::num_threads) * per_thread, -99.0f);
  float* const out = found.data();
  block.run(
      [out](EmulatedThread& t, Buffer& buffer) {
        buffer.load_from_shared(1);
        float* to = out + t.thread() * per_thread;
        const auto strip = [&]<int bk>() {
          const auto step = [&]<int k>() {
            const auto tile = buffer.template get_mma_tile<k, bk>();
            for (int mma = 0; mma < Buffer::num_mmas; ++mma)
              for (int e = 0; e < 4; ++e) t.store(to++, to_float(tile(mma, e)));
          };
          [&]<int... k>(std::integer_sequence<int, k...>) {
            (step.template operator()<k>(), ...);
          }(std::make_integer_sequence<int, steps>());
        };
        [&]<int... bk>(std::integer_sequence<int, bk...>) {
          (strip.template operator()<bk>(), ...);
        }(std::make_integer_sequence<int, strips>());
      },
      out, static_cast<int64_t>(found.size() * sizeof(float)));
  EXPECT_GT(block.counts().ldmatrix, 0);
  EXPECT_EQ(block.counts().ldmatrix_extra_passes, 0) << "bank conflicts";
  int wrong = 0;
  for (int thread = 0; thread < Buffer::num_threads; ++thread) {
    const int first_key = thread / 32 % (Buffer::BN / Buffer::WN) * Buffer::WN;
    for (int i = 0; i < per_thread; ++i) {
      const MmaElement b = Buffer::KVMmaOpType::element_of(thread % 32, i % 4);
      const int n = i / 4 % Buffer::num_mmas * 8 + b.n;
      const int k = i / 4 / Buffer::num_mmas % steps * 16 + b.k +
                    i / 4 / Buffer::num_mmas / steps * Buffer::BK;
      const int key = first_key + (Buffer::transpose ? n : k);
      const float expected = key < 57 ? pool.expected(key, 1, Buffer::transpose ? k : n) : 0.0f;
      const float value = found[static_cast<size_t>(thread * per_thread + i)];
      if (value == expected || ++wrong > 3) continue;
      ADD_FAILURE() << "thread " << thread << " element " << i << " is " << value << ", expected "
                    << expected;
    }
  }
  EXPECT_EQ(wrong, 0);
}
TEST(KVBufferOnADevice, fragments_of_keys_are_those_of_the_matrix_instruction) {
  expect_fragments<LaneKeys, CpAsync<LaneKeys>>();
  expect_fragments<LaneKeys, Tma<LaneKeys>>();
}
TEST(KVBufferOnADevice, fragments_of_values_are_transposed) {
  expect_fragments<LaneValues, CpAsync<LaneValues>>();
  expect_fragments<LaneValues, Tma<LaneValues>>();
}

/// All stages but one are on their way while a tile is read.
template <class Instance>
void expect_pipeline() {
  using Block = EmulatedBlock<Instance>;
  using Buffer = typename Block::Buffer;
  constexpr int64_t keys = 5 * Buffer::BN - 7;
  Rng rng(test_seed());
  Pool<Instance> pool({.page_size = 8, .context = keys}, rng);
  for (int64_t token = 0; token < keys; ++token) pool.store(token);
  Block block(pool.operand(), 2, keys);
  std::vector<float> found(static_cast<size_t>(5 * Buffer::BN * Buffer::smem_cols), -99.0f);
  float* const out = found.data();
  block.run(
      [out](EmulatedThread& t, Buffer& buffer) {
        constexpr int stages = Buffer::num_smem_stages;
        const auto begin = [&](int stage) {
          buffer.begin_load(stage);
          buffer.finish_load();
          if constexpr (!CopiesByMap<typename Buffer::Loader>) buffer.loader().commit();
        };
        for (int stage = 0; stage + 1 < stages; ++stage) begin(stage);
        for (int tile = 0; tile < 5; ++tile) {
          const int stage = tile % stages;
          if constexpr (CopiesByMap<typename Buffer::Loader>)
            buffer.loader().wait(stage);
          else
            buffer.loader().template wait<stages - 2>();
          t.sync_block();  // also: all have read the stage that comes next
          begin((tile + stages - 1) % stages);
          for (int i = t.thread(); i < Buffer::BN * Buffer::smem_cols; i += t.threads())
            t.store(
                out + tile * Buffer::BN * Buffer::smem_cols + i,
                to_float(buffer.loader().at(stage, i / Buffer::smem_cols, i % Buffer::smem_cols)));
        }
        for (int tile = 5; tile < 4 + stages; ++tile)
          if constexpr (CopiesByMap<typename Buffer::Loader>) buffer.loader().wait(tile % stages);
        if constexpr (!CopiesByMap<typename Buffer::Loader>) buffer.loader().template wait<0>();
      },
      out, static_cast<int64_t>(found.size() * sizeof(float)));
  int wrong = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto key = static_cast<int64_t>(i) / Buffer::smem_cols;
    const float expected = pool.expected(key, 2, static_cast<int64_t>(i) % Buffer::smem_cols);
    if (found[i] != expected && ++wrong <= 3)
      ADD_FAILURE() << "key " << key << " is " << found[i] << ", expected " << expected;
  }
  EXPECT_EQ(wrong, 0);
}
TEST(KVBufferOnADevice, stages_on_their_way_leave_the_one_that_is_read_alone) {
  expect_pipeline<CpAsync<LaneKeys>>();
  expect_pipeline<CpAsync<LaneValues>>();
  expect_pipeline<Tma<LaneKeys>>();
  expect_pipeline<Tma<LaneValues>>();
}

TEST(KVBufferOnADevice, tensor_maps_serve_all_page_sizes_and_refuse_misaligned_rows_by_name) {
  using Instance = Tma<LaneKeys>;
  using Loader = EmulatedBlock<Instance>::Loader;
  Rng rng(test_seed());
  for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major})
    for (const int32_t page_size : {0, 1, 5, 7, 8, 16, 32, 64, 256, 512}) {
      const Pool<Instance> pool({.page_size = page_size, .order = order, .context = 100}, rng);
      EXPECT_TRUE(EmulatedBlock<Instance>::can_load(pool.operand())) << page_size;
    }
  const Pool<Instance> odd({.page_size = 16, .context = 100, .missing_columns = 4}, rng);
  const Status refused = Loader::tile_of(odd.operand().tma_plane()).check("keys");
  EXPECT_NE(std::string(refused.message()).find("keys: "), std::string::npos);
  EXPECT_NE(std::string(refused.message()).find("multiple of 16"), std::string::npos)
      << refused.message();
  EXPECT_EQ(Loader::box_rows(1), 1);
  EXPECT_EQ(Loader::box_rows(5), 1);
  EXPECT_EQ(Loader::box_rows(24), 8);
  EXPECT_EQ(Loader::box_rows(512), 32);
}

/// Every row that is there is fetched once, and nothing else.
TEST(KVBufferOnADevice, loads_fetch_the_bytes_of_the_rows_that_are_there) {
  Rng rng(test_seed());
  const Pool<CpAsync<LaneKeys>> pool({.page_size = 16, .context = 57, .has_hole = true}, rng);
  EmulatedBlock<CpAsync<LaneKeys>> copies(pool.operand(), 0, 57);
  copies.load(0);
  EXPECT_EQ(copies.counts().copied_bytes, (57 - 16) * 256) << "the page of the hole is not read";
  EmulatedBlock<Tma<LaneKeys>> boxes(pool.operand(), 0, 57);
  boxes.load(0);
  EXPECT_EQ(boxes.counts().tma_read_bytes, (57 - 16) * 256);
  EXPECT_EQ(boxes.counts().tma_bytes, 64 * 256) << "the rest is filled";
}

/// Lanes keep what is theirs: two registers for each MMA tile.
TEST(KVBufferOnADevice, a_lane_keeps_its_own_registers) {
  using Keys = EmulatedBlock<CpAsync<LaneKeys>>::Buffer;
  static_assert(sizeof(Keys::KVMmaOpType) == Keys::KVMmaOpType::registers_per_lane * 4);
  // 16 keys of 128 dims are 2048 elements of 16 bits, a 32nd of them is 32 registers.
  EXPECT_EQ(Keys::KVMmaOpType::registers_per_lane, 32);
  EXPECT_EQ(Keys::mma_layout{}.size() * 2, 32 * 4);
}

}  // namespace
}  // namespace folio::test
