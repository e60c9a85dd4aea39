// SPDX-License-Identifier: Apache-2.0
/// cli/watch/watch.cpp: looks at an engine until a signal ends it, and what each look shows.
#include "watch/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "parts/output_file.h"
#include "parts/output_place.h"
#include "parts/page.h"
#include "parts/streams.h"
#include "parts/text.h"
#include "watch/ending.h"
#include "watch/page_server.h"
#include "watch/terminal.h"
#include "watch/watch_page.h"
#include "watch/watcher.h"

namespace folio::cli {
namespace {

using std::chrono::milliseconds;

std::string one_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

class Watch {
 public:
  Watch(const WatchOptions& options, Watcher watcher, std::optional<PageServer> server)
      : options_(options),
        is_utf8_(Terminal::is_utf8()),
        is_screen_(Terminal::is_there() && !options.once && !options.json_lines && !options.quiet),
        watcher_(std::move(watcher)),
        server_(std::move(server)) {}

  Status run(Ending& ending) { return options_.once ? run_once(ending) : run_on(ending); }

  /// Behind the last look: what was on the screen stays to be read.
  void close() {
    terminal_.close();
    if (is_screen_) show(screen_of(watched(), Terminal::size().columns, is_utf8_));
  }
  [[nodiscard]] const Watched& watched() const { return watcher_.watched(); }

 private:
  using Clock = Watcher::Clock;

  /// Until `due`, or a signal.
  Status follow(const Ending& ending, Clock::time_point due) {
    constexpr milliseconds most{100};
    while (ending.signal() == 0 && Clock::now() < due) {
      const auto left = std::chrono::ceil<milliseconds>(due - Clock::now());
      if (Status s = watcher_.follow(std::clamp(left, milliseconds(0), most)); !s.is_ok()) return s;
    }
    return {};
  }

  Status run_on(Ending& ending) {
    // The first look is soon, however rare the others are.
    const milliseconds interval(options_.interval_ms),
        first(std::min<int64_t>(options_.interval_ms, 500));
    Clock::time_point due = Clock::now() + first - interval;
    show_all(true);
    while (ending.signal() == 0 && !is_output_lost()) {
      due = std::max(due + interval, Clock::now());
      if (Status s = follow(ending, due); !s.is_ok()) return s;
      watcher_.look(false);
      show_all(false);
      if (!ending.take_stop()) continue;
      terminal_.close();
      Ending::stop();
    }
    return {};
  }

  Status run_once(const Ending& ending) {
    const auto due = Clock::now() + milliseconds(options_.wait_ms);
    constexpr milliseconds step{20};
    while (ending.signal() == 0 && !watcher_.is_complete() && Clock::now() < due)
      if (Status s = follow(ending, std::min(due, Clock::now() + step)); !s.is_ok()) return s;
    watcher_.look(true);
    if (!watcher_.has_something() && ending.signal() == 0) return nobody();
    show_all(false);
    return {};
  }

  [[nodiscard]] Status nobody() const {
    std::string all;
    const auto add = [&](const std::string& place, const std::string& why) {
      if (!place.empty())
        all += fmt::format("{}nobody answers at {}{}", all.empty() ? "" : ", ",
                           printable(shown_place(place), 100), why);
    };
    add(options_.endpoint, "");
    const std::string& fault = watched().metrics.fault;
    add(options_.metrics, fault.empty() ? "" : ": " + fault);
    return {Errc::io, fmt::format("{} (waited {} ms)", all, options_.wait_ms)};
  }
  static std::string shown_place(const std::string& place) {
    return place.starts_with("http") ? shown_url(place) : place;
  }

  /// `is_first`: before anything is known; lines wait until there is something to say.
  void show_all(bool is_first) {
    if (server_) server_->show(one_line(json_of(watched(), true)));
    if (options_.quiet) return;
    if (is_screen_) {
      const Terminal::Size size = Terminal::size();
      terminal_.draw(screen_of(watched(), size.columns, is_utf8_));
    } else if (options_.json_lines) {
      if (!is_first) show(one_line(json_of(watched(), false)) + "\n");
    } else if (options_.once) {
      show(screen_of(watched(), 120, is_utf8_));
    } else if (!is_first) {
      show(line_of(watched()));
    }
    flush_output();
  }

  const WatchOptions& options_;
  bool is_utf8_, is_screen_;
  Watcher watcher_;
  std::optional<PageServer> server_;
  Terminal terminal_;
};

Status check(const WatchOptions& options) {
  if (options.endpoint.empty() && options.metrics.empty())
    return {Errc::invalid_argument, "expected ENDPOINT or --metrics URL, got neither"};
  if (options.endpoint.empty() && !(options.replay.empty() && options.topic.empty()))
    return {Errc::invalid_argument, "--replay and --topic are of ENDPOINT, got none"};
  if (options.once && options.has_page)
    return {Errc::invalid_argument, "--once ends at once, --page goes on: expected one of them"};
  const NamedPath outputs[] = {{"--json", options.json}};
  return check_outputs(outputs, {}, {});
}

/// None where it was not asked for.
Result<std::optional<PageServer>> page_server(const WatchOptions& options) {
  if (!options.has_page) return std::optional<PageServer>();
  if (Status s = can_make_pages("--page"); !s.is_ok()) return s;
  Watched nothing(options);
  nothing.metrics.is_asked = !options.metrics.empty();
  auto server =
      PageServer::start(options.page_port, watch_page(options), one_line(json_of(nothing, true)));
  if (!server) return server.error();
  return std::optional(std::move(*server));
}

}  // namespace

Status watch(const WatchOptions& options) {
  if (Status s = check(options); !s.is_ok()) return s;
  OutputFile file("--json");
  Ending ending;  // before the file, whose signals would end all at once
  if (Status s = file.open(options.json); !s.is_ok()) return s;
  auto server = page_server(options);
  if (!server) return server.error();
  auto watcher = Watcher::create(options);
  if (!watcher) return watcher.error();
  if (const std::optional<PageServer>& page = *server)
    tell(fmt::format("folio watch: the page is at {}\n", page->address()));
  Status status;
  {
    Watch watch(options, std::move(*watcher), std::move(*server));
    status = watch.run(ending);
    watch.close();
    if (status.is_ok()) status = file.write(json_text(json_of(watch.watched(), false)));
  }
  const int signal = ending.signal();
  if (signal == 0 || !status.is_ok()) return status;
  flush_output();
  Ending::die(signal);
}

}  // namespace folio::cli
