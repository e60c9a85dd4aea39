// SPDX-License-Identifier: Apache-2.0
/// run/session.cpp: loading, opening and decoding through llama.h.
#include "session.h"

#include <algorithm>
#include <stdexcept>

namespace folio::llama_run {
namespace {

ggml_type type_named(const std::string& name) {
  for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
    const char* known = ggml_type_name(static_cast<ggml_type>(type));
    if (known != nullptr && name == known) {
      return static_cast<ggml_type>(type);
    }
  }
  throw std::runtime_error("type: expected a name of ggml, got " + name);
}

llama_flash_attn_type attention_named(const std::string& name) {
  if (name == "auto") return LLAMA_FLASH_ATTN_TYPE_AUTO;
  if (name == "on") return LLAMA_FLASH_ATTN_TYPE_ENABLED;
  if (name == "off") return LLAMA_FLASH_ATTN_TYPE_DISABLED;
  throw std::runtime_error("attention: expected auto, on or off, got " + name);
}

struct Batch {
  explicit Batch(size_t tokens) : batch(llama_batch_init(static_cast<int32_t>(tokens), 0, 1)) {}
  ~Batch() { llama_batch_free(batch); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  llama_batch batch;
};

}  // namespace

Session::Session(const std::string& model_path)
    : model_(llama_model_load_from_file(model_path.c_str(), llama_model_default_params())) {
  if (!model_) {
    throw std::runtime_error("model: llama.cpp cannot load " + model_path);
  }
}

void Session::open(const ContextOptions& options) {
  context_.reset();
  logits_.clear();
  watch_ = {};
  llama_context_params params = llama_context_default_params();
  params.n_ctx = options.tokens;
  params.n_batch = params.n_ubatch = options.batch;
  params.n_seq_max = options.sequences;
  params.kv_unified = options.unified;
  params.swa_full = options.full_windows;
  params.n_threads = params.n_threads_batch = options.threads;
  params.type_k = type_named(options.keys);
  params.type_v = type_named(options.values);
  params.flash_attn_type = attention_named(options.attention);
  params.no_perf = true;
  if (!options.round_keys.empty()) {
    watch_.keys = {type_named(options.round_keys), options.turn_keys};
    watch_.values = {type_named(options.round_values), options.turn_values};
    watch_.rounds = true;
  }
  if (options.watched || watch_.rounds) {
    params.cb_eval = on_node;
    params.cb_eval_user_data = &watch_;
  }
  context_.reset(llama_init_from_model(model_.get(), params));
  if (!context_) {
    throw std::runtime_error("context: llama.cpp refuses keys of " + options.keys + ", values of " +
                             options.values + " with attention " + options.attention);
  }
}

void Session::decode(const Tokens& step) {
  const size_t size = step.tokens.size();
  if (step.positions.size() != size || step.sequences.size() != size ||
      step.outputs.size() != size) {
    throw std::runtime_error("decode: expected as many positions, sequences, outputs as tokens");
  }
  const size_t part = llama_n_batch(context());
  for (size_t begin = 0; begin < size; begin += part) {
    decode_part(step, begin, std::min(begin + part, size));
  }
}

void Session::decode_part(const Tokens& step, size_t begin, size_t end) {
  Batch owner(end - begin);
  llama_batch& batch = owner.batch;
  batch.n_tokens = static_cast<int32_t>(end - begin);
  for (size_t i = begin; i < end; ++i) {
    const size_t row = i - begin;
    batch.token[row] = step.tokens[i];
    batch.pos[row] = step.positions[i];
    batch.n_seq_id[row] = 1;
    batch.seq_id[row][0] = step.sequences[i];
    batch.logits[row] = step.outputs[i];
  }
  const int status = llama_decode(context(), batch);
  if (status != 0) {
    throw std::runtime_error("decode: llama_decode returned " + std::to_string(status));
  }
  for (size_t i = begin; i < end; ++i) {
    if (step.outputs[i] != 0) {
      const float* row = llama_get_logits_ith(context(), static_cast<int32_t>(i - begin));
      if (row == nullptr) {
        throw std::runtime_error("decode: no logits for an output");
      }
      logits_.insert(logits_.end(), row, row + vocabulary());
    }
  }
}

llama_context* Session::context() const {
  if (!context_) {
    throw std::runtime_error("context: none is open");
  }
  return context_.get();
}

llama_memory_t Session::memory() const { return llama_get_memory(context()); }

int Session::vocabulary() const {
  return llama_vocab_n_tokens(llama_model_get_vocab(model_.get()));
}

}  // namespace folio::llama_run
