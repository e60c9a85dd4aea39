// SPDX-License-Identifier: Apache-2.0
/// fuzz/operations.h: how many calls a fuzzer makes, which it says at its end. With
/// FOLIO_FUZZ_OPERATIONS=N in the environment its program ends well after N of them, of all inputs
/// together.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace folio::fuzz {

class Operations {
 public:
  static Operations& of_this_program() {
    static Operations* const operations = [] {
      std::atexit([] { of_this_program().say(); });
      return new Operations;  // reachable until the end: no leak
    }();
    return *operations;
  }

  void add_one() { ++made_; }

  /// Behind an input.
  void end_if_all_are_done() const {
    if (made_ < wanted_) return;
    say();
    std::_Exit(0);
  }

 private:
  Operations() {
    if (const char* given = std::getenv("FOLIO_FUZZ_OPERATIONS")) wanted_ = std::atoll(given);
  }

  void say() const {
    std::printf("%lld operations%s\n", static_cast<long long>(made_),
                made_ < wanted_ ? ": the time was over" : ": all are done");
    std::fflush(stdout);
  }

  int64_t made_ = 0;
  int64_t wanted_ = INT64_MAX;
};

}  // namespace folio::fuzz
