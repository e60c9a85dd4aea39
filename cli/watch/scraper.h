// SPDX-License-Identifier: Apache-2.0
/// cli/watch/scraper.h: asks an engine for its metrics, again and again. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "folio/core/status.h"
#include "watch/known_metrics.h"

namespace folio::cli {

/// What is asked for is bounded in time and size: 5 s, 16 MiB. No proxy, no other address, however
/// the server or the surroundings want it.
class Scraper {
 public:
  /// `interval_ms` between two looks. Errors: unsupported in a build without libcurl; io
  static Result<Scraper> create(const std::string& url, int64_t interval_ms);
  Scraper(Scraper&&) noexcept;
  Scraper& operator=(Scraper&&) noexcept;
  ~Scraper();

  /// Goes on with a look, or begins one that is due; never waits. Whether one has ended with this
  /// call: `reading` is new then, unless there is a `fault`.
  bool poll();
  [[nodiscard]] const MetricsReading& reading() const;
  /// Why the last look gave no reading; empty: it did.
  [[nodiscard]] const std::string& fault() const;

 private:
  struct State;
  explicit Scraper(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace folio::cli
