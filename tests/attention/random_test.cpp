// SPDX-License-Identifier: Apache-2.0
/// tests/attention/random_test.cpp: random problems over random caches, on every kernel: the result
/// is right, threads and cuts change no bit that a kernel promises.
///
/// A run is short; tools/random_attention.sh runs seed after seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cpu/features.h"
#include "reference/elements.h"
#include "support/attention_case.h"
#include "support/executors.h"
#include "support/kernel_cases.h"
#include "support/part.h"
#include "support/random.h"
#include "support/random_options.h"
#include "support/run_case.h"
#ifdef FOLIO_TEST_EMULATED_TILES
#include "attention/amx_emulated_kernels.h"
#include "cpu/amx_latent_entries.h"
#endif

namespace folio::test {
namespace {

constexpr int cases = 6;

/// Of some biases a share of the numbers is -inf: whatever its key holds, it is hidden.
void hide_keys(AttentionCase& c) {
  Rng rng(c.options().seed);
  const AttentionProblem& problem = c.problem();
  if (!problem.bias || c.tokens() == 0 || !rng.chance(0.4)) return;
  const ConstTensor<3>& bias = c.args().bias;
  const double share = rng.uniform(0.0f, 1.0f);
  for (int64_t b = 0; b < (problem.bias_per_sequence ? c.batch().size : 1); ++b)
    for (int64_t head = 0; head < bias.extent[0]; ++head)
      for (int64_t row = 0; row < bias.extent[1]; ++row)
        for (int64_t key = 0; key < bias.extent[2]; ++key) {
          if (!rng.chance(share)) continue;
          auto* const at = const_cast<std::byte*>(static_cast<const std::byte*>(bias.data)) +
                           b * c.args().bias_sequence_stride_bytes + head * bias.stride_bytes[0] +
                           row * bias.stride_bytes[1] + key * bias.stride_bytes[2];
          reference::store(at, problem.bias_dtype, -std::numeric_limits<double>::infinity());
        }
}

/// Of some sink logits a share is -inf, which is no sink.
void drop_sinks(AttentionCase& c) {
  Rng rng(c.options().seed + 1);
  const AttentionProblem& problem = c.problem();
  if (!problem.sink_logits || c.tokens() == 0 || !rng.chance(0.3)) return;
  const int64_t rows = problem.sink_per_query ? c.tokens() : 1,
                element = bit_width(problem.sink_dtype) / 8;
  auto* const sinks = const_cast<std::byte*>(static_cast<const std::byte*>(c.args().sink_logits));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t head = 0; head < problem.q_heads; ++head)
      if (rng.chance(0.5))
        reference::store(sinks + (row * c.args().sink_stride + head) * element, problem.sink_dtype,
                         -std::numeric_limits<double>::infinity());
}

const CaseRules rules{Adapt::shapes, [](AttentionCase& c) {
                        hide_keys(c);
                        drop_sinks(c);
                      }};

/// Now and then one row of q is NaN: whatever becomes of it, all others are as they were. Returns
/// where to look.
Scope spoil_a_query(AttentionCase& c) {
  Rng rng(c.options().seed + 2);
  Scope others;
  if (c.tokens() == 0 || !rng.chance(0.1)) return others;
  others.except_row = rng.between(0, c.tokens() - 1);
  others.except_head = rng.int_between(0, c.options().q_heads - 1);
  reference::store(c.query_memory().data() + others.except_row * c.args().q.stride_bytes[0] +
                       others.except_head * c.args().q.stride_bytes[1],
                   c.options().q_dtype, std::nan(""));
  return others;
}

/// Each of the cases in turn; the first that fails ends the test and names its options.
template <class Body>
void for_each_random_case(const Body& body) {
  Rng rng(test_seed());
  for (int i = 0; i < cases; ++i) {
    const CaseOptions options = random_options(rng);
    SCOPED_TRACE("case " + std::to_string(i) + ": " + describe(options));
    body(options, rng);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Random, problems_are_right_on_every_kernel) {
  for_each_random_case([](const CaseOptions& options, Rng&) {
    for_each_kernel_case(options, rules, [](AttentionCase& c, const std::string& kernel) {
      const Scope scope = spoil_a_query(c);
      ASSERT_EQ(run_case(c, kernel).message(), "");
      ASSERT_TRUE(matches_reference(c, scope));
    });
  });
}

#ifdef FOLIO_TEST_EMULATED_TILES
TEST(Random, problems_are_right_on_emulated_tiles) {
  if (!machine_has(Capability::avx512_bf16))
    GTEST_SKIP() << "this machine lacks the AVX512-BF16 instructions";
  for_each_random_case([](const CaseOptions& options, Rng&) {
    for (const Kernel& kernel : {emulated_grouped, emulated_latent}) {
      const std::unique_ptr<AttentionCase> c = accepted_case(kernel, options, rules);
      if (c == nullptr) continue;
      const Scope scope = spoil_a_query(*c);
      ASSERT_TRUE(run_kernel(*c, kernel).is_ok());
      ASSERT_TRUE(matches_reference(*c, scope)) << kernel.name << " on " << describe(c->options());
    }
  });
}
#endif

TEST(Random, threads_change_no_bit) {
  for_each_random_case([](const CaseOptions& options, Rng& rng) {
    for_each_kernel_case(options, rules, [&](AttentionCase& c, const std::string& kernel) {
      ASSERT_EQ(run_case(c, kernel).message(), "");
      const std::vector<std::byte> bits = c.output_bits();
      ShufflingExecutor shuffling(rng.int_between(2, 4), rng.next());
      ASSERT_EQ(run_case(c, kernel, shuffling.executor()).message(), "");
      ASSERT_EQ(c.output_bits(), bits);
    });
  });
}

/// Runs the queries of a sequence in chunks of at most so many, other limits each time.
void run_in_chunks(AttentionCase& c, const std::string& kernel, int32_t longest, Rng& rng) {
  c.poison_output();
  for (int32_t b = 0; b < c.batch().size; ++b) {
    const int32_t rows = c.options().sequences[static_cast<size_t>(b)].new_tokens;
    for (int32_t first = 0; first < rows;) {
      const int32_t end = std::min(rows, first + rng.int_between(1, longest));
      const Part part(c, queries_of(c, b, first, end));
      AttentionLimits limits = part.limits(rng.int_between(1, 9));
      limits.context += rng.int_between(0, 5000);
      limits.batch += rng.int_between(0, 7);
      const Status status = part.run(c.problem(), limits, kernel);
      ASSERT_TRUE(status.is_ok()) << status.message();
      first = end;
    }
  }
}

TEST(Random, cuts_change_no_bit_that_is_promised) {
  for_each_random_case([](CaseOptions options, Rng& rng) {
    if (options.reproducible == Reproducible::per_plan)
      options.reproducible = Reproducible::per_query;
    // bits of a tree say which of all new tokens: a sequence with one stays whole
    const bool is_cut =
        options.reproducible == Reproducible::per_query && options.tree == TreeForm::none;
    for_each_kernel_case(options, rules, [&](AttentionCase& c, const std::string& kernel) {
      ASSERT_EQ(run_case(c, kernel).message(), "");
      const std::vector<std::byte> bits = c.output_bits();
      for (const int32_t longest : {1, 7, 40}) {
        run_in_chunks(c, kernel, is_cut ? longest : INT32_MAX, rng);
        ASSERT_EQ(c.output_bits(), bits) << "chunks of up to " << longest;
        if (!is_cut) break;
      }
    });
  });
}

}  // namespace
}  // namespace folio::test
