// SPDX-License-Identifier: Apache-2.0
/// run/main.cpp: commands as JSON lines on standard input, an answer for each on standard output.
///
/// Which device computes is the environment's choice (GGML_BACKEND_PATH), as in any program of
/// llama.cpp. An answer is an object: what the command returns, or {"error": sentence}. Commands:
///
///   {"do": "load", "model": path}
///   {"do": "open", ContextOptions}         {} with "log": what llama.cpp said about attention
///   {"do": "decode", "tokens": [], "positions": [], "sequences": [], "outputs": []}
///   {"do": "remove", "sequence", "from", "to"}                     llama_memory_seq_rm
///   {"do": "shift", "sequence", "from", "to", "by"}                llama_memory_seq_add
///   {"do": "copy", "sequence", "target", "from", "to"}             llama_memory_seq_cp
///   {"do": "save", "path"}, {"do": "restore", "path"}          llama_state_save_file, _load_file
///   {"do": "write", "path": path}          the logits as f32: {"rows", "vocabulary", counts}
///   {"do": "close"}                        frees the context: {"log"}, what was said since `open`
///   {"do": "prompt", "tokens": n}, {"do": "deepen", "depth", "block"}, {"do": "steps",
///   "position", "steps"}                   timing.h: {"seconds"}
#include <ggml-backend.h>

#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "session.h"
#include "timing.h"

namespace folio::llama_run {
namespace {

using nlohmann::json;

/// What is logged: warnings, and lines on attention, since the last `open`.
std::string& log_lines() {
  static std::string lines;
  return lines;
}

void on_log(ggml_log_level level, const char* text, void*) {
  const std::string line = text;
  const bool matters = level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR ||
                       line.find("lash") != std::string::npos ||
                       line.find("attn_rot") != std::string::npos ||
                       line.find("attention layers") != std::string::npos;
  if (matters) {
    log_lines() += line;
  }
}

ContextOptions context_options(const json& command) {
  const ContextOptions usual;
  return {.tokens = command.at("tokens"),
          .batch = command.value("batch", usual.batch),
          .sequences = command.value("sequences", usual.sequences),
          .unified = command.value("unified", usual.unified),
          .full_windows = command.value("full_windows", usual.full_windows),
          .threads = command.value("threads", usual.threads),
          .keys = command.value("keys", usual.keys),
          .values = command.value("values", usual.values),
          .attention = command.value("attention", usual.attention),
          .round_keys = command.value("round_keys", usual.round_keys),
          .round_values = command.value("round_values", usual.round_values),
          .turn_keys = command.value("turn_keys", usual.turn_keys),
          .turn_values = command.value("turn_values", usual.turn_values),
          .watched = command.value("watched", usual.watched)};
}

/// nlohmann's own conversion cuts what does not fit.
int32_t int_of(const json& command, const char* name) {
  const json& value = command.at(name);
  if (!value.is_number_integer() || value < std::numeric_limits<int32_t>::min() ||
      value > std::numeric_limits<int32_t>::max()) {
    throw std::runtime_error(std::string(name) + ": expected an integer of 32 bits, got " +
                             value.dump());
  }
  return value.get<int32_t>();
}

class Runner {
 public:
  json answer(const json& command) {
    const std::string name = command.at("do");
    if (name == "load") {
      session_.emplace(command.at("model").get<std::string>());
      return json::object();
    }
    if (!session_) {
      throw std::runtime_error("do: expected load first, got " + name);
    }
    if (name == "open") return open(command);
    if (name == "close") return close();
    if (name == "decode") return decode(command);
    if (name == "remove" || name == "shift" || name == "copy") return change(name, command);
    if (name == "save" || name == "restore") return keep(name, command.at("path"));
    if (name == "write") return write(command.at("path"));
    return measure(name, command);
  }

 private:
  json open(const json& command) {
    log_lines().clear();
    session_->open(context_options(command));
    return {{"log", log_lines()}, {"can_shift", llama_memory_can_shift(session_->memory())}};
  }

  json close() {
    session_->close();
    return {{"log", log_lines()}};
  }

  json decode(const json& command) {
    session_->decode({.tokens = command.at("tokens"),
                      .positions = command.at("positions"),
                      .sequences = command.at("sequences"),
                      .outputs = command.at("outputs")});
    return json::object();
  }

  json change(const std::string& name, const json& command) {
    const llama_memory_t memory = session_->memory();
    const llama_seq_id sequence = int_of(command, "sequence");
    const llama_pos from = int_of(command, "from"), to = int_of(command, "to");
    if (name == "remove") {
      if (!llama_memory_seq_rm(memory, sequence, from, to)) {
        throw std::runtime_error("remove: the model's memory cannot remove a part of a sequence");
      }
    } else if (name == "shift") {
      if (!llama_memory_can_shift(memory)) {
        throw std::runtime_error("shift: the model's memory cannot shift");
      }
      llama_memory_seq_add(memory, sequence, from, to, int_of(command, "by"));
    } else {
      llama_memory_seq_cp(memory, sequence, int_of(command, "target"), from, to);
    }
    return json::object();
  }

  json keep(const std::string& name, const std::string& path) {
    llama_context* const context = session_->context();
    size_t count = 0;
    const bool done = name == "save"
                          ? llama_state_save_file(context, path.c_str(), nullptr, 0)
                          : llama_state_load_file(context, path.c_str(), nullptr, 0, &count);
    if (!done) throw std::runtime_error(name + ": llama.cpp cannot " + name + " " + path);
    return json::object();
  }

  json write(const std::string& path) {
    std::vector<float>& logits = session_->logits();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(logits.data()),
               static_cast<std::streamsize>(logits.size() * sizeof(float)));
    file.close();
    if (!file) {
      throw std::runtime_error("write: cannot write " + path);
    }
    const auto vocabulary = static_cast<size_t>(session_->vocabulary());
    const Counts& counts = session_->counts();
    json answer = {{"rows", logits.size() / vocabulary},
                   {"vocabulary", vocabulary},
                   {"nodes", counts.nodes},
                   {"flash", counts.flash},
                   {"plain", counts.plain},
                   {"rounded", counts.rounded}};
    logits.clear();
    return answer;
  }

  json measure(const std::string& name, const json& command) {
    if (name == "prompt") {
      return {{"seconds", time_prompt(*session_, int_of(command, "tokens"))}};
    }
    if (name == "steps") {
      return {{"seconds",
               time_steps(*session_, int_of(command, "position"), int_of(command, "steps"))}};
    }
    if (name == "deepen") {
      deepen(*session_, int_of(command, "depth"), int_of(command, "block"));
      return json::object();
    }
    throw std::runtime_error("do: no command " + name);
  }

  std::optional<Session> session_;
};

int serve() {
  llama_log_set(on_log, nullptr);
  // As llama.cpp's own programs do; llama_backend_init() does not look for GGML_BACKEND_PATH where
  // the CPU's backend is linked in.
  ggml_backend_load_all();
  llama_backend_init();
  {
    Runner runner;
    std::string line;
    while (std::getline(std::cin, line)) {
      json answer;
      try {
        answer = runner.answer(json::parse(line));
      } catch (const std::exception& error) {
        answer = {{"error", std::string(error.what()) + "; llama.cpp: " + log_lines()}};
      }
      std::cout << answer.dump() << std::endl;
    }
  }
  llama_backend_free();
  return 0;
}

}  // namespace
}  // namespace folio::llama_run

int main() { return folio::llama_run::serve(); }
