// SPDX-License-Identifier: Apache-2.0
/// cli/load/options.cpp: the command line of `folio replay`.
#include "load/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "load/hybrid_model.h"
#include "parts/values.h"

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

CLI::Validator computes() {
  return one_of({{"attention", static_cast<int64_t>(Compute::attention)},
                 {"none", static_cast<int64_t>(Compute::none)}});
}

// Behind the numbers of the pool's policies.
constexpr int64_t all_policies = std::size(pool::eviction_names);

CLI::Validator policies() {
  std::vector<std::pair<std::string, int64_t>> names;
  for (const Eviction eviction : evictions_of({.all = true}))
    names.emplace_back(name(eviction), static_cast<int64_t>(eviction));
  names.emplace_back(name(PolicyChoice{.all = true}), all_policies);
  return one_of(std::move(names));
}

void add_cache_options(CLI::App& app, CacheChoice& options, ModelOptions& model) {
  app.add_option(
         "--pages", options.pages,
         "Pages of the cache; default: room for the whole trace, but 4 GiB at most with attention")
      ->transform(integer_from(1, int64_t{0x7fffffff}))
      ->group("Cache");
  add_page_options(app, model, options.policy);
  app.add_option(
         "--partial", options.partial,
         "Hits may end inside a page, with so many of its tokens or more; where layers differ, a "
         "page of each group, though states are never cut; 0: never")
      ->transform(integer_from(0, most_page_size - 1))
      ->capture_default_str()
      ->group("Cache");
}

void add_step_options(CLI::App& app, StepOptions& options) {
  app.add_option("--max-batch", options.max_batch, "Sequences in a step")
      ->transform(integer_from(1, most_batch))
      ->capture_default_str()
      ->group("Steps");
  app.add_option("--step-tokens", options.step_tokens,
                 "New tokens in a step: decoded ones, then chunks of prompts")
      ->transform(integer_from(1, most_step_tokens))
      ->capture_default_str()
      ->group("Steps");
  app.add_flag("--sequential", options.sequential, "One request after the other")
      ->disable_flag_override()
      ->group("Steps");
  app.add_flag("--page-per-block", options.page_per_block,
               "A page is a block of the trace, the partial last one too, and outputs are left "
               "out; needs --sequential and "
               "--compute none")
      ->disable_flag_override()
      ->group("Steps");
}

void add_compute_options(CLI::App& app, Compute& compute, int32_t& threads) {
  compute = Compute::usual;
  app.add_option("--compute", compute,
                 "none: pages and tables only, as is usual where layers differ")
      ->transform(computes())
      ->default_str("attention")
      ->group("Steps");
  app.add_option("--threads", threads, "Threads; default: as many as the machine offers")
      ->transform(integer_from(1, most_threads))
      ->group("Steps");
}

void add_check_options(CLI::App& app, VerifyOptions& options) {
  app.add_flag("--verify", options.wanted,
               "Recompute outputs in double from the tokens; a mismatch fails")
      ->disable_flag_override()
      ->group("Checks");
  app.add_option("--verify-share", options.share,
                 "Share of (query, head) pairs that are verified besides each request's first "
                 "and last query")
      ->transform(number_from(0, 1))
      ->capture_default_str()
      ->group("Checks");
  app.add_option("--seed", options.seed, "Chooses these pairs")
      ->transform(unsigned_to(UINT64_MAX))
      ->capture_default_str()
      ->group("Checks");
}

Status disagree(const std::string& reason) { return {Errc::invalid_argument, reason}; }

// The model's sizes where none were given. A head size of one's own is no longer the model's kind
// of attention.
Status resolve_sizes(ModelOptions& options) {
  const auto model = find_model(options.name);
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
  for (const auto& [option, size] :
       {std::pair{"--head-size", sizes.head_size}, std::pair{"--v-head-size", sizes.v_head_size}}) {
    if (size % 8 != 0)
      return disagree(fmt::format("{}: got '{}', expected a multiple of 8", option, size));
  }
  if (sizes.q_heads % sizes.kv_heads != 0) {
    return disagree(
        fmt::format("--q-heads: got '{}', expected a multiple of the {} key and value heads",
                    sizes.q_heads, sizes.kv_heads));
  }
  if (sizes.v_head_size > sizes.head_size) {
    return disagree(fmt::format("--v-head-size: got '{}', expected at most the head size {}",
                                sizes.v_head_size, sizes.head_size));
  }
  if (Status s = check_format(options.kv, sizes.head_size); !s.is_ok() || !sizes.is_mla) return s;
  return check_format(options.kv, sizes.v_head_size);
}

/// `--gib` and `--checkpoint`.
void add_hybrid_options(CLI::App& app, CacheChoice& options, ModelOptions& model) {
  app.add_option("--gib", options.gib,
                 "Memory of the cache where layers differ; default: 64, with attention 4, or more "
                 "where a request needs it")
      ->transform(number_from(1e-6, 1e9))
      ->group("Cache");
  add_checkpoint_option(app, model);
}

}  // namespace

std::string name(Eviction eviction) {
  std::string word(pool::eviction_names[static_cast<size_t>(eviction)]);
  std::replace(word.begin(), word.end(), '_', '-');
  return word;
}

std::string name(const PolicyChoice& choice) { return choice.all ? "all" : name(choice.eviction); }

std::vector<Eviction> evictions_of(const PolicyChoice& choice) {
  if (!choice.all) return {choice.eviction};
  std::vector<Eviction> all;
  for (size_t number = 0; number < std::size(pool::eviction_names); ++number)
    all.push_back(static_cast<Eviction>(number));
  return all;
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  ModelShape& sizes = options.sizes;
  app.add_option("--model", options.name,
                 "llama-3-8b or deepseek-v3: sizes that are not given below; or " +
                     hybrid_model_names() +
                     ", whose layers differ: beside a pool whose layers all keep everything, "
                     "and with attention where --compute or --verify asks for it")
      ->transform(word("llama-3-8b or deepseek-v3"))
      ->capture_default_str()
      ->group("Model");
  app.add_option("--layers", sizes.layers, "Layers")
      ->transform(integer_from(1, most_layers))
      ->group("Model");
  app.add_option("--q-heads", sizes.q_heads, "Query heads")
      ->transform(integer_from(1, most_heads))
      ->group("Model");
  app.add_option("--kv-heads", sizes.kv_heads, "Key and value heads")
      ->transform(integer_from(1, most_heads))
      ->group("Model");
  app.add_option("--head-size", sizes.head_size, "Elements of a query or key head, a multiple of 8")
      ->transform(integer_from(8, most_head_size))
      ->group("Model");
  app.add_option("--v-head-size", sizes.v_head_size,
                 "Leading elements of a latent key that are its value, with --mla")
      ->transform(integer_from(8, most_head_size))
      ->group("Model");
  app.add_flag("--mla", sizes.is_mla, "Latent attention: values are the first part of the keys")
      ->disable_flag_override()
      ->group("Model");
}

void add_page_options(CLI::App& app, ModelOptions& options, PolicyChoice& policy) {
  app.add_option("--page-size", options.page_size, "Tokens of a page")
      ->transform(integer_from(1, most_page_size))
      ->capture_default_str()
      ->group("Cache");
  add_format_options(app, options.kv);
  const auto choose = [&policy](int64_t number) {
    policy.all = number == all_policies;
    if (!policy.all) policy.eviction = static_cast<Eviction>(number);
  };
  app.add_option_function<int64_t>(
         "--policy", choose,
         "Which cached page is evicted first; all: each in turn, where layers differ, or "
         "with --page-per-block, and then the offline optimum, too")
      ->type_name("ENUM")
      ->transform(policies())
      ->default_str(name(policy))
      ->group("Cache");
}

void add_checkpoint_option(CLI::App& app, ModelOptions& options) {
  app.add_option("--checkpoint", options.checkpoint,
                 "Tokens between states that can be found again, where layers have states")
      ->transform(integer_from(1, most_checkpoint))
      ->default_str(std::to_string(usual_checkpoint))
      ->group("Cache");
}

void add_trace_options(CLI::App& app, TraceOptions& options, OutputOptions& output) {
  app.add_option("trace", options.file,
                 "Request trace in Mooncake's or kvcache-simulator's JSONL form")
      ->transform(word("the name of a file"))
      ->required();
  app.add_option("--limit", options.limit, "Requests to replay; default: all")
      ->transform(integer_from(1, int64_t{1} << 40));
  app.add_option("--json", output.json, "Write the figures to this file; not the trace")
      ->transform(word("the name of a file"));
  app.add_option("--report", output.report,
                 "Write a page to look at, HTML, to this file; not the trace")
      ->transform(word("the name of a file"));
  app.add_flag("--quiet", output.quiet, "No progress bar, no summary")->disable_flag_override();
}

void add_replay_options(CLI::App& app, ReplayOptions& options) {
  add_trace_options(app, options.trace, options.output);
  app.add_option("--metrics", options.output.metrics,
                 "Write the pool's figures to this file as Prometheus reads them; not the trace")
      ->transform(word("the name of a file"));
  add_model_options(app, options.model);
  add_cache_options(app, options.cache, options.model);
  add_step_options(app, options.steps);
  add_compute_options(app, options.compute, options.threads);
  add_tier_options(app, options.tiers);
  add_check_options(app, options.verify);
  add_hybrid_options(app, options.cache, options.model);
}

Status check_partial(const CacheChoice& cache, const ModelOptions& model) {
  if (cache.partial < model.page_size) return {};
  return disagree("--partial: expected less than --page-size");
}

Status resolve(ReplayOptions& options) {
  if (Status s = resolve_tiers(options); !s.is_ok()) return s;
  if (Status s = resolve_payload(options); !s.is_ok()) return s;
  if (options.cache.policy.all && !options.output.metrics.empty())
    return disagree("--metrics: needs one policy, not --policy all");
  if (options.cache.policy.all && !options.steps.page_per_block)
    return disagree("--policy all: needs --page-per-block");
  if (options.cache.partial > 0 && options.steps.page_per_block)
    return disagree("--partial: not with --page-per-block, whose pages have one token");
  if (Status s = check_partial(options.cache, options.model); !s.is_ok()) return s;
  if (options.steps.page_per_block && !options.steps.sequential)
    return disagree("--page-per-block: needs --sequential");
  if (options.steps.page_per_block && options.compute != Compute::none)
    return disagree("--page-per-block: needs --compute none");
  if (options.verify.wanted && options.compute == Compute::none)
    return disagree("--verify: needs --compute attention");
  if (options.compute == Compute::usual) options.compute = Compute::attention;
  if (options.cache.gib != 0.0) return disagree("--gib: needs a --model whose layers differ");
  if (options.model.checkpoint != 0) return disagree("--checkpoint: needs a --model with states");
  if (options.tiers.hit_interval != 0)
    return disagree("--hit-interval: needs a --model with windows or chunks");
  if (options.steps.sequential) options.steps.max_batch = 1;
  return resolve_sizes(options.model);
}

}  // namespace folio::cli
