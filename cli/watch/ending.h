// SPDX-License-Identifier: Apache-2.0
/// cli/watch/ending.h: signals that end a command which would go on for ever, and those that stop
/// it for a while. One object at a time.
#pragma once

namespace folio::cli {

/// SIGINT, SIGTERM, SIGHUP and SIGQUIT are caught while it lives, and SIGTSTP; those that are
/// ignored stay so.
class Ending {
 public:
  Ending();
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending();

  /// The first signal that came to end the command; 0: none.
  [[nodiscard]] int signal() const;
  /// Whether somebody wants the command to stop for a while (Ctrl-Z), once for each time.
  bool take_stop();
  /// Stops; returns when somebody lets it go on.
  static void stop();
  /// Dies of the signal, as if nobody had caught it.
  [[noreturn]] static void die(int signal);
};

}  // namespace folio::cli
