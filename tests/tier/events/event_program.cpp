// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/event_program.cpp: a publisher for programs in other languages, and an index
/// that follows theirs.
///
/// event_program publish maps|arrays integers|bytes    a pool works when a line comes in; prints
///     its endpoints, and at the end of the input the names that are stored, in hexadecimal
/// event_program follow ENDPOINT REPLAY_ENDPOINT NAMES  prints what is in the index, once it has so
///     many names
/// event_program measure    what a pool pays for its events, and how many go out a second
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "folio/names/sha256_names.h"
#include "folio/tier/event_publisher.h"
#include "folio/tier/event_subscriber.h"

namespace folio {
namespace {

void print(const PageName& name) {
  for (const uint8_t byte : name.bytes) std::printf("%02x", byte);
  std::printf("\n");
}

void work(PagePool& pool, TokenId first) {
  std::vector<TokenId> prompt;
  for (TokenId t = first; t < first + 11; ++t) prompt.push_back(t);
  const Admission a = pool.admit(prompt, {.adapter = first == 200 ? 7U : 0U}).value();
  const auto rest = std::span<const TokenId>(prompt).subspan(static_cast<size_t>(a.cached_tokens));
  pool.reserve(a.id, static_cast<int32_t>(rest.size())).or_throw();
  pool.commit(a.id, rest).or_throw();
  pool.release(a.id).or_throw();
}

int publish(const std::string& format, const std::string& names) {
  EventPublisher publisher =
      EventPublisher::create({.endpoint = "tcp://127.0.0.1:*",
                              .replay_endpoint = "tcp://127.0.0.1:*",
                              .topic = "kv@pod@model",
                              .data_parallel_rank = 2,
                              .format = format == "maps" ? EventFormat::maps : EventFormat::arrays,
                              .names = names == "bytes" ? NameForm::bytes : NameForm::last_64_bits})
          .value();
  const TierObserver tier = publisher.add_tier(medium_cpu).value();
  Sha256Names sha256 = Sha256Names::create().value();
  PagePool pool = PagePool::create({.num_pages = 7,
                                    .page_size = 4,
                                    .max_sequences = 2,
                                    .name = sha256.function(),
                                    .on_event = publisher.add_pool().value()})
                      .value();
  std::printf("%s\n%s\n", std::string(publisher.endpoint()).c_str(),
              std::string(publisher.replay_endpoint()).c_str());
  std::fflush(stdout);
  std::string line;
  for (TokenId first = 0; std::getline(std::cin, line); first += 100) {
    if (line == "clear") {
      pool.clear().or_throw();
    } else {
      work(pool, first);
    }
    if (line == "tier") {
      const PageName name =
          sha256.page(sha256.root({}, 0).value(), std::vector<TokenId>{0, 1, 2, 3}).value();
      tier.function(tier.context, TierChange::stored, {&name, 1});
    }
    const int64_t before = publisher.figures().published_batches;
    while (publisher.figures().published_batches == before) publisher.flush();
    std::printf("done\n");
    std::fflush(stdout);
  }
  const Result<uint64_t> last =
      pool.snapshot({.function = [](void*, const PoolEvent& event,
                                    std::span<const TokenId>) noexcept { print(event.name); }});
  return last ? 0 : 1;
}

int follow(const std::string& endpoint, const std::string& replay, int64_t names) {
  EventSubscriber subscriber =
      EventSubscriber::create({.endpoint = endpoint, .replay_endpoint = replay}).value();
  while (subscriber.index().figures().names != names) subscriber.poll(100).or_throw();
  subscriber.index().visit([](void*, const IndexedName& name) noexcept { print(name.name); },
                           nullptr);
  const EventIndexFigures figures = subscriber.index().figures();
  std::printf("%lld refused, %lld ignored, %lld malformed\n",
              static_cast<long long>(figures.refused_events),
              static_cast<long long>(figures.ignored_events),
              static_cast<long long>(figures.malformed_batches));
  return 0;
}

// ---- Figures

/// Of a processor, not of a clock on the wall: others may use the machine.
double seconds_of(clockid_t what) {
  timespec time{};
  clock_gettime(what, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// New prompts of 64 pages of 16 tokens in a pool of 4,096, so that each page that is stored
/// removes another. Seconds a page.
double fill(const EventFunction& on_event, int prompts) {
  Sha256Names sha256 = Sha256Names::create().value();
  PagePool pool = PagePool::create({.num_pages = 4096,
                                    .page_size = 16,
                                    .max_sequences = 2,
                                    .name = sha256.function(),
                                    .event_capacity = 16,
                                    .on_event = on_event})
                      .value();
  std::vector<TokenId> prompt(64 * 16);
  double seconds = 0;
  for (int i = 0; i < prompts; ++i) {
    for (size_t t = 0; t < prompt.size(); ++t)
      prompt[t] = static_cast<TokenId>((static_cast<size_t>(i) * 7919 + t * 31) % 128'000);
    const double start = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    const SequenceId id = pool.admit(prompt).value().id;
    pool.reserve(id, static_cast<int32_t>(prompt.size())).or_throw();
    pool.commit(id, prompt).or_throw();
    pool.release(id).or_throw();
    seconds += seconds_of(CLOCK_THREAD_CPUTIME_ID) - start;
  }
  return seconds / (64.0 * prompts);
}

int measure() {
  constexpr int turns = 7, prompts = 500;
  std::vector<double> without, with, rates;
  for (int turn = 0; turn < turns; ++turn) {
    without.push_back(fill({}, prompts));
    EventPublisher publisher = EventPublisher::create({.endpoint = "tcp://127.0.0.1:*",
                                                       .replay_endpoint = "tcp://127.0.0.1:*",
                                                       .max_queued_events = 1 << 18})
                                   .value();
    const auto others = [] {
      return seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID);
    };
    const double start = others();
    with.push_back(fill(publisher.add_pool().value(), prompts));
    publisher.flush();
    // Each page is stored, and all but the last 4,096 are removed.
    constexpr int64_t events = 2 * 64 * prompts - 4096;
    while (publisher.figures().published_events + publisher.figures().dropped_events < events)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const EventPublisherFigures figures = publisher.figures();
    rates.push_back(static_cast<double>(figures.published_events) / (others() - start));
    if (figures.dropped_events != 0) std::printf("dropped\n");
  }
  for (std::vector<double>* all : {&without, &with, &rates}) std::sort(all->begin(), all->end());
  std::printf(
      "%.0f ns a page without a publisher, %.0f with one; %.0f events a second of the publisher's "
      "threads\n",
      without[turns / 2] * 1e9, with[turns / 2] * 1e9, rates[turns / 2]);
  return 0;
}

}  // namespace
}  // namespace folio

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 3 && arguments[0] == "publish")
    return folio::publish(arguments[1], arguments[2]);
  if (arguments.size() == 4 && arguments[0] == "follow")
    return folio::follow(arguments[1], arguments[2], std::atoll(arguments[3].c_str()));
  if (arguments.size() == 1 && arguments[0] == "measure") return folio::measure();
  std::fprintf(stderr,
               "usage: event_program publish FORMAT NAMES | follow ENDPOINT REPLAY COUNT | "
               "measure\n");
  return 2;
}
