// SPDX-License-Identifier: Apache-2.0
/// cli/watch/watcher.h: follows an engine and keeps what is known of it.
#pragma once

#include <chrono>
#include <optional>

#include "folio/core/status.h"
#include "watch/scraper.h"
#include "watch/watched.h"

namespace folio::cli {

class Watcher {
 public:
  using Clock = std::chrono::steady_clock;

  /// `options` lives longer. Errors: those of EventSubscriber::create and Scraper::create, by the
  /// options' names
  static Result<Watcher> create(const WatchOptions& options);

  /// Takes what has come, and waits at most so long for it. Errors: out_of_memory; io
  Status follow(std::chrono::milliseconds most);
  /// Makes a sample of what has come since the last one, and looks at the names anew: unless they
  /// are so many that this would take more than a tenth of the time, or `has_to`.
  void look(bool has_to);

  [[nodiscard]] const Watched& watched() const { return watched_; }
  /// What the engine has is known, as far as it was asked for.
  [[nodiscard]] bool is_complete() const;
  /// Somebody has answered.
  [[nodiscard]] bool has_something() const;

 private:
  explicit Watcher(const WatchOptions& options) : watched_(options) {}
  void note(const tier::EventSubscriber& subscriber);

  Watched watched_;
  std::optional<tier::EventSubscriber> subscriber_;
  std::optional<Scraper> scraper_;
  Hits hits_;
  WatchSample sample_;  ///< since the last look
  int64_t stored_ = 0, removed_ = 0, batches_ = 0;
  bool was_connected_ = false;
  bool is_current_ = false, has_answer_ = false;  ///< the subscriber; the last request had an end
  int64_t timeouts_ = 0;                          ///< before the last request
  bool is_following_ = false;  ///< what comes is what happens now, not what was before
  std::optional<Clock::time_point> last_batch_, last_current_, gone_since_, last_reading_;
  Clock::time_point began_ = Clock::now(), looked_ = began_;
  Clock::time_point census_due_ = began_;
};

}  // namespace folio::cli
