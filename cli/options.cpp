// SPDX-License-Identifier: Apache-2.0
/// cli/options.cpp: the command line of `folio replay`.
#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>

namespace folio::cli {
namespace {

// Larger sizes are slips of the keyboard; they would only fail later, when memory is asked for.
constexpr int32_t most_layers = 1024;
constexpr int32_t most_heads = 1024;
constexpr int32_t most_head_size = 576;
constexpr int32_t most_page_size = 1 << 20;
constexpr int32_t most_batch = 4096;
constexpr int32_t most_step_tokens = 1 << 20;
constexpr int32_t most_threads = 4096;

const std::map<std::string, DType> kv_dtypes = {
    {"f32", DType::f32},         {"f16", DType::f16},         {"bf16", DType::bf16},
    {"f8_e4m3", DType::f8_e4m3}, {"f8_e5m2", DType::f8_e5m2}, {"i8", DType::i8}};
const std::map<std::string, Compute> computes = {{"none", Compute::none},
                                                 {"attention", Compute::attention}};

// The names alone: CLI11's own listing shows the enumerators' numbers too.
template <class T>
CLI::CheckedTransformer one_of(const std::map<std::string, T>& names) {
  std::string listed;
  for (const auto& [word, value] : names) listed += (listed.empty() ? "" : "|") + word;
  CLI::CheckedTransformer transformer(names);
  transformer.description(listed);
  return transformer;
}

void add_model_options(CLI::App& app, ReplayOptions& options) {
  ModelShape& sizes = options.sizes;
  app.add_option("--model", options.model_name,
                 "llama-3-8b or deepseek-v3: sizes that are not given below")
      ->capture_default_str()
      ->group("Model");
  app.add_option("--layers", sizes.layers, "Layers")
      ->check(CLI::Range(1, most_layers))
      ->group("Model");
  app.add_option("--q-heads", sizes.q_heads, "Query heads")
      ->check(CLI::Range(1, most_heads))
      ->group("Model");
  app.add_option("--kv-heads", sizes.kv_heads, "Key and value heads")
      ->check(CLI::Range(1, most_heads))
      ->group("Model");
  app.add_option("--head-size", sizes.head_size, "Elements of a query or key head, a multiple of 8")
      ->check(CLI::Range(8, most_head_size))
      ->group("Model");
  app.add_option("--v-head-size", sizes.v_head_size,
                 "Leading elements of a latent key that are its value, with --mla")
      ->check(CLI::Range(8, most_head_size))
      ->group("Model");
  app.add_flag("--mla", sizes.is_mla, "Latent attention: values are the first part of the keys")
      ->group("Model");
}

void add_cache_options(CLI::App& app, ReplayOptions& options) {
  app.add_option(
         "--pages", options.pages,
         "Pages of the cache; default: room for the whole trace, but 4 GiB at most with attention")
      ->check(CLI::Range(int64_t{1}, int64_t{0x7fffffff}))
      ->group("Cache");
  app.add_option("--page-size", options.page_size, "Tokens of a page")
      ->check(CLI::Range(1, most_page_size))
      ->capture_default_str()
      ->group("Cache");
  app.add_option("--kv-dtype", options.kv_dtype,
                 "Element type; 8-bit types have one f32 scale per token and head")
      ->transform(one_of(kv_dtypes))
      ->default_str(name(options.kv_dtype))
      ->group("Cache");
}

void add_step_options(CLI::App& app, ReplayOptions& options) {
  app.add_option("--max-batch", options.max_batch, "Sequences in a step")
      ->check(CLI::Range(1, most_batch))
      ->capture_default_str()
      ->group("Steps");
  app.add_option("--step-tokens", options.step_tokens,
                 "New tokens in a step: decoded ones, then chunks of prompts")
      ->check(CLI::Range(1, most_step_tokens))
      ->capture_default_str()
      ->group("Steps");
  app.add_flag("--sequential", options.sequential, "One request after the other")->group("Steps");
  app.add_flag("--page-per-block", options.page_per_block,
               "A page is a block of the trace, the partial last one too, and outputs are left "
               "out; needs --sequential and "
               "--compute none")
      ->group("Steps");
  app.add_option("--compute", options.compute, "none: pages and tables only")
      ->transform(one_of(computes))
      ->default_str("attention")
      ->group("Steps");
  app.add_option("--threads", options.threads, "Threads; default: as many as the machine offers")
      ->check(CLI::Range(1, most_threads))
      ->group("Steps");
}

void add_check_options(CLI::App& app, ReplayOptions& options) {
  app.add_flag("--verify", options.verify,
               "Recompute outputs in double from the tokens; a mismatch fails")
      ->group("Checks");
  app.add_option("--verify-share", options.verify_share,
                 "Share of (query, head) pairs that are verified besides each request's first "
                 "and last query")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group("Checks");
  app.add_option("--seed", options.seed, "Chooses these pairs")
      ->capture_default_str()
      ->group("Checks");
}

Status disagree(const std::string& reason) { return {Errc::invalid_argument, reason}; }

// The model's sizes where none were given. A head size of one's own is no longer the model's kind
// of attention.
Status resolve_sizes(ReplayOptions& options) {
  const auto model = find_model(options.model_name);
  if (!model) return model.error();
  ModelShape& sizes = options.sizes;
  const bool own_heads = sizes.head_size != 0;
  if (!own_heads && sizes.is_mla && !model->is_mla) return disagree("--mla: needs --head-size");
  if (!own_heads) sizes.is_mla = model->is_mla;
  if (!sizes.is_mla && sizes.v_head_size != 0) return disagree("--v-head-size: needs --mla");
  if (sizes.layers == 0) sizes.layers = model->layers;
  if (sizes.q_heads == 0) sizes.q_heads = model->q_heads;
  if (sizes.kv_heads == 0) sizes.kv_heads = sizes.is_mla ? 1 : model->kv_heads;
  if (own_heads && sizes.v_head_size == 0) sizes.v_head_size = sizes.head_size;
  if (!own_heads) {
    sizes.head_size = model->head_size;
    sizes.scale = model->scale;
    if (sizes.v_head_size == 0) sizes.v_head_size = model->v_head_size;
  }
  if (sizes.q_heads % sizes.kv_heads != 0) {
    return disagree(fmt::format("--q-heads: {} is no multiple of the {} key and value heads",
                                sizes.q_heads, sizes.kv_heads));
  }
  if (sizes.v_head_size > sizes.head_size) {
    return disagree(fmt::format("--v-head-size: {} is more than the head size {}",
                                sizes.v_head_size, sizes.head_size));
  }
  return {};
}

}  // namespace

void add_replay_options(CLI::App& app, ReplayOptions& options) {
  app.add_option("trace", options.trace, "Request trace in Mooncake's JSONL form")->required();
  app.add_option("--limit", options.limit, "Requests to replay; default: all")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--json", options.json, "Write the figures to this file");
  app.add_flag("--quiet", options.quiet, "No progress bar, no summary");
  add_model_options(app, options);
  add_cache_options(app, options);
  add_step_options(app, options);
  add_check_options(app, options);
}

Status resolve(ReplayOptions& options) {
  if (!std::isfinite(options.verify_share))
    return disagree("--verify-share: expected a number from 0 to 1");
  if (options.page_per_block && !options.sequential)
    return disagree("--page-per-block: needs --sequential");
  if (options.page_per_block && options.compute != Compute::none)
    return disagree("--page-per-block: needs --compute none");
  if (options.verify && options.compute == Compute::none)
    return disagree("--verify: needs --compute attention");
  if (options.sequential) options.max_batch = 1;
  return resolve_sizes(options);
}

}  // namespace folio::cli
