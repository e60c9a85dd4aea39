// SPDX-License-Identifier: Apache-2.0
/// cli/watch/page_server.h: a page and its data, served to browsers of this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "folio/core/status.h"

namespace folio::cli {

/// Bound to 127.0.0.1. Answers GET and HEAD of `/` and `/data`, and only requests to 127.0.0.1 or
/// localhost: a page of another site whose name was made to mean this machine gets nothing. Threads
/// of its own; `show` may be called by any.
class PageServer {
 public:
  /// Port 0: a free one. `json`: what `/data` answers until `show`. Errors: busy for a port that is
  /// taken; io; unsupported in a build without CivetWeb
  static Result<PageServer> start(int64_t port, std::string page, std::string json);
  PageServer(PageServer&&) noexcept;
  PageServer& operator=(PageServer&&) noexcept;
  /// Answers what has begun, and ends.
  ~PageServer();

  /// What `/data` answers from now on.
  void show(std::string json);
  /// "http://127.0.0.1:8080/"
  [[nodiscard]] const std::string& address() const;

 private:
  struct State;
  explicit PageServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace folio::cli
