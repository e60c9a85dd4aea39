// SPDX-License-Identifier: Apache-2.0
/// cli/watch/watcher.cpp: an index by its subscriber, metrics by a scraper, samples of both.
#include "watch/watcher.h"

#include <poll.h>

#include <algorithm>
#include <string>
#include <utility>

namespace folio::cli {
namespace {

using std::chrono::milliseconds;

double seconds_between(Watcher::Clock::time_point from, Watcher::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Result<Watcher> Watcher::create(const WatchOptions& options) {
  Watcher watcher(options);
  if (!options.endpoint.empty()) {
    auto subscriber = tier::EventSubscriber::create(
        {.endpoint = options.endpoint,
         .replay_endpoint = options.replay,
         .topic = options.topic,
         .high_water_mark = 10'000,
         .max_message_bytes = int64_t{64} << 20,
         .max_held_batches = 1000,
         .request_timeout_ms = 2000,
         .index = {.max_names = options.max_names, .max_media = most_media}});
    if (!subscriber) return subscriber.error();
    watcher.subscriber_.emplace(std::move(*subscriber));
  }
  if (!options.metrics.empty()) {
    auto scraper = Scraper::create(options.metrics, options.interval_ms);
    if (!scraper) return scraper.error();
    watcher.scraper_.emplace(std::move(*scraper));
    watcher.watched_.metrics.is_asked = true;
  }
  return watcher;
}

void Watcher::note(const tier::EventSubscriber& subscriber) {
  WatchedStream& stream = watched_.stream;
  stream.figures = subscriber.figures();
  stream.index = subscriber.index().figures();
  stream.next_batch = subscriber.next_batch();
  const auto now = Clock::now();
  const int64_t batches = stream.index.batches + stream.index.malformed_batches;
  if (batches != batches_) last_batch_ = now;
  const bool has_told = std::exchange(batches_, batches) + batches > 0;
  const bool is_connected = subscriber.is_connected();
  if (is_connected) gone_since_.reset();
  if (!is_connected && was_connected_) gone_since_ = now;
  was_connected_ = is_connected;
  if (subscriber.is_current() && !is_current_) has_answer_ = stream.figures.timeouts == timeouts_;
  is_current_ = subscriber.is_current();
  if (is_current_) timeouts_ = stream.figures.timeouts;
  // Whether the last batches were lost is asked again and again; that is not to catch up.
  constexpr milliseconds patience{1500};
  if (!is_connected) last_current_.reset();
  if (is_connected && subscriber.is_current()) last_current_ = now;
  if (!is_connected) {
    stream.link = gone_since_ ? Link::gone : Link::nobody;
  } else if (!last_current_ || now - *last_current_ > patience) {
    stream.link = Link::catching_up;
  } else {
    stream.link = has_told ? Link::current : Link::waiting;
  }
}

Status Watcher::follow(milliseconds most) {
  constexpr milliseconds while_scraping{20};
  if (scraper_ && scraper_->poll()) {
    watched_.metrics.fault = scraper_->fault();
    if (scraper_->fault().empty()) {
      last_reading_ = Clock::now();
      hits_.take(scraper_->reading(), sample_);
      watched_.metrics.caches = hits_.caches();
      watched_.metrics.readings = scraper_->reading().readings;
      watched_.metrics.samples = scraper_->reading().samples;
    }
  }
  if (scraper_) most = std::min(most, while_scraping);
  const auto wait_ms = static_cast<int32_t>(most.count());
  if (!subscriber_) return ::poll(nullptr, 0, wait_ms), Status();
  Status status = subscriber_->poll(wait_ms);
  note(*subscriber_);
  return status;
}

void Watcher::look(bool has_to) {
  const auto now = Clock::now();
  watched_.seconds = seconds_between(began_, now);
  sample_.seconds = seconds_between(std::exchange(looked_, now), now);
  if (subscriber_) {
    const tier::EventIndexFigures& figures = watched_.stream.index;
    sample_.stored = figures.stored_copies - std::exchange(stored_, figures.stored_copies);
    sample_.removed = figures.removed_copies - std::exchange(removed_, figures.removed_copies);
    const Link link = watched_.stream.link;
    if (!std::exchange(is_following_, link == Link::current || link == Link::waiting))
      sample_.stored = sample_.removed = 0;
    if (has_to || now >= census_due_) {
      watched_.census = census_of(subscriber_->index());
      census_due_ = Clock::now() + 9 * (Clock::now() - now);
    }
    sample_.in = watched_.census.in;
  }
  watched_.add(std::exchange(sample_, {}));
  const auto since = [&](const std::optional<Clock::time_point>& then) {
    return then ? std::optional(seconds_between(*then, now)) : std::nullopt;
  };
  watched_.stream.silent_s = since(last_batch_);
  watched_.stream.gone_s = since(gone_since_);
  watched_.metrics.age_s = since(last_reading_);
}

bool Watcher::is_complete() const {
  const Link link = watched_.stream.link;
  // An engine that can be asked has said that there is nothing.
  const bool is_asked = link == Link::waiting && !watched_.options.replay.empty() && has_answer_;
  const bool has_stream = !subscriber_ || link == Link::current || is_asked;
  return has_stream && (!scraper_ || last_reading_);
}

bool Watcher::has_something() const { return last_batch_ || was_connected_ || last_reading_; }

}  // namespace folio::cli
