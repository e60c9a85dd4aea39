// SPDX-License-Identifier: Apache-2.0
/// cli/load/options.h: what `folio replay` is asked to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/core/status.h"
#include "folio/pool/page_pool.h"
#include "load/kv_format.h"
#include "load/model.h"
#include "load/tier_options.h"

namespace CLI {  // NOLINT(readability-identifier-naming): of the library that reads options
class App;
}

namespace folio::cli {

enum class Compute : uint8_t {
  none = 0,       ///< pages and tables only
  attention = 1,  ///< append and attend too
  usual = 2,      ///< not said: attention, where the replay has it
};

/// One of the pool's policies, or all of them, one replay after the other.
struct PolicyChoice {
  Eviction eviction = Eviction::lru;  ///< where it is one
  bool all = false;
};

/// As on the command line.
std::string name(Eviction eviction);
std::string name(const PolicyChoice& choice);
/// What is chosen, as it is shown.
std::vector<Eviction> evictions_of(const PolicyChoice& choice);

struct TraceOptions {
  std::string file = {};
  int64_t limit = 0;  ///< requests; 0: all
};

/// A model, and pages of what it keeps.
struct ModelOptions {
  std::string name = "llama-3-8b";
  ModelShape sizes = {};  ///< what was given; 0: the model's. After `resolve`: the whole shape
  KVFormat kv = {};
  int32_t page_size = 16;
  int32_t checkpoint = 0;  ///< tokens of a page of states; 0: not given
};

/// The pool and its memory.
struct CacheChoice {
  int64_t pages = 0;  ///< 0: room for the whole trace, but 4 GiB at most with attention
  double gib = 0.0;   ///< for models with groups; 0: not given
  PolicyChoice policy = {};
  int32_t partial = 0;  ///< PoolOptions::min_partial_tokens
};

struct StepOptions {
  int32_t max_batch = 16;     ///< sequences in a step
  int32_t step_tokens = 512;  ///< new tokens in a step
  bool sequential = false;    ///< one request after the other
  bool page_per_block = false;
};

struct VerifyOptions {
  bool wanted = false;
  double share = 0.01;
  uint64_t seed = 1;
};

struct OutputOptions {
  std::string json = {};
  std::string metrics = {};  ///< a file for Prometheus; empty: none
  std::string report = {};   ///< a page to look at
  std::string command = {};  ///< as it was given, for the page
  bool quiet = false;
};

/// All of a replay. What does one part of it takes that part's options.
struct ReplayOptions {
  TraceOptions trace = {};
  ModelOptions model = {};
  CacheChoice cache = {};
  StepOptions steps = {};
  Compute compute = Compute::attention;
  int32_t threads = 0;  ///< 0: as many as the machine offers
  TierChoice tiers = {};
  VerifyOptions verify = {};
  OutputOptions output = {};
};

/// Parts of the options, for other commands: the trace and what is written; the model; page size,
/// format and policy.
void add_trace_options(CLI::App& app, TraceOptions& options, OutputOptions& output);
void add_model_options(CLI::App& app, ModelOptions& options);
void add_page_options(CLI::App& app, ModelOptions& options, PolicyChoice& policy);
/// `--checkpoint`, of models with states.
void add_checkpoint_option(CLI::App& app, ModelOptions& options);

/// Adds the options of `replay` to the parser, which fills `options`.
void add_replay_options(CLI::App& app, ReplayOptions& options);

/// Errors: invalid_argument for `--partial` that no page has
Status check_partial(const CacheChoice& cache, const ModelOptions& model);

/// Fills in the model's sizes and checks that the options agree with each other.
/// Errors: invalid_argument naming the options
Status resolve(ReplayOptions& options);

}  // namespace folio::cli
