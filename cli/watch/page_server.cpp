// SPDX-License-Identifier: Apache-2.0
/// cli/watch/page_server.cpp: answers by CivetWeb, which looks at no file.
#include "watch/page_server.h"

#include <civetweb.h>
#include <fmt/format.h>
#include <strings.h>

#include <mutex>
#include <string_view>
#include <utility>

#include "parts/text.h"

namespace folio::cli {

using Text = std::shared_ptr<const std::string>;

struct PageServer::State {
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (context != nullptr) mg_stop(context);
  }

  mg_context* context = nullptr;
  std::string address;
  Text page;
  std::mutex mutex;  ///< of what stands below
  Text data;
  std::string fault;  ///< CivetWeb's first one

  Text text_of(std::string_view path) {
    if (path == "/") return page;
    const std::lock_guard lock(mutex);
    return path == "/data" ? data : nullptr;
  }
  static int answer(mg_connection* connection) noexcept;
  static int take_fault(const mg_connection* connection, const char* message) noexcept;
};

namespace {

/// What a browser of this machine asks; with any port, for who forwards one to here.
bool is_of_this_machine(const char* host) {
  if (host == nullptr) return false;
  std::string_view name = host;
  if (const size_t colon = name.rfind(':'); colon != name.npos) {
    if (name.find_first_not_of("0123456789", colon + 1) != name.npos) return false;
    name = name.substr(0, colon);
  }
  return name == "127.0.0.1" || (name.size() == 9 && strncasecmp(name.data(), "localhost", 9) == 0);
}

struct Answer {
  int status = 200;
  const char* reason = "OK";
  const char* type = "text/plain; charset=utf-8";
  std::string_view more = {};  ///< headers, each with its end
};

void send(mg_connection* connection, const Answer& answer, std::string_view text, bool has_body) {
  const std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n"
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
      "Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n{}\r\n",
      answer.status, answer.reason, answer.type, text.size(), answer.more);
  if (mg_write(connection, head.data(), head.size()) <= 0 || !has_body) return;
  mg_write(connection, text.data(), text.size());
}

}  // namespace

/// Every request comes here first, and none goes on to what CivetWeb would do.
int PageServer::State::answer(mg_connection* connection) noexcept {
  try {
    const mg_request_info& request = *mg_get_request_info(connection);
    State& self = *static_cast<State*>(request.user_data);
    const std::string_view method = request.request_method, path = request.local_uri;
    const bool has_body = method != "HEAD";
    Answer answer;
    if (!is_of_this_machine(mg_get_header(connection, "Host"))) {
      answer = {.status = 403, .reason = "Forbidden"};
      send(connection, answer, "Ask for this page by 127.0.0.1 or localhost.\n", has_body);
    } else if (method != "GET" && method != "HEAD") {
      answer = {.status = 405, .reason = "Method Not Allowed", .more = "Allow: GET, HEAD\r\n"};
      send(connection, answer, "GET and HEAD alone.\n", true);
    } else if (const Text text = self.text_of(path)) {
      answer.type = path == "/" ? "text/html; charset=utf-8" : "application/json";
      send(connection, answer, *text, has_body);
    } else {
      answer = {.status = 404, .reason = "Not Found"};
      send(connection, answer, "/ and /data alone.\n", has_body);
    }
    return answer.status;
  } catch (const std::exception&) {  // no memory
    return 500;
  }
}

int PageServer::State::take_fault(const mg_connection* connection, const char* message) noexcept {
  try {
    if (auto* const self = static_cast<State*>(mg_get_user_data(mg_get_context(connection)))) {
      const std::lock_guard lock(self->mutex);
      if (self->fault.empty()) self->fault = message;
    }
  } catch (const std::exception&) {  // then without it
  }
  return 1;  // not to standard error
}

Result<PageServer> PageServer::start(int64_t port, std::string page, std::string json) {
  static const bool is_ready = (mg_init_library(0), true);
  static_cast<void>(is_ready);
  auto state = std::make_unique<State>();
  state->page = std::make_shared<std::string>(std::move(page));
  state->data = std::make_shared<std::string>(std::move(json));
  const std::string place = fmt::format("127.0.0.1:{}", port);
  const char* options[] = {"listening_ports",
                           place.c_str(),
                           "num_threads",
                           "4",
                           "request_timeout_ms",
                           "5000",
                           "enable_keep_alive",
                           "no",
                           "enable_directory_listing",
                           "no",
                           "max_request_size",
                           "16384",
                           nullptr};
  mg_callbacks callbacks = {};
  callbacks.begin_request = &State::answer;
  callbacks.log_message = &State::take_fault;
  mg_context* const context = mg_start(&callbacks, state.get(), options);
  if (context == nullptr) {
    const bool is_taken = state->fault.find("in use") != std::string::npos;
    return Status(is_taken ? Errc::busy : Errc::io,
                  fmt::format("--page: cannot serve at {}: {}", place,
                              is_taken ? "the port is taken" : printable(state->fault, 200)));
  }
  state->context = context;
  mg_server_port ports[1] = {};
  if (mg_get_server_ports(context, 1, ports) == 1) port = ports[0].port;
  state->address = fmt::format("http://127.0.0.1:{}/", port);
  return PageServer(std::move(state));
}

void PageServer::show(std::string json) {
  auto text = std::make_shared<std::string>(std::move(json));
  const std::lock_guard lock(state_->mutex);
  state_->data = std::move(text);
}

PageServer::PageServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
PageServer::PageServer(PageServer&&) noexcept = default;
PageServer& PageServer::operator=(PageServer&&) noexcept = default;
PageServer::~PageServer() = default;
const std::string& PageServer::address() const { return state_->address; }

}  // namespace folio::cli
