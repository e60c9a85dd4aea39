// SPDX-License-Identifier: Apache-2.0
/// cli/watch/scraper.cpp: looks by libcurl, which goes on in the calls of `poll`.
#include "watch/scraper.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "parts/text.h"

namespace folio::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t most_bytes = size_t{16} << 20;
constexpr long look_ms = 5000, connect_ms = 2000;  // as libcurl takes them

}  // namespace

struct Scraper::State {
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (is_under_way) curl_multi_remove_handle(multi, easy);
    if (easy != nullptr) curl_easy_cleanup(easy);
    if (multi != nullptr) curl_multi_cleanup(multi);
    curl_slist_free_all(headers);
  }

  CURLM* multi = nullptr;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  std::chrono::milliseconds interval{1000};
  Clock::time_point due;
  bool is_under_way = false, is_too_long = false;
  std::string text;
  MetricsReading reading;
  std::string fault;

  Status open(const std::string& url);
  bool end(CURLcode code);
  static size_t take(char* bytes, size_t size, size_t count, void* self) noexcept;
};

Status Scraper::State::open(const std::string& url) {
  static const CURLcode is_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  multi = curl_multi_init();
  easy = curl_easy_init();
  headers = curl_slist_append(nullptr, "Accept: text/plain;version=0.0.4");
  if (is_ready != CURLE_OK || multi == nullptr || easy == nullptr || headers == nullptr)
    return {Errc::io, "--metrics: libcurl cannot be used here"};
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, look_ms);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &State::take);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
  if (curl_easy_setopt(easy, CURLOPT_URL, url.c_str()) == CURLE_OK) return {};
  return {Errc::io, "--metrics: no memory for the URL"};
}

size_t Scraper::State::take(char* bytes, size_t size, size_t count, void* self) noexcept {
  State& state = *static_cast<State*>(self);
  state.is_too_long = state.text.size() + size * count > most_bytes;
  if (state.is_too_long) return 0;
  try {
    state.text.append(bytes, size * count);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return size * count;
}

bool Scraper::State::end(CURLcode code) {
  curl_multi_remove_handle(multi, easy);
  is_under_way = false;
  due = std::max(due + interval, Clock::now());
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  fault.clear();
  if (is_too_long) {
    fault = fmt::format("the answer has more than {} MiB, expected a Prometheus text",
                        most_bytes >> 20);
  } else if (code != CURLE_OK) {
    fault = fmt::format("{}, trying again", curl_easy_strerror(code));
  } else if (status != 200) {
    fault = fmt::format("the server answers with status {}, expected 200", status);
  } else if (Result<MetricsReading> read = read_metrics(text)) {
    reading = std::move(*read);
  } else {
    fault = fmt::format("no Prometheus text: {}", read.error().message());
  }
  text = {};
  return true;
}

Result<Scraper> Scraper::create(const std::string& url, int64_t interval_ms) {
  auto state = std::make_unique<State>();
  if (Status s = state->open(url); !s.is_ok()) return s;
  state->interval = std::chrono::milliseconds(interval_ms);
  state->due = Clock::now();
  return Scraper(std::move(state));
}

bool Scraper::poll() {
  State& s = *state_;
  if (!s.is_under_way) {
    if (Clock::now() < s.due) return false;
    s.is_too_long = false;
    s.is_under_way = curl_multi_add_handle(s.multi, s.easy) == CURLM_OK;
  }
  int running = 0, waiting = 0;
  curl_multi_perform(s.multi, &running);
  while (const CURLMsg* message = curl_multi_info_read(s.multi, &waiting))
    if (message->msg == CURLMSG_DONE) return s.end(message->data.result);
  return false;
}

Scraper::Scraper(std::unique_ptr<State> state) : state_(std::move(state)) {}
Scraper::Scraper(Scraper&&) noexcept = default;
Scraper& Scraper::operator=(Scraper&&) noexcept = default;
Scraper::~Scraper() = default;
const MetricsReading& Scraper::reading() const { return state_->reading; }
const std::string& Scraper::fault() const { return state_->fault; }

}  // namespace folio::cli
