// SPDX-License-Identifier: Apache-2.0
/// cli/watch/ending.cpp: handlers that note a signal.
#include "watch/ending.h"

#include <array>
#include <csignal>
#include <cstdlib>

namespace folio::cli {
namespace {

constexpr std::array signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};

volatile std::sig_atomic_t ended_by = 0, wants_stop = 0;
std::array<struct sigaction, signals.size()> before;

void note(int signal) {
  if (signal == SIGTSTP) {
    wants_stop = 1;
  } else if (ended_by == 0) {
    ended_by = signal;
  }
}

}  // namespace

Ending::Ending() {
  ended_by = 0;
  wants_stop = 0;
  struct sigaction caught = {};
  caught.sa_handler = note;  // without SA_RESTART: who waits looks at once
  for (size_t i = 0; i < signals.size(); ++i) {
    ::sigaction(signals[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN) ::sigaction(signals[i], &caught, nullptr);
  }
}

Ending::~Ending() {
  for (size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &before[i], nullptr);
}

int Ending::signal() const { return ended_by; }

bool Ending::take_stop() {
  const bool wanted = wants_stop != 0;
  wants_stop = 0;
  return wanted;
}

void Ending::stop() { std::raise(SIGSTOP); }

void Ending::die(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  std::_Exit(128 + signal);
}

}  // namespace folio::cli
