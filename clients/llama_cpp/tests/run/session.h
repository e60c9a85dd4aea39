// SPDX-License-Identifier: Apache-2.0
/// run/session.h: a model and a context of llama.cpp, driven by steps that a test describes.
///
/// Everything goes through llama.h, so that what is tested is what a user of llama.cpp runs. The
/// logits that a step asks for are collected, in order, until they are written or cleared.
/// Failures are exceptions (std::runtime_error). Thread safety: one thread at a time.
#pragma once
#include <llama.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "watch.h"

namespace folio::llama_run {

struct ContextOptions {
  uint32_t tokens = 0;  // of the cache, all sequences together
  uint32_t batch = 512;
  uint32_t sequences = 1;
  bool unified = false;
  bool full_windows = true;  // layers with windows keep all tokens
  int threads = 1;
  std::string keys = "f16", values = "f16";  // ggml's type names
  std::string attention = "auto";            // auto, on, off: llama.cpp's -fa
  std::string round_keys, round_values;      // a type's name, both or none; watch.h
  int turn_keys = 0, turn_values = 0;        // of the rounding
  bool watched = true;                       // count nodes; false where time is measured
};

/// Tokens of one call of llama_decode: one entry each.
struct Tokens {
  std::vector<llama_token> tokens;
  std::vector<llama_pos> positions;
  std::vector<llama_seq_id> sequences;
  std::vector<int8_t> outputs;  // 1: the token's logits are wanted
};

class Session {
 public:
  explicit Session(const std::string& model_path);

  /// Replaces the context.
  void open(const ContextOptions& options);
  void close() { context_.reset(); }

  /// Decodes in parts of at most `batch` tokens and collects the logits asked for.
  void decode(const Tokens& step);

  llama_memory_t memory() const;
  llama_context* context() const;
  int vocabulary() const;
  const Counts& counts() const { return watch_.counts; }
  std::vector<float>& logits() { return logits_; }

 private:
  struct Free {
    void operator()(llama_model* model) const { llama_model_free(model); }
    void operator()(llama_context* context) const { llama_free(context); }
  };
  void decode_part(const Tokens& step, size_t begin, size_t end);

  std::unique_ptr<llama_model, Free> model_;
  Watch watch_;
  std::unique_ptr<llama_context, Free> context_;
  std::vector<float> logits_;  // [collected, vocabulary]
};

}  // namespace folio::llama_run
