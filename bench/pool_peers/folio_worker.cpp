// SPDX-License-Identifier: Apache-2.0
/// bench/pool_peers/folio_worker.cpp: folio's pool as a contender of bench/pool_peers (worker.py
/// says how it is asked, and what).
#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pool_workload.h"
#include "support/random.h"

namespace folio::bench {
namespace {

using Json = nlohmann::json;

/// Requests of one length in a pool that is full of them.
class Load {
 public:
  explicit Load(const Json& setup)
      : pages_(setup.at("request_pages")),
        tokens_(pages_ * setup.at("page_size").get<int32_t>()),
        is_hit_(setup.at("operation") == "hit"),
        count_(setup.at("pages").get<int64_t>() / pages_ - (is_hit_ ? 2 : 0)),
        next_(is_hit_ ? 0 : count_),
        pool_(make_pool({.num_pages = setup.at("pages"),
                         .page_size = setup.at("page_size"),
                         .max_sequences = 8,
                         .max_pages_per_sequence = static_cast<uint32_t>(pages_) + 1})) {
    CallTimes times;
    for (int64_t i = 0; i < count_; ++i) serve(pool_, tokens_of(i), times);
  }

  Json turn(double seconds) {
    const auto now = [] { return std::chrono::steady_clock::now(); };
    const auto end = now() + std::chrono::duration<double>(seconds);
    std::vector<double> all;
    do {
      all.push_back(serve_next());
    } while (now() < end);
    return all;
  }

 private:
  Tokens tokens_of(int64_t number) const {
    test::Rng rng(static_cast<uint64_t>(number));
    Tokens tokens(static_cast<size_t>(tokens_));
    for (TokenId& token : tokens) token = rng.int_between(0, 127'999);
    return tokens;
  }

  double serve_next() {
    Tokens tokens = tokens_of(is_hit_ ? next_ % count_ : next_);
    ++next_;
    if (is_hit_) tokens.push_back(0);
    CallTimes times;
    if (serve(pool_, tokens, times) != (is_hit_ ? tokens_ : 0))
      throw std::runtime_error("another hit than expected");
    return times.all() / pages_;
  }

  int32_t pages_, tokens_;
  bool is_hit_;
  int64_t count_, next_;
  PagePool pool_;
};

/// Each id of the trace a page of one token, and a token behind them that gets no room.
Json replay(const Json& trace) {
  PagePool pool = make_pool({.num_pages = trace.at("pages"),
                             .page_size = 1,
                             .max_sequences = 1,
                             .max_pages_per_sequence = 2000});
  std::ifstream file(trace.at("path").get<std::string>());
  double seconds = 0;
  int64_t pages = 0;
  for (std::string line; std::getline(file, line);) {
    Tokens ids = Json::parse(line).at("hash_ids");
    pages += static_cast<int64_t>(ids.size());
    ids.push_back(-1);
    timed(seconds, [&] {
      const Admission a = pool.admit(ids).value();
      const auto missing =
          std::span(ids).first(ids.size() - 1).subspan(static_cast<size_t>(a.cached_tokens));
      pool.reserve(a.id, static_cast<int32_t>(missing.size())).or_throw();
      pool.commit(a.id, missing).or_throw();
      return pool.release(a.id);
    }).or_throw();
  }
  if (pages == 0) throw std::runtime_error("no trace");
  return {{"hit_pages", pool.stats().hit_pages}, {"pages", pages}, {"seconds", seconds}};
}

int answer_all() {
  std::optional<Load> load;
  for (std::string line; std::getline(std::cin, line);) {
    const Json message = Json::parse(line);
    Json answer;
    if (message.contains("setup")) {
      load.reset();
      load.emplace(message["setup"]);
      answer = {{"versions", Json::object()}};
    } else if (message.contains("trace")) {
      answer = replay(message["trace"]);
    } else {
      if (!load.has_value()) throw std::runtime_error("a turn before its setup");
      answer = {{"seconds", load->turn(message.at("turn"))}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace folio::bench

int main() {
  try {
    return folio::bench::answer_all();
  } catch (const std::exception& error) {
    std::cerr << "folio_worker: " << error.what() << "\n";
    return 1;
  }
}
