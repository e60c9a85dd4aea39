// SPDX-License-Identifier: Apache-2.0
/// tier/redis/connection.cpp: both directions at once, until the last answer has come.
#include "tier/redis/connection.h"

#include <algorithm>

namespace folio::inline v1::tier::redis {
namespace {

/// Of an error, the word that says which one it is: what follows may repeat what was sent.
std::string first_word(std::string_view text) {
  return shown(text.substr(0, std::min(text.find(' '), size_t{16})));
}

}  // namespace

std::string shown(std::string_view text) {
  std::string all(text.substr(0, 160));
  for (char& c : all)
    if (c < ' ' || c > '~') c = '?';
  return all;
}

Result<std::unique_ptr<Connection>> Connection::open(const Settings& settings,
                                                     const Address& address,
                                                     const Encryption* encryption) {
  Result<std::unique_ptr<Stream>> stream =
      connect(address, encryption, Clock::now() + settings.connect_timeout);
  if (!stream) return stream.error();
  std::unique_ptr<Connection> connection(new Connection(std::move(*stream), settings));
  if (Status s = connection->log_in(settings); !s.is_ok()) return s;
  return connection;
}

Status Connection::log_in(const Settings& settings) {
  Command login, select;
  std::vector<Command*> commands;
  if (!settings.password.empty()) {
    login = settings.user.empty() ? command_of({"AUTH", settings.password})
                                  : command_of({"AUTH", settings.user, settings.password});
    commands.push_back(&login);
  }
  if (settings.database != 0) {
    select = command_of({"SELECT", std::to_string(settings.database)});
    commands.push_back(&select);
  }
  if (commands.empty()) return {};
  if (Status s = exchange(commands); !s.is_ok()) return s;
  was_used_ = false;
  if (login.answer == Answer::error)
    return fail(Errc::io, "the server refuses the login: {}", first_word(login.text));
  if (select.answer == Answer::error)
    return fail(Errc::io, "the server refuses database {}: {}", settings.database,
                shown(select.text));
  return {};
}

Status Connection::exchange(std::span<Command* const> commands) {
  Sender sender(*stream_, commands);
  receiver_.begin(commands);
  auto deadline = Clock::now() + timeout_;
  // By eighths of the depth: not one by one, and early enough that the server has something to do.
  const size_t group = std::max(depth_ / 8, size_t{1});
  size_t answered = 0;
  while (!receiver_.is_done()) {
    const Result<size_t> got = receiver_.pull();
    if (!got) return got.error();  // may say why nothing could be sent
    if (receiver_.answered() != answered) {
      answered = receiver_.answered();
      deadline = Clock::now() + timeout_;
    } else if (Clock::now() >= deadline) {
      return too_late();
    }
    const size_t last = answered / group * group + depth_;
    const Result<size_t> sent = sender.push(last);
    if (!sent && *got == 0) return sent.error();
    const bool goes_on = receiver_.may_have_more() || (sent && *sent != 0 && !sender.is_done(last));
    if (goes_on || receiver_.is_done()) continue;
    const Until until = sender.is_done(last) ? Until::readable : Until::readable_or_writable;
    if (Status s = stream_->wait(until, deadline); !s.is_ok()) return s;
  }
  was_used_ = true;
  if (!sender.is_done(commands.size()) || receiver_.has_rest())
    return fail(Errc::io, "the server sends more than it was asked for");
  return {};
}

}  // namespace folio::inline v1::tier::redis
