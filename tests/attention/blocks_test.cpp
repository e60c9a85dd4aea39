// SPDX-License-Identifier: Apache-2.0
/// tests/attention/blocks_test.cpp: planes of blocks (q8_0 and its kind) through every kernel, and
/// everything that refuses them.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "attention/check_append.h"
#include "attention/check_copy.h"
#include "attention/kernel_list.h"
#include "folio/attention/append.h"
#include "folio/attention/merge.h"
#include "folio/attention/rotate.h"
#include "folio/cache/copy.h"
#include "folio/cache/page_extents.h"
#include "folio/cache/planes.h"
#include "reference/append.h"
#include "reference/elements.h"
#include "support/block_dtypes.h"
#include "support/kernel_cases.h"
#include "support/random.h"

namespace folio::test {
namespace {

class OfBlocks : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Blocks, OfBlocks, ::testing::ValuesIn(block_dtypes),
                         [](const auto& each) { return std::string(name(each.param)); });

CaseOptions case_of(DType key, DType value) {
  CaseOptions options;
  options.key_dtype = key;
  options.value_dtype = value;
  options.page_size = 64;  // a run for all of a tile, and pages that end inside one
  options.seed = test_seed();
  return options;
}

TEST_P(OfBlocks, keys_and_values_are_read_in_place) {
  CaseOptions options = case_of(GetParam(), GetParam());
  expect_every_kernel_right(options);
  options.head_size = 128;
  options.q_heads = 16;
  options.sequences = {{40, 300}, {1, 200}, {3, 65}, {0, 5}};
  options.key_order = options.value_order = StorageOrder::head_major;
  expect_every_kernel_right(options);
}

/// Rows of all slots, alive or not, written by append, the bytes being those of the reference.
void append_everywhere(const PagedKVView& view, Rng& rng) {
  const int64_t tokens = view.num_pages * view.page_size, heads = view.num_heads;
  std::vector<float> rows(static_cast<size_t>(tokens * heads * view.head_size));
  for (float& x : rows) x = rng.uniform(-1.0f, 1.0f);
  std::vector<int64_t> slots(static_cast<size_t>(tokens));
  std::iota(slots.begin(), slots.end(), int64_t{0});
  AppendArgs args;
  args.k = dense_tensor(rows.data(), DType::f32, {tokens, heads, int64_t{view.head_size}});
  args.key = view;
  args.slots = slots.data();
  const auto* const data = static_cast<const std::byte*>(view.data);
  const int64_t bytes = (view.num_pages - 1) * view.page_stride_bytes +
                        (view.page_size - 1) * view.slot_stride_bytes +
                        (heads - 1) * view.head_stride_bytes +
                        row_bytes(view.dtype, view.head_size);
  reference::append({}, args);
  const std::vector<std::byte> expected(data, data + bytes);
  ASSERT_EQ(append({}, args, default_executor(2)).message(), "");
  EXPECT_EQ(std::memcmp(data, expected.data(), expected.size()), 0) << name(view.dtype);
}

TEST_P(OfBlocks, what_append_writes_is_attended_to) {
  for (const int32_t head_size : {64, 128}) {
    CaseOptions options = case_of(GetParam(), GetParam());
    options.head_size = options.v_head_size = head_size;
    options.sequences = {{5, 130}, {1, 70}};
    Rng rng(test_seed());
    const auto fill = [&rng](AttentionCase& c) {
      append_everywhere(c.args().key, rng);
      if (!c.options().value_in_key) append_everywhere(c.args().value, rng);
    };
    expect_every_kernel_right(options, {.arrange = fill});
  }
}

TEST_P(OfBlocks, any_pages_gaps_tables_and_sizes_do) {
  Rng rng(test_seed());
  const int32_t page_sizes[] = {1, 5, 16, 256, unbounded_page_size};
  const TableForm tables[] = {TableForm::dense, TableForm::csr, TableForm::rows_in_larger};
  const DType out_types[] = {DType::f32, DType::bf16, DType::f16};
  for (const int32_t head_size : {32, 96, 160, 256}) {
    CaseOptions options = case_of(GetParam(), GetParam());
    options.head_size = head_size;
    options.v_head_size = head_size == 96 ? 64 : head_size;
    options.page_size = rng.pick(page_sizes);
    options.gap_bytes = 4 * rng.int_between(0, 3);
    options.table = rng.pick(tables);
    options.unassigned = options.page_size == unbounded_page_size ? 0.0 : 0.1;
    options.value_order = StorageOrder::head_major;
    options.out_dtype = rng.pick(out_types);
    expect_every_kernel_right(options);
  }
}

TEST_P(OfBlocks, one_plane_may_be_of_elements_or_other_blocks) {
  Rng rng(test_seed());
  for (const DType other : {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::q8_0}) {
    CaseOptions options = case_of(GetParam(), other);
    options.value_scales.kind =
        other == DType::f8_e4m3 ? ScaleKind::token_and_head : ScaleKind::none;
    options.softcap = rng.chance(0.5) ? 20.0f : 0.0f;
    expect_every_kernel_right(options);
    std::swap(options.key_dtype, options.value_dtype);
    std::swap(options.key_scales, options.value_scales);
    expect_every_kernel_right(options);
  }
}

TEST_P(OfBlocks, values_may_lie_in_the_keys) {
  CaseOptions options = case_of(GetParam(), GetParam());
  options.value_in_key = true;
  options.head_size = 96;
  options.v_head_size = 64;
  options.kv_heads = 1;
  expect_every_kernel_right(options);
}

/// A plane of `pages` pages of random bytes.
struct BlockCache {
  explicit BlockCache(DType dtype, int64_t pages, Rng& rng)
      : shape{.num_heads = 3, .head_size = 64, .page_size = 4, .dtype = dtype} {
    memory.resize(static_cast<size_t>(page_bytes(shape).value() * pages));
    for (std::byte& b : memory) b = static_cast<std::byte>(rng.next());
    planes =
        make_planes(shape, pages, {memory.data(), static_cast<int64_t>(memory.size())}).value();
  }
  KVShape shape;
  std::vector<std::byte> memory;
  std::vector<KVPlanes> planes;
};

TEST_P(OfBlocks, sizes_and_strides_are_those_of_whole_blocks) {
  const KVShape shape{
      .num_layers = 3, .num_heads = 2, .head_size = 128, .page_size = 16, .dtype = GetParam()};
  const int64_t row = row_bytes(GetParam(), 128);
  EXPECT_EQ(page_bytes(shape).value(), row * 2 * 16 * 3 * 2);
  const KVPlanes planes = make_planes(shape, 5, {}).value()[1];
  EXPECT_EQ(planes.key.head_stride_bytes, row);
  EXPECT_EQ(planes.key.slot_stride_bytes, 2 * row);
  Rng rng(test_seed());
  BlockCache cache(GetParam(), 3, rng);
  const auto extents = page_extents(cache.planes, 2).value();
  ASSERT_EQ(extents.size(), 1u);
  EXPECT_EQ(extents[0].bytes, page_bytes(cache.shape).value());
  EXPECT_EQ(extents[0].data, cache.memory.data() + 2 * page_bytes(cache.shape).value());
}

TEST_P(OfBlocks, copies_of_one_format_move_the_bytes) {
  Rng rng(test_seed());
  const BlockCache from(GetParam(), 4, rng);
  BlockCache to(GetParam(), 4, rng);
  const PageCopy copies[] = {{3, 1, 4}, {0, 2, 3}};
  ASSERT_TRUE(copy_pages(from.planes, to.planes, copies, serial_executor()).is_ok());
  const auto page = static_cast<size_t>(page_bytes(from.shape).value());
  EXPECT_EQ(std::memcmp(to.memory.data() + page, from.memory.data() + 3 * page, page), 0);
  const auto slots = static_cast<size_t>(3 * to.planes[0].key.slot_stride_bytes);
  EXPECT_EQ(std::memcmp(to.memory.data() + 2 * page, from.memory.data(), slots), 0);
  const SlotCopy slot[] = {{7, 0}};
  ASSERT_TRUE(copy_slots(from.planes, to.planes, slot, serial_executor()).is_ok());
  const auto row = static_cast<size_t>(to.planes[0].key.slot_stride_bytes);
  EXPECT_EQ(std::memcmp(to.memory.data(), from.memory.data() + page + 3 * row, row), 0);
}

void expect_refused(const Status& status, std::string_view words) {
  ASSERT_FALSE(status.is_ok()) << words;
  EXPECT_NE(status.message().find(words), std::string_view::npos) << status.message();
}

TEST_P(OfBlocks, whatever_works_on_elements_refuses_them_by_name) {
  Rng rng(test_seed());
  const DType dtype = GetParam();
  const std::string words = std::string("dtype ") + name(dtype);
  BlockCache blocks(dtype, 4, rng), halves(DType::f16, 4, rng);
  std::vector<float> rows(3 * 64);
  const int64_t slot = 0;
  AppendArgs args;
  args.k = args.v = dense_tensor(rows.data(), DType::f32, {int64_t{1}, int64_t{3}, int64_t{64}});
  args.key = halves.planes[0].key;
  args.value = halves.planes[0].value;
  args.slots = &slot;
  args.k.dtype = dtype;
  expect_refused(append({}, args, serial_executor()), words);
  args.k.dtype = DType::f32;
  args.key = blocks.planes[0].key;
  args.value = blocks.planes[0].value;
  args.key.head_size = args.value.head_size = 48;
  args.k.extent[2] = args.v.extent[2] = 48;
  expect_refused(append({}, args, serial_executor()), "head_size is 48, expected a multiple of 32");

  const AnyTensor<3> tensor =
      dense_tensor(rows.data(), DType::f32, {int64_t{1}, int64_t{3}, int64_t{64}});
  AnyTensor<3> of_blocks = tensor;
  of_blocks.dtype = dtype;
  const int32_t offsets[] = {0, 1}, lengths[] = {1};
  const Batch batch{.size = 1, .query_offsets = offsets, .context_lengths = lengths};
  expect_refused(rotate(batch, {.q = of_blocks, .out = tensor}, serial_executor()), words);
  expect_refused(rotate(batch, {.q = tensor, .out = of_blocks}, serial_executor()), words);
  const float lse[3] = {};
  const Partial parts[] = {{of_blocks, lse}};
  expect_refused(merge(parts, of_blocks, nullptr, serial_executor()), words);
}

AttentionProblem problem_of(DType dtype, int32_t head_size) {
  AttentionProblem problem;
  problem.q_heads = problem.key.num_heads = 2;
  problem.key.dtype = dtype;
  problem.key.head_size = head_size;
  problem.key.page_size = 16;
  problem.value = problem.key;
  return problem;
}

TEST_P(OfBlocks, a_problem_must_have_whole_blocks_and_no_other_scales) {
  const auto message = [](const AttentionProblem& problem) {
    const Result<Attention> made = Attention::create(problem, {});
    return made ? std::string() : std::string(made.error().message());
  };
  EXPECT_EQ(message(problem_of(GetParam(), 64)), "");
  EXPECT_NE(message(problem_of(GetParam(), 80)).find("head_size is 80, expected a multiple of 32"),
            std::string::npos);
  AttentionProblem problem = problem_of(GetParam(), 64);
  problem.key.scales.dtype = DType::f32;
  problem.key.scales.granularity = 64;
  EXPECT_NE(message(problem).find("key.scales are given, expected none"), std::string::npos);
  problem = problem_of(GetParam(), 64);
  problem.value_in_key = true;
  problem.v_head_size = 40;
  EXPECT_NE(message(problem).find("v_head_size is 40, expected a multiple of 32"),
            std::string::npos);
  problem = problem_of(GetParam(), 64);
  problem.key.slot_stride_bytes = 35;
  EXPECT_NE(message(problem).find("expected a multiple of 2 bytes"), std::string::npos);
  problem = problem_of(GetParam(), 64);
  problem.q_dtype = GetParam();
  EXPECT_NE(message(problem).find("q_dtype"), std::string::npos);
  problem = problem_of(GetParam(), 64);
  problem.out_dtype = GetParam();
  EXPECT_NE(message(problem).find("out_dtype"), std::string::npos);
}

TEST(Blocks, caches_of_partial_blocks_or_scales_beside_are_refused) {
  KVShape shape{.head_size = 48, .dtype = DType::q8_0};
  EXPECT_NE(page_bytes(shape).error().message().find("head_size is 48, expected a multiple of 32"),
            std::string_view::npos);
  shape.head_size = 64;
  shape.scale_dtype = DType::f32;
  EXPECT_NE(make_planes(shape, 1, {}).error().message().find("expected none"),
            std::string_view::npos);
}

TEST_P(OfBlocks, other_devices_neither_write_nor_copy_them) {
  Rng rng(test_seed());
  const BlockCache blocks(GetParam(), 2, rng), halves(DType::f16, 2, rng);
  std::vector<float> rows(3 * 64);
  const int64_t slot = 0;
  AppendArgs args;
  args.k = dense_tensor(rows.data(), DType::f32, {int64_t{1}, int64_t{3}, int64_t{64}});
  args.key = blocks.planes[0].key;
  args.slots = &slot;
  const std::string words = std::string("dtype ") + name(GetParam());
  EXPECT_TRUE(check_append("append", {}, args, Memory::cpu).is_ok());
  expect_refused(check_append("append_async", {}, args, Memory::cuda), words);
  CopyBounds bounds;
  for (const auto* other : {&blocks, &halves}) {
    expect_refused(check_copy_planes("copy_pages_async", CopyKind::page, blocks.planes,
                                     other->planes, Memory::cuda, bounds),
                   words);
  }
}

TEST(Blocks, kernels_of_devices_take_none) {
  for (const Kernel& kernel : kernels()) {
    for (const DType dtype : block_dtypes) {
      if (kernel.device == nullptr) continue;
      EXPECT_FALSE(kernel.supports.key.has(dtype)) << kernel.name;
      EXPECT_FALSE(kernel.supports.value.has(dtype)) << kernel.name;
    }
  }
}

/// By the definitions of folio/core/dtype.h, in numbers small enough to be read.
TEST(Blocks, formats_are_those_of_the_definition) {
  const auto block_of = [](DType dtype, const std::vector<uint8_t>& bytes) {
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), row_bytes(dtype, 32));
    std::vector<double> out(32);
    reference::load_block(bytes.data(), dtype, out.data());
    return out;
  };
  const std::vector<uint8_t> two = {0x00, 0x40}, minus_one = {0x00, 0xbc};
  const auto joined = [](std::initializer_list<std::vector<uint8_t>> parts) {
    std::vector<uint8_t> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  std::vector<uint8_t> nibbles(16);
  for (size_t i = 0; i < 16; ++i) nibbles[i] = static_cast<uint8_t>(i | (15 - i) << 4);
  std::vector<uint8_t> bytes(32);
  for (size_t i = 0; i < 32; ++i) bytes[i] = static_cast<uint8_t>(8 * i);
  const std::vector<uint8_t> fifths = {0x01, 0x00, 0x00, 0x80};  // of elements 0 and 31

  EXPECT_EQ(block_of(DType::q8_0, joined({two, bytes}))[15], 240.0);
  EXPECT_EQ(block_of(DType::q8_0, joined({two, bytes}))[16], -256.0);
  EXPECT_EQ(block_of(DType::q4_0, joined({two, nibbles}))[3], -10.0);
  EXPECT_EQ(block_of(DType::q4_0, joined({two, nibbles}))[19], 8.0);
  EXPECT_EQ(block_of(DType::q4_1, joined({two, minus_one, nibbles}))[3], 5.0);
  EXPECT_EQ(block_of(DType::q4_1, joined({two, minus_one, nibbles}))[19], 23.0);
  EXPECT_EQ(block_of(DType::q5_0, joined({two, fifths, nibbles}))[0], 0.0);
  EXPECT_EQ(block_of(DType::q5_0, joined({two, fifths, nibbles}))[1], -30.0);
  EXPECT_EQ(block_of(DType::q5_0, joined({two, fifths, nibbles}))[31], 0.0);
  EXPECT_EQ(block_of(DType::q5_1, joined({two, minus_one, fifths, nibbles}))[0], 31.0);
  EXPECT_EQ(block_of(DType::q5_1, joined({two, minus_one, fifths, nibbles}))[30], 1.0);
  EXPECT_EQ(block_of(DType::iq4_nl, joined({two, nibbles}))[0], -254.0);
  EXPECT_EQ(block_of(DType::iq4_nl, joined({two, nibbles}))[16], 226.0);

  std::vector<uint8_t> patterns(16);
  for (size_t i = 0; i < 16; ++i) patterns[i] = static_cast<uint8_t>(i);
  const double expected[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};
  for (size_t i = 0; i < 16; ++i)
    EXPECT_EQ(block_of(DType::iq4_nl, joined({two, patterns}))[i], 2 * expected[i]) << i;
}

}  // namespace
}  // namespace folio::test
