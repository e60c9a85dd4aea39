// SPDX-License-Identifier: Apache-2.0
/// tests/attention/bits_test.cpp: the three levels of determinism (contract 10), bit for bit,
/// in one thread; those of a plan on many are bits_threads_test.cpp's.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "attention/long_case.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/part.h"
#include "support/random.h"
#include "support/sanitized.h"

namespace folio::test {
namespace {

TEST(Bits, every_kernel_promises_a_sequence_its_bits_at_least) {
  for_each_kernel([](const std::string& kernel) {
    EXPECT_GE(kernel_of(kernel).promises, Reproducible::per_sequence);
  });
}

TEST(Bits, a_plan_made_twice_is_the_same_plan) {
  for_each_kernel_case(long_options(Reproducible::per_plan, 4),
                       [&](AttentionCase& c, const std::string& kernel) {
                         ASSERT_EQ(run_case(c, kernel).message(), "");
                         const std::vector<std::byte> bits = c.output_bits();
                         ASSERT_EQ(run_case(c, kernel).message(), "");
                         EXPECT_EQ(c.output_bits(), bits);
                       });
}

/// Runs each sequence of the case alone, under other limits, into the same rows.
void run_sequences_alone(AttentionCase& c, const std::string& kernel, Rng& rng) {
  c.poison_output();
  for (int32_t b = 0; b < c.batch().size; ++b) {
    const Part part(c,
                    queries_of(c, b, 0, c.options().sequences[static_cast<size_t>(b)].new_tokens));
    AttentionLimits limits = part.limits(rng.int_between(1, 9));
    limits.batch += rng.int_between(0, 7);
    limits.context += rng.int_between(0, 20000);
    const Status status = part.run(c.problem(), limits, kernel);
    ASSERT_TRUE(status.is_ok()) << status.message();
  }
}

TEST(Bits, per_sequence_neighbours_limits_and_parallelism_decide_nothing) {
  Rng rng(test_seed());
  for (const int32_t parallelism : {1, 5}) {
    CaseOptions options = long_options(Reproducible::per_sequence, parallelism);
    options.q_heads = parallelism == 1 ? 4 : 16;
    for_each_kernel_case(options, [&](AttentionCase& c, const std::string& kernel) {
      ASSERT_EQ(run_case(c, kernel).message(), "");
      const std::vector<std::byte> bits = c.output_bits();
      run_sequences_alone(c, kernel, rng);
      EXPECT_EQ(c.output_bits(), bits) << "parallelism " << parallelism;
    });
  }
}

/// Kernels have other paths for few and many rows, for plain logits, for 8-bit planes: each must
/// give a query the same bits.
struct QueryShape {
  const char* name;
  int32_t q_heads, kv_heads;
  DType kv;
  Mask mask;
  bool has_terms;
  int32_t head_size = 16;
};

const QueryShape query_shapes[] = {
    {"plain logits, a group of two", 4, 2, DType::bf16, Mask::causal(), false},
    {"plain logits, one head per KV head", 2, 2, DType::bf16, Mask::causal(), false},
    {"a window, a group of eight", 8, 1, DType::bf16, Mask::sliding_window(700, 5), false},
    {"a group of 71", 71, 1, DType::bf16, Mask::sliding_window(300), false},
    {"every term", 4, 2, DType::bf16, Mask::causal(), true},
    {"every term in a window", 10, 2, DType::bf16, Mask::sliding_window(700, 5), true},
    {"i8", 8, 2, DType::i8, Mask::causal(), false},
    {"f8_e4m3", 4, 1, DType::f8_e4m3, Mask::causal(), false},
    {"i8 of 144, one head per KV head", 2, 2, DType::i8, Mask::causal(), false, 144},
    {"f8_e4m3 of 40, whose rows are no whole 16 bytes", 8, 2, DType::f8_e4m3, Mask::causal(), false,
     40},
    {"f8_e5m2 of 80, a group of eight", 8, 1, DType::f8_e5m2, Mask::causal(), false, 80},
    {"f16", 4, 2, DType::f16, Mask::causal(), false},
    {"f32", 4, 2, DType::f32, Mask::causal(), false},
};

CaseOptions query_options(uint64_t seed, const QueryShape& shape) {
  CaseOptions options = long_options(Reproducible::per_query, 4);
  options.seed = seed;
  options.mask = shape.mask;
  options.q_heads = shape.q_heads;
  options.kv_heads = shape.kv_heads;
  options.head_size = shape.head_size;
  options.key_dtype = options.value_dtype = shape.kv;
  if (bit_width(shape.kv) == 8)
    options.key_scales.kind = options.value_scales.kind = ScaleKind::token_and_head;
  if (shape.has_terms) {
    options.softcap = 8.0f;
    options.alibi = true;
    options.bias = BiasForm::shared;
  }
  options.sequences = {{90, 90}, {33, 2200}, {110, 4200}, {1, 5000}};
  return options;
}

/// Cuts the queries of every sequence into random chunks and runs each alone. `as_prefilled`: the
/// keys of later chunks are not there yet, as in a chunked prefill; otherwise they are, and the
/// mask hides them.
void run_in_chunks(AttentionCase& c, const std::string& kernel, int32_t longest_chunk,
                   bool as_prefilled, Rng& rng) {
  c.poison_output();
  for (int32_t b = 0; b < c.batch().size; ++b) {
    const SequenceShape shape = c.options().sequences[static_cast<size_t>(b)];
    for (int32_t first = 0; first < shape.new_tokens;) {
      const int32_t end = std::min(shape.new_tokens, first + rng.int_between(1, longest_chunk));
      PartShape chunk = queries_of(c, b, first, end);
      if (as_prefilled) chunk.keys -= shape.new_tokens - end;
      const Part part(c, chunk);
      AttentionLimits limits = part.limits(rng.int_between(1, 6));
      limits.context += rng.int_between(0, 3000);
      const Status status = part.run(c.problem(), limits, kernel);
      ASSERT_TRUE(status.is_ok()) << status.message();
      first = end;
    }
  }
}

TEST(Bits, per_query_whole_prefill_equals_chunks_equals_decode) {
  Rng rng(test_seed());
  const int step = is_sanitized ? 4 : 1;  // a quarter of the shapes, others each time
  for (size_t i = static_cast<size_t>(rng.int_between(0, step - 1)); i < std::size(query_shapes);
       i += static_cast<size_t>(step)) {
    const QueryShape& shape = query_shapes[i];
    SCOPED_TRACE(shape.name);
    for_each_kernel_case(
        query_options(rng.next(), shape), [&](AttentionCase& c, const std::string& kernel) {
          ASSERT_EQ(run_case(c, kernel).message(), "");
          ASSERT_TRUE(matches_reference(c, {0, c.tokens(), 97}));
          const std::vector<std::byte> bits = c.output_bits();
          for (const int32_t longest_chunk : {100, 7}) {
            run_in_chunks(c, kernel, longest_chunk, true, rng);
            EXPECT_EQ(c.output_bits(), bits) << "chunks of up to " << longest_chunk;
          }
          run_in_chunks(c, kernel, 40, false, rng);
          EXPECT_EQ(c.output_bits(), bits) << "with later keys in the row";
          run_in_chunks(c, kernel, 1, true, rng);
          EXPECT_EQ(c.output_bits(), bits) << "decoded one by one";
        });
  }
}

/// The rows of sequence 1 (new tokens 40, context 300) in `c`.
std::vector<float> lse_of_second(AttentionCase& c) {
  const int64_t first = c.batch().query_offsets[1] * c.options().q_heads;
  const int64_t end = c.batch().query_offsets[2] * c.options().q_heads;
  return {c.args().lse + first, c.args().lse + end};
}

TEST(Bits, per_query_a_prefix_hit_equals_a_cold_start) {
  // Cold: all 300 tokens of a prompt are queries. Hit: 256 lie in shared pages already, 44 are
  // queries. The same keys, other batches.
  CaseOptions options = long_options(Reproducible::per_query, 2);
  options.sequences = {{300, 300}};
  for_each_kernel_case(options, [&](AttentionCase& cold, const std::string& kernel) {
    ASSERT_EQ(run_case(cold, kernel).message(), "");
    const std::vector<std::byte> bits = cold.output_bits();
    const Part hit(cold, queries_of(cold, 0, 256, 300));
    ASSERT_TRUE(hit.run(cold.problem(), hit.limits(7), kernel).is_ok());
    EXPECT_EQ(cold.output_bits(), bits);
  });
}

/// The scales of two pages change places, one by one.
void swap_scales(const PagedKVView& view, int64_t a, int64_t b) {
  const ScaleView& scales = view.scales;
  if (scales.data == nullptr) return;
  const auto at = [&](int64_t page, int64_t slot, int64_t head) {
    return static_cast<std::byte*>(scales.data) + page * scales.page_stride_bytes +
           slot * scales.slot_stride_bytes + head * scales.head_stride_bytes;
  };
  for (int64_t slot = 0; slot < view.page_size; ++slot)
    for (int64_t head = 0; head < view.num_heads; ++head)
      std::swap_ranges(at(a, slot, head), at(a, slot, head) + bit_width(scales.dtype) / 8,
                       at(b, slot, head));
}

TEST(Bits, page_ids_decide_nothing) {
  // The pages of a case move to other ids; their contents move with them.
  CaseOptions given = long_options(Reproducible::per_sequence, 2);
  given.gap_bytes = 8;
  for_each_kernel_case(given, [](AttentionCase& c, const std::string& kernel) {
    const CaseOptions& options = c.options();
    ASSERT_EQ(run_case(c, kernel).message(), "");
    const std::vector<float> lse = lse_of_second(c);
    const std::vector<std::byte> bits = c.output_bits();

    const int64_t num_pages = c.args().key.num_pages;
    for (PagedKVView* view : {&c.args().key, &c.args().value}) {  // page id -> num_pages - 1 - id
      if (view->data == nullptr) continue;
      const auto row_bytes =
          static_cast<size_t>(view->page_size) * static_cast<size_t>(view->slot_stride_bytes) -
          static_cast<size_t>(2 * options.gap_bytes);
      auto* data = static_cast<std::byte*>(view->data);
      for (int64_t page = 0; page < num_pages / 2; ++page) {
        std::byte* low = data + page * view->page_stride_bytes;
        std::byte* high = data + (num_pages - 1 - page) * view->page_stride_bytes;
        std::swap_ranges(low, low + row_bytes, high);
        swap_scales(*view, page, num_pages - 1 - page);
      }
    }
    for (int32_t b = 0; b < c.batch().size; ++b) {
      for (int64_t p = 0; p * options.page_size < c.batch().context_lengths[b]; ++p) {
        uint32_t& entry = c.table_entries()[c.batch().table.row_start(b) + p];
        if (entry < num_pages) entry = static_cast<uint32_t>(num_pages - 1) - entry;
      }
    }
    ASSERT_EQ(run_case(c, kernel).message(), "");
    EXPECT_EQ(lse_of_second(c), lse);
    EXPECT_EQ(c.output_bits(), bits);
  });
}

}  // namespace
}  // namespace folio::test
