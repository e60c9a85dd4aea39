// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/decode_kernel_test.cpp: paged decode in the emulator, against the reference: shapes,
/// pages, masks, every option, and the promises about bits.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "cuda/attention/planes.h"
#include "cuda/cut_plane.h"
#include "cuda/decode_run.h"
#include "folio/cache/tma_plane.h"
#include "folio/testing/cta/tile_map.h"
#include "folio/tma/page_tile.h"
#include "support/bias_cases.h"
#include "support/pairwise.h"

namespace folio::test {
namespace {

using Plain128 = cuda::DecodeKernel<DType::bf16, 128, false>;
using Plain64 = cuda::DecodeKernel<DType::bf16, 64, false>;
using Half64 = cuda::DecodeKernel<DType::f16, 64, false>;
using Plain256 = cuda::DecodeKernel<DType::bf16, 256, false>;
using General64 = cuda::DecodeKernel<DType::bf16, 64, true>;

using Tiles64 = cuda::DecodeTilesKernel<DType::bf16, 64, false>;
using Tiles128 = cuda::DecodeTilesKernel<DType::bf16, 128, false>;
using Tiles256 = cuda::DecodeTilesKernel<DType::bf16, 256, false>;

/// With the maps that the border would encode.
cuda::AttendTileCall tile_call(const cuda::AttendCall& call) {
  cuda::AttendTileCall tiles;
  tiles.call = call;
  const auto encoded = [](const PagedKVView& view) {
    const auto chunks =
        view.page_size >= cuda::keys_of_box ? tma::ChunksPerCopy::all : tma::ChunksPerCopy::one;
    const auto tile = tma::page_tile(
        tma::plane_of(view), {.swizzle = tma::Swizzle::b128, .rows = cuda::keys_of_box}, chunks);
    EXPECT_TRUE(tile.check("plane").is_ok());
    return emulator::encode(tile.map);
  };
  tiles.key = encoded(call.args.key);
  tiles.value = encoded(call.args.value);
  return tiles;
}

/// One token per sequence unless said otherwise, as small as shows the fault.
template <class Kernel>
CaseOptions usual(std::vector<SequenceShape> sequences) {
  CaseOptions options;
  options.sequences = std::move(sequences);
  options.head_size = Kernel::Config::head_size;
  options.q_dtype = options.key_dtype = options.value_dtype = Kernel::Config::type;
  options.out_dtype = DType::f32;
  options.seed = 11;
  return options;
}

std::vector<SequenceShape> decode(const std::vector<int32_t>& contexts) {
  std::vector<SequenceShape> sequences;
  sequences.reserve(contexts.size());
  for (const int32_t context : contexts) sequences.push_back({1, context});
  return sequences;
}

/// No fault, no bank conflict, no row read twice, and the result is right.
template <class Kernel>
void expect_right(AttentionCase& c, const DecodeOptions& o = {}) {
  c.set_precision({Kernel::Config::type, DType::f32, DType::f32});
  const DecodeResult result = run_decode<Kernel>(c, o);
  ASSERT_EQ(result.fault, "") << describe(c.options());
  EXPECT_EQ(result.counts.ldmatrix_extra_passes, 0);
  EXPECT_EQ(result.counts.copied_bytes, result.visible_bytes);
  EXPECT_TRUE(matches_reference(c)) << describe(c.options());
}

template <class Kernel>
void expect_right(const CaseOptions& options, const DecodeOptions& o = {}) {
  AttentionCase c(options);
  expect_right<Kernel>(c, o);
}

template <class Kernel>
void expect_tiles_right(AttentionCase& c, const DecodeOptions& o = {}) {
  c.set_precision({Kernel::Config::type, DType::f32, DType::f32});
  const DecodeResult result = run_decode<Kernel>(c, o, tile_call);
  ASSERT_EQ(result.fault, "") << describe(c.options());
  EXPECT_EQ(result.counts.ldmatrix_extra_passes, 0);
  EXPECT_TRUE(matches_reference(c)) << describe(c.options());
}

TEST(DecodeKernel, is_right_at_every_edge_of_slabs_spans_and_pages) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    CaseOptions options = usual<Plain128>(decode({1, 15, 16, 17, 63, 64, 65, 0, 127, 129}));
    options.seed = seed;
    expect_right<Plain128>(options, {.blocks = 7, .seed = seed});
  }
}

TEST(DecodeKernel, takes_pages_of_any_size_in_both_orders) {
  for (const int32_t page_size : {1, 2, 3, 8, 16, 24, 64}) {
    CaseOptions options = usual<Plain64>(decode({1, page_size, 3 * page_size + 1, 83, 47}));
    options.page_size = page_size;
    options.key_order = page_size % 2 == 0 ? StorageOrder::head_major : StorageOrder::token_major;
    options.value_order = StorageOrder::head_major;
    options.gap_bytes = page_size == 8 ? 48 : 0;
    expect_right<Plain64>(options, {.blocks = 5});
  }
}

TEST(DecodeKernel, takes_every_head_size_and_both_types) {
  const std::vector<SequenceShape> sequences = {{1, 33}, {3, 130}, {1, 0}};
  expect_right<Plain256>(usual<Plain256>(sequences));
  expect_right<Half64>(usual<Half64>(sequences));
  expect_right<cuda::DecodeKernel<DType::f16, 128, false>>(
      usual<cuda::DecodeKernel<DType::f16, 128, false>>(sequences));
  expect_right<cuda::DecodeKernel<DType::bf16, 256, true>>(
      usual<cuda::DecodeKernel<DType::bf16, 256, true>>(sequences));
  expect_right<cuda::DecodeKernel<DType::f16, 128, true>>(
      usual<cuda::DecodeKernel<DType::f16, 128, true>>(sequences));
}

TEST(DecodeKernel, takes_groups_and_new_tokens_as_rows_of_tiles) {
  for (const int32_t group : {1, 3, 4, 8, 16}) {
    CaseOptions options = usual<Plain64>({{1, 40}, {4, 37}, {0, 5}, {19, 60}, {7, 7}, {9, 4}});
    options.kv_heads = 2;
    options.q_heads = 2 * group;
    expect_right<Plain64>(options, {.blocks = 6});
  }
}

TEST(DecodeKernel, writes_every_output_type) {
  for (const DType out : {DType::f32, DType::bf16, DType::f16}) {
    CaseOptions options = usual<Plain64>({{1, 70}, {3, 20}});
    options.out_dtype = out;
    options.row_gap_bytes = 16;
    options.lse = out != DType::f16;
    expect_right<Plain64>(options);
  }
}

TEST(DecodeKernel, keeps_to_windows_chunks_and_what_lies_ahead) {
  for (const Mask mask : {Mask::sliding_window(1), Mask::sliding_window(16),
                          Mask::sliding_window(17), Mask::sliding_window(100), Mask::chunked(24),
                          Mask::full(), Mask{5, 3, 0, 0}, Mask{-1, -1, 40, 0}}) {
    CaseOptions options = usual<Plain64>({{1, 200}, {3, 90}, {1, 10}, {6, 45}});
    options.mask = mask;
    expect_right<Plain64>(options, {.blocks = 5});
    options.query_positions = options.key_positions = true;
    expect_right<Plain64>(options, {.blocks = 5});
  }
}

TEST(DecodeKernel, takes_keys_of_unassigned_pages_for_invisible) {
  for (const int32_t page_size : {4, 16}) {
    CaseOptions options = usual<Plain64>({{1, 150}, {5, 64}, {1, 20}});
    options.unassigned = 0.4;
    options.page_size = page_size;
    expect_right<Plain64>(options);
  }
}

TEST(DecodeKernel, takes_keys_behind_a_plane_without_pages_for_invisible) {
  CaseOptions options = usual<Plain64>({{1, 70}, {3, 70}});
  options.page_size = unbounded_page_size;
  for (const int64_t rows : {0, 1, 38, 39, 70}) {
    AttentionCase c(options);
    cut_plane(c, rows);
    expect_right<Plain64>(c);
  }
}

TEST(DecodeKernel, reads_csr_tables_and_rows_in_larger_ones) {
  for (const TableForm form : {TableForm::csr, TableForm::rows_in_larger}) {
    CaseOptions options = usual<Plain64>(decode({33, 70, 1}));
    options.table = form;
    expect_right<Plain64>(options);
  }
}

TEST(DecodeKernel, adds_sink_logits_once_however_the_keys_are_divided) {
  CaseOptions options = usual<Plain64>(decode({300, 20, 0}));
  options.sink_logits = true;
  for (const int blocks : {1, 9}) expect_right<Plain64>(options, {.blocks = blocks});
}

TEST(DecodeKernel, general_instance_is_right_on_each_option_alone) {
  const auto with = [](auto change) {
    CaseOptions options = usual<General64>({{1, 150}, {5, 70}, {1, 3}, {9, 9}});
    change(options);
    expect_right<General64>(options, {.blocks = 5});
  };
  with([](CaseOptions&) {});
  with([](CaseOptions& o) { o.mask = Mask::sliding_window(20, 4); });
  with([](CaseOptions& o) { o.mask = Mask::sliding_window(70, 20); });
  with([](CaseOptions& o) { o.softcap = 5.0f; });
  with([](CaseOptions& o) { o.alibi = true; });
  with([](CaseOptions& o) { o.bias = BiasForm::shared; });
  with([](CaseOptions& o) { o.bias = BiasForm::per_head; });
  with([](CaseOptions& o) { o.intervals = true; });
  with([](CaseOptions& o) { o.tree = TreeForm::chain; });
  with([](CaseOptions& o) { o.tree = TreeForm::random; });
  with([](CaseOptions& o) { o.tree = TreeForm::bits; });
  with([](CaseOptions& o) { o.sink_logits = true; });
}

TEST(DecodeKernel, general_instance_is_right_on_pairs_of_options) {
  // mask, softcap, alibi, bias, intervals, tree, sink logits, pages, unassigned, promise
  const int levels[] = {4, 2, 2, 3, 2, 3, 2, 3, 2, 3};
  const PairwiseDesign design(levels, 3);
  for (const std::vector<int>& row : design.rows()) {
    CaseOptions o = usual<General64>({{1, 140}, {6, 41}, {3, 90}});
    const Mask masks[] = {Mask::causal(), Mask::sliding_window(30, 3), Mask::chunked(20),
                          Mask::full()};
    o.mask = masks[row[0]];
    o.softcap = row[1] != 0 ? 8.0f : 0.0f;
    o.alibi = row[2] != 0;
    o.bias = static_cast<BiasForm>(row[3]);
    o.intervals = row[4] != 0;
    o.tree = row[5] == 0 ? TreeForm::none : row[5] == 1 ? TreeForm::random : TreeForm::bits;
    o.sink_logits = row[6] != 0;
    o.page_size = row[7] == 0 ? 3 : row[7] == 1 ? 16 : 24;
    o.unassigned = row[8] != 0 ? 0.3 : 0.0;
    o.reproducible = static_cast<Reproducible>(row[9]);
    expect_right<General64>(o, {.blocks = 4});
  }
}

TEST(DecodeKernel, keeps_finite_biases_finite_and_hides_by_minus_infinity) {
  for (const BiasCase& one : bias_cases()) {
    CaseOptions options = one.options;
    options.sequences = {{1, 77}, {5, 140}, {3, 130}};
    options.head_size = 64;
    options.q_dtype = options.key_dtype = options.value_dtype = DType::bf16;
    AttentionCase c(options);
    one.arrange(c);
    SCOPED_TRACE(one.name);
    expect_right<General64>(c, {.blocks = 3});
  }
}

TEST(DecodeKernel, keeps_other_terms_finite_however_far_positions_lie_apart) {
  for (const BiasCase& one : term_cases()) {
    CaseOptions options = one.options;
    options.head_size = 64;
    options.q_dtype = options.key_dtype = options.value_dtype = DType::bf16;
    AttentionCase c(options);
    one.arrange(c);
    SCOPED_TRACE(one.name);
    expect_right<General64>(c, {.blocks = 3});
  }
}

/// All of out's and lse's bits after a run.
template <class Kernel>
std::vector<std::byte> bits_of(AttentionCase& c, const DecodeOptions& o) {
  const DecodeResult result = run_decode<Kernel>(c, o);
  EXPECT_EQ(result.fault, "");
  return c.output_bits();
}

TEST(DecodeKernel, gives_the_same_bits_however_keys_are_divided) {
  for (const Reproducible promise : {Reproducible::per_sequence, Reproducible::per_query}) {
    CaseOptions options = usual<Plain64>({{1, 2100}, {3, 700}});
    options.kv_heads = 1;
    options.reproducible = promise;
    AttentionCase c(options);
    expect_right<Plain64>(c, {.blocks = 1});
    const std::vector<std::byte> whole = c.output_bits();
    for (const int blocks : {2, 3, 5, 11})
      EXPECT_EQ(bits_of<Plain64>(c, {.blocks = blocks, .seed = static_cast<uint64_t>(blocks)}),
                whole)
          << blocks << " blocks";
  }
}

TEST(DecodeKernel, gives_the_same_bits_on_every_run_of_a_plan) {
  CaseOptions options = usual<Plain64>(decode({900, 350, 77}));
  AttentionCase c(options);
  const std::vector<std::byte> first = bits_of<Plain64>(c, {.blocks = 6, .seed = 1});
  EXPECT_EQ(bits_of<Plain64>(c, {.blocks = 6, .resident = 6, .seed = 2}), first);
  EXPECT_EQ(bits_of<Plain64>(c, {.blocks = 6, .resident = 1, .seed = 3}), first);
}

/// The output rows of a query in a case of its own: chunks and steps are other batches over the
/// same memory.
template <class Kernel>
void expect_same_bits_in_parts(CaseOptions options, const std::vector<int32_t>& ends) {
  options.reproducible = Reproducible::per_query;
  AttentionCase c(options);
  const int32_t queries = static_cast<int32_t>(c.tokens());
  const std::vector<std::byte> whole = bits_of<Kernel>(c, {.blocks = 3});
  const AttentionArgs args = c.args();
  const Batch batch = c.batch();
  const std::vector<std::byte> all(whole);
  c.poison_output();
  std::vector<std::byte> parts;
  int32_t first = 0;
  const int64_t row_bytes = args.out.stride_bytes[0];
  std::vector<std::byte> outputs(static_cast<size_t>(queries * row_bytes));
  std::vector<std::byte> expected(outputs.size());
  bits_of<Kernel>(c, {.blocks = 3});
  std::memcpy(expected.data(), args.out.data, expected.size());
  for (const int32_t end : ends) {
    const int32_t offsets[] = {0, end - first};
    const int32_t position =
        batch.context_lengths[0] - queries + first;  // of the chunk's first query
    c.batch().query_offsets = offsets;
    c.batch().query_positions = &position;
    c.args().q.data = static_cast<const std::byte*>(args.q.data) + first * args.q.stride_bytes[0];
    c.args().q.extent[0] = c.args().out.extent[0] = end - first;
    const DecodeResult result = run_decode<Kernel>(c, {.blocks = 4, .seed = 5});
    ASSERT_EQ(result.fault, "");
    std::memcpy(outputs.data() + first * row_bytes, args.out.data,
                static_cast<size_t>((end - first) * row_bytes));
    first = end;
  }
  EXPECT_EQ(outputs, expected);
  c.args() = args;
  c.batch() = batch;
}

TEST(DecodeKernel, gives_a_query_the_same_bits_in_a_prefill_in_chunks_and_alone) {
  CaseOptions options = usual<Plain64>({{20, 620}});
  options.sequences = {{20, 620}};
  options.shared = 0.0;
  expect_same_bits_in_parts<Plain64>(options, {1, 2, 9, 20});
  expect_same_bits_in_parts<Plain64>(options, {7, 8, 14, 19, 20});
  options.mask = Mask::sliding_window(300);
  expect_same_bits_in_parts<Plain64>(options, {5, 20});
  options.mask = Mask::sliding_window(300, 5);
  expect_same_bits_in_parts<General64>(options, {3, 11, 20});
}

TEST(DecodeKernel, names_a_workspace_that_nobody_prepared) {
  CaseOptions options = usual<Plain64>(decode({600}));
  options.kv_heads = 1;
  for (const uint32_t before : {0u, ~0u, cuda::arrivals_ready + 5, cuda::arrivals_ready - 1}) {
    AttentionCase c(options);
    const DecodeResult result = run_decode<Plain64>(c, {.blocks = 3, .arrivals = before});
    EXPECT_NE(result.fault.find("workspace not prepared"), std::string::npos) << result.fault;
  }
}

TEST(DecodeKernel, folds_rounds_of_very_long_tasks) {
  CaseOptions options = usual<Plain64>(decode({4 * 256 * 16 + 700}));
  options.kv_heads = 1;
  options.q_heads = 2;
  options.page_size = 64;
  expect_right<Plain64>(options, {.blocks = 1});
}

/// Moves a plane's pages so far apart that 32 bits do not hold the distance.
class FarPlane {
 public:
  static constexpr int64_t stride = int64_t{5} << 30;

  explicit FarPlane(PagedKVView& view) : bytes_(view.num_pages * stride) {
    data_ = mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) return;
    const int64_t page_bytes = reach_of(view) - (view.num_pages - 1) * view.page_stride_bytes;
    for (int64_t page = 0; page < view.num_pages; ++page)
      std::memcpy(static_cast<std::byte*>(data_) + page * stride,
                  static_cast<const std::byte*>(view.data) + page * view.page_stride_bytes,
                  static_cast<size_t>(page_bytes));
    view.data = data_;
    view.page_stride_bytes = stride;
  }
  FarPlane(const FarPlane&) = delete;
  FarPlane& operator=(const FarPlane&) = delete;
  ~FarPlane() {
    if (is_mapped()) munmap(data_, static_cast<size_t>(bytes_));
  }
  [[nodiscard]] bool is_mapped() const { return data_ != MAP_FAILED; }

 private:
  int64_t bytes_;
  void* data_;
};

TEST(DecodeKernel, finds_pages_gigabytes_apart) {
  for (const int32_t page_size : {16, 8}) {
    CaseOptions options = usual<Plain64>(decode({70, 33}));
    options.page_size = page_size;
    AttentionCase c(options);
    const FarPlane key(c.args().key), value(c.args().value);
    ASSERT_TRUE(key.is_mapped() && value.is_mapped());
    c.forget_expected();
    expect_right<Plain64>(c, {.blocks = 3});
    expect_tiles_right<Tiles64>(c, {.blocks = 3});
  }
}

TEST(DecodeKernel, leaves_blocks_without_tasks_in_peace) {
  expect_right<Plain64>(usual<Plain64>(decode({20})), {.blocks = 40, .resident = 7});
  expect_right<Plain64>(usual<Plain64>(decode({0, 0})), {.blocks = 3});
  expect_right<Plain64>(usual<Plain64>({{0, 9}}), {.blocks = 3});
}

TEST(DecodeTilesKernel, is_right_for_pages_that_divide_slabs_or_are_whole_ones) {
  for (const int32_t page_size : {1, 2, 8, 16, 64}) {
    CaseOptions options = usual<Tiles64>({{1, 1}, {1, page_size}, {1, 130}, {4, 47}, {1, 0}});
    options.page_size = page_size;
    options.unassigned = 0.2;
    options.key_order = page_size % 2 == 0 ? StorageOrder::head_major : StorageOrder::token_major;
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      AttentionCase c(options);
      expect_tiles_right<Tiles64>(c, {.blocks = 5, .seed = seed});
    }
  }
}

TEST(DecodeTilesKernel, is_right_for_every_head_size_and_window) {
  for (const Mask mask : {Mask::causal(), Mask::sliding_window(17), Mask::sliding_window(100)}) {
    CaseOptions options = usual<Tiles128>({{1, 200}, {5, 90}});
    options.mask = mask;
    AttentionCase c(options);
    expect_tiles_right<Tiles128>(c, {.blocks = 3});
    options.head_size = 256;
    AttentionCase wide(options);
    expect_tiles_right<Tiles256>(wide, {.blocks = 3});
  }
}

TEST(DecodeTilesKernel, gives_the_bits_of_copies_by_threads) {
  CaseOptions options = usual<Tiles64>({{1, 700}, {3, 300}});
  options.reproducible = Reproducible::per_query;
  AttentionCase c(options);
  const std::vector<std::byte> copied = bits_of<Plain64>(c, {.blocks = 3});
  const DecodeResult result = run_decode<Tiles64>(c, {.blocks = 5}, tile_call);
  ASSERT_EQ(result.fault, "");
  EXPECT_EQ(c.output_bits(), copied);
}

}  // namespace
}  // namespace folio::test
