// SPDX-License-Identifier: Apache-2.0
/// run/timing.cpp: prompts and steps by the clock, and a deep cache without its prompt.
#include "timing.h"

#include <chrono>
#include <stdexcept>

namespace folio::llama_run {
namespace {

Tokens run_of(const Session& session, int position, int count) {
  if (position < 0 || count < 1) {
    throw std::runtime_error("tokens: expected at least 1 and no negative position");
  }
  Tokens step;
  for (int i = 0; i < count; ++i) {
    step.tokens.push_back(
        static_cast<llama_token>((position + i) * int64_t{131} % session.vocabulary()));
    step.positions.push_back(position + i);
    step.sequences.push_back(0);
    step.outputs.push_back(i + 1 == count);
  }
  return step;
}

double timed(Session& session, const Tokens& step) {
  const auto start = std::chrono::steady_clock::now();
  session.decode(step);
  const auto end = std::chrono::steady_clock::now();
  session.logits().clear();
  return std::chrono::duration<double>(end - start).count();
}

void clear(const Session& session) { llama_memory_clear(session.memory(), false); }

}  // namespace

double time_prompt(Session& session, int tokens) {
  clear(session);
  return timed(session, run_of(session, 0, tokens));
}

std::vector<double> time_steps(Session& session, int position, int steps) {
  std::vector<double> seconds;
  if (steps < 1) {
    throw std::runtime_error("steps: expected at least 1");
  }
  for (int i = 0; i < steps; ++i) {
    seconds.push_back(timed(session, run_of(session, position + i, 1)));
  }
  llama_memory_seq_rm(session.memory(), 0, position, -1);
  return seconds;
}

void deepen(Session& session, int depth, int block) {
  clear(session);
  if (depth == 0) {
    return;
  }
  if (block <= 0 || depth < 0 || depth % block != 0) {
    throw std::runtime_error("deepen: expected a depth of whole blocks");
  }
  timed(session, run_of(session, 0, block));
  llama_context* context = session.context();
  const llama_memory_t memory = session.memory();
  std::vector<uint8_t> state(llama_state_seq_get_size(context, 0));
  if (llama_state_seq_get_data(context, state.data(), state.size(), 0) != state.size()) {
    throw std::runtime_error("deepen: no state of the block");
  }
  for (int i = 1; i < depth / block; ++i) {
    if (llama_state_seq_set_data(context, state.data(), state.size(), i) == 0) {
      throw std::runtime_error("deepen: block " + std::to_string(i) + " does not fit");
    }
    llama_memory_seq_cp(memory, i, 0, -1, -1);
    llama_memory_seq_rm(memory, i, -1, -1);
  }
  // Keys and values are nearly all of a state; each block has to be there.
  const size_t blocks = static_cast<size_t>(depth / block);
  if (llama_state_seq_get_size(context, 0) < state.size() * blocks * 9 / 10) {
    throw std::runtime_error("deepen: the cache does not hold the depth");
  }
}

}  // namespace folio::llama_run
