// SPDX-License-Identifier: Apache-2.0
/// src/sparse/check_index.cpp: what an indexer's calls are refused for.
#include "sparse/check_index.h"

#include <cmath>

#include "attention/check.h"
#include "attention/schedule.h"
#include "cache/check_alignment.h"
#include "cache/check_reach.h"
#include "cache/check_tensor.h"
#include "cache/check_view.h"
#include "sparse/check_lists.h"

namespace folio::inline v1 {
namespace {

constexpr int32_t heads_max = 65536;
constexpr auto create = "Index::create";

/// Any dtype that there is: which of them a plane may have is for the kernels to say.
Status check_key(const PagedKVView& key) {
  if (!detail::is_dtype(key.dtype))
    return fail(Errc::invalid_argument, "{}: key.dtype is {}, expected a DType other than invalid",
                create, static_cast<int>(key.dtype));
  if (Status s = check_form(create, "key", key); !s.is_ok()) return s;
  if (key.num_heads > heads_max)
    return fail(Errc::invalid_argument, "{}: key.num_heads is {}, expected at most {}", create,
                key.num_heads, heads_max);
  if (key.scales.dtype != DType::invalid || key.scales.data != nullptr) {
    if (Status s = check_form(create, "key", key.scales); !s.is_ok()) return s;
  }
  return check_reach(create, "key", key, 2);
}

Status check_choices(const IndexProblem& p) {
  if (!is_activation_dtype(p.q_dtype) || !is_activation_dtype(p.weight_dtype))
    return fail(Errc::invalid_argument,
                "{}: q_dtype is {} and weight_dtype {}, expected f32, bf16 or f16", create,
                p.q_dtype, p.weight_dtype);
  if (p.lists > IndexLists::per_head)
    return fail(Errc::invalid_argument, "{}: lists is {}, expected a value of IndexLists", create,
                static_cast<int>(p.lists));
  if (p.block_keys < 1)
    return fail(Errc::invalid_argument, "{}: block_keys is {}, expected at least 1", create,
                p.block_keys);
  if (std::isfinite(p.scale)) return {};
  return fail(Errc::invalid_argument, "{}: scale is {}, expected a finite number", create,
              static_cast<double>(p.scale));
}

Status check_optional(const char* function, const char* argument, const void* data,
                      bool is_expected) {
  if ((data != nullptr) == is_expected) return {};
  return fail(Errc::invalid_argument,
              data != nullptr ? "{}: {} is given, expected null (the problem was created without "
                                "it)"
                              : "{}: {} is null, expected an array (the problem asks for it)",
              function, argument);
}

}  // namespace

AttentionProblem as_attention(const IndexProblem& problem) noexcept {
  AttentionProblem p;
  p.key = problem.key;
  p.value_in_key = true;
  p.v_head_size = problem.key.head_size;
  p.q_heads = problem.q_heads;
  p.q_dtype = problem.q_dtype;
  p.mask = problem.mask;
  p.intervals = problem.intervals;
  p.bf16_operands = problem.bf16_operands;
  p.q_is_turned = problem.q_is_turned;
  return p;
}

Result<IndexProblem> resolve(const IndexProblem& problem) noexcept {
  IndexProblem p = problem;
  if (Status s = check_key(p.key); !s.is_ok()) return s;
  if (p.q_heads < 1 || p.q_heads > heads_max || p.q_heads % p.key.num_heads != 0)
    return fail(Errc::invalid_argument,
                "{}: q_heads is {}, expected a multiple of key.num_heads = {} up to {}", create,
                p.q_heads, p.key.num_heads, heads_max);
  if (Status s = check_mask(create, p.mask); !s.is_ok()) return s;
  if (Status s = check_choices(p); !s.is_ok()) return s;
  if (p.scale == 0.0f) p.scale = 1.0f / std::sqrt(static_cast<float>(p.key.head_size));
  p.key.data = nullptr;
  p.key.num_pages = 0;
  p.key.scales.data = nullptr;
  p.key.scales.tensor_scale = nullptr;
  p.key.channel_scales = nullptr;
  return p;
}

Status check_limits(const char* function, const IndexProblem& problem,
                    const IndexLimits& limits) noexcept {
  const struct {
    const char* name;
    int64_t value;
    int64_t least;
    int64_t most;
  } bounds[] = {{"batch", limits.batch, 1, INT32_MAX - 1},
                {"tokens", limits.tokens, 1, INT32_MAX / problem.q_heads},
                {"context", limits.context, 1, INT32_MAX},
                {"top", limits.top, 1, top_max},
                {"parallelism", limits.parallelism, 0, parallelism_max}};
  for (const auto& bound : bounds) {
    if (bound.value >= bound.least && bound.value <= bound.most) continue;
    return fail(Errc::invalid_argument, "{}: limits.{} is {}, expected {} to {}", function,
                bound.name, bound.value, bound.least, bound.most);
  }
  return {};
}

Status check_made(const char* function, const Index& index) noexcept {
  if (IndexInternals::kernel(index) != nullptr) return {};
  return fail(Errc::invalid_argument, "{}: index is empty, expected one made by Index::create",
              function);
}

Status check_batch(const char* function, const Index& index, const Batch& batch) noexcept {
  const IndexLimits& limits = index.limits();
  if (batch.size < 0 || batch.size > limits.batch)
    return fail(Errc::invalid_argument, "{}: batch.size is {}, expected 0 to limits.batch = {}",
                function, batch.size, limits.batch);
  if (Status s = check_sequences(function, batch, limits.context, "limits.context"); !s.is_ok())
    return s;
  const int64_t tokens = tokens_of(batch);
  if (tokens > limits.tokens)
    return fail(Errc::invalid_argument,
                "{}: batch.query_offsets[{}] is {}, expected at most limits.tokens = {}", function,
                batch.size, tokens, limits.tokens);
  if (batch.tree != nullptr)
    return fail(Errc::unsupported,
                "{}: batch.tree is given, expected null: trees of new tokens are unsupported",
                function);
  if (tokens == 0) return {};
  const struct {
    const char* name;
    const int32_t* data;
  } arrays[] = {{"batch.visible_begin", batch.visible_begin},
                {"batch.visible_end", batch.visible_end}};
  for (const auto& array : arrays) {
    if (Status s = check_optional(function, array.name, array.data, index.problem().intervals);
        !s.is_ok())
      return s;
    if (Status s = check_aligned(function, array.name, "", array.data,
                                 {4, DType::invalid, "the size of int32"});
        !s.is_ok())
      return s;
  }
  return {};
}

Status check_scores(const char* function, const Index& index, const Batch& batch,
                    const ScoreArgs& args) noexcept {
  const IndexProblem& problem = index.problem();
  const int64_t tokens = tokens_of(batch);
  const char* const from = "the problem and the batch";
  const ExpectedTensor q{{tokens, problem.q_heads, problem.key.head_size}, from, problem.q_dtype};
  if (Status s = check_tensor(function, "q", args.q, q); !s.is_ok()) return s;
  if (problem.has_weights) {
    const ExpectedMatrix weights{{tokens, problem.q_heads}, from, problem.weight_dtype};
    if (Status s = check_matrix(function, "weights", args.weights, weights); !s.is_ok()) return s;
  } else if (Status s = check_optional(function, "weights", args.weights.data, false); !s.is_ok()) {
    return s;
  }
  AttentionArgs planes;
  planes.key = args.key;
  Kernel kernel;  // what planes are checked against of one
  kernel.name = index.kernel();
  kernel.supports = IndexInternals::kernel(index)->supports;
  return check_planes(function, kernel, as_attention(problem), planes);
}

}  // namespace folio::inline v1
