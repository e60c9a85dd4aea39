// SPDX-License-Identifier: Apache-2.0
/// cli/parts/streams.cpp: text to people, by stdio.
#include "parts/streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

namespace folio::cli {
namespace {

int first_error = 0;  // of standard output

}  // namespace

void prepare_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) (void)::open("/", O_PATH);  // takes the lowest number
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void show(std::string_view text) {
  if (first_error == 0 && std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    first_error = errno;
}

void tell(std::string_view text) { (void)std::fwrite(text.data(), 1, text.size(), stderr); }

void flush_output() {
  if (first_error == 0 && std::fflush(stdout) != 0) first_error = errno;
}

bool is_output_lost() { return first_error != 0; }

Status finish_output() {
  flush_output();
  // Some file systems say only to who closes a file that it had no room.
  const int copy = ::dup(STDOUT_FILENO);
  if (copy >= 0 && ::close(copy) != 0 && first_error == 0) first_error = errno;
  if (first_error == 0) return {};
  return {Errc::io, fmt::format("standard output: cannot write: {}",
                                std::generic_category().message(first_error))};
}

}  // namespace folio::cli
