// SPDX-License-Identifier: Apache-2.0
/// tier/redis/router.cpp: by slot to a node, and on to the next one that it names.
#include "tier/redis/router.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

namespace folio::inline v1::tier::redis {
namespace {

constexpr int most_hops = 5;
constexpr std::chrono::seconds between_lessons{1};

/// CRC16 of XMODEM: polynomial 0x1021, from 0, high bits first.
constexpr std::array<uint16_t, 256> crc16_table = [] {
  std::array<uint16_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x8000) != 0 ? 0x1021 : 0);
    table[byte] = static_cast<uint16_t>(crc);
  }
  return table;
}();

void reset(Command& command) {
  command.answer = Answer::none;
  command.text.clear();
}

template <class T>
bool read_number(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

uint32_t slot_of(std::string_view key) noexcept {
  if (const size_t open = key.find('{'); open != std::string_view::npos) {
    const size_t close = key.find('}', open);
    if (close != std::string_view::npos && close > open + 1)
      key = key.substr(open + 1, close - open - 1);
  }
  uint32_t crc = 0;
  for (const char c : key)
    crc = ((crc << 8) ^ crc16_table[((crc >> 8) ^ static_cast<uint8_t>(c)) & 0xff]) & 0xffff;
  return crc % num_slots;
}

uint32_t Router::node_of(std::string_view key) const noexcept {
  if (!is_cluster_.load(std::memory_order_relaxed)) return 0;
  return node_of_slot_[slot_of(key)].load(std::memory_order_relaxed);
}

void Router::run(std::span<Command> commands) {
  std::vector<Way> open, redirected;
  for (Command& command : commands) {
    command.node = node_of(command.key);
    open.push_back({&command, false});
  }
  for (int hop = 0; hop <= most_hops && !open.empty(); ++hop) {
    std::stable_sort(open.begin(), open.end(),
                     [](const Way& a, const Way& b) { return a.command->node < b.command->node; });
    for (auto first = open.begin(); first != open.end();) {
      const uint32_t node = first->command->node;
      const auto last = std::find_if(first, open.end(),
                                     [&](const Way& way) { return way.command->node != node; });
      send(node, {first, last});
      first = last;
    }
    redirected.clear();
    for (const Way& way : open) {
      if (way.command->answer != Answer::error) continue;
      const Result<Redirection> to = redirection(*way.command);
      if (!to) continue;
      if (!to->asks) {
        is_cluster_ = true;
        node_of_slot_[to->slot] = static_cast<uint16_t>(to->node);
        learn_slots(to->node);
      }
      way.command->node = to->node;
      reset(*way.command);
      redirected.push_back({way.command, to->asks});
    }
    open.swap(redirected);
  }
  for (const Way& way : open) way.command->text = "sent from server to server without an end";
}

void Router::send(uint32_t node, std::span<const Way> ways) {
  std::vector<Command*> commands;
  std::vector<Command> asking(ways.size());
  for (size_t i = 0; i < ways.size(); ++i) {
    if (ways[i].asks) {
      asking[i] = command_of({"ASKING"});
      commands.push_back(&asking[i]);
    }
    commands.push_back(ways[i].command);
  }
  const Status status = exchange(node, commands);
  if (status.is_ok()) return;
  for (const Way& way : ways)
    if (way.command->answer == Answer::none) way.command->text = status.message();
  if (is_cluster_) leave(node);
}

Status Router::exchange(uint32_t node, std::span<Command* const> commands) {
  for (;;) {
    Result<std::unique_ptr<Connection>> connection = nodes_.take(node);
    if (!connection) return connection.error();
    const bool may_be_closed = (*connection)->was_used();
    Status status = (*connection)->exchange(commands);
    if (status.is_ok()) {
      nodes_.give_back(node, std::move(*connection));
      return {};
    }
    const bool is_unanswered =
        std::all_of(commands.begin(), commands.end(),
                    [](const Command* command) { return command->answer == Answer::none; });
    if (may_be_closed && is_unanswered && status.code() != Errc::busy) {
      for (Command* const command : commands) reset(*command);
      nodes_.drop_idle(node);  // all of them may be closed, so the next one is new
      continue;
    }
    nodes_.note_lost(node, status);
    return status;
  }
}

// ---- Clusters

Result<Router::Redirection> Router::redirection(const Command& command) {
  const Status none = fail(Errc::invalid_argument, "no redirection");
  std::string_view text = command.text;
  Redirection to{};
  if (text.starts_with("ASK ")) {
    to.asks = true;
    text.remove_prefix(4);
  } else if (text.starts_with("MOVED ")) {
    text.remove_prefix(6);
  } else {
    return none;
  }
  const size_t blank = text.find(' '), colon = text.rfind(':');
  Address address = nodes_.address(command.node);
  if (blank == std::string_view::npos || colon == std::string_view::npos || colon < blank ||
      !read_number(text.substr(0, blank), to.slot) || to.slot >= num_slots ||
      !read_number(text.substr(colon + 1), address.port) || address.port == 0)
    return none;
  const std::string_view host = text.substr(blank + 1, colon - blank - 1);
  if (!host.empty()) address.host = host;  // none: the one that we know
  if (address.host.empty()) address.host = "127.0.0.1";
  address.path.clear();
  const Result<uint32_t> node = nodes_.number_of(address);
  if (!node) return node.error();
  to.node = *node;
  return to;
}

void Router::leave(uint32_t node) {
  uint32_t other = node;
  for (uint32_t i = 0; i < nodes_.count() && other == node; ++i)
    if (i != node && !nodes_.is_away(i)) other = i;
  if (other == node) return;
  for (std::atomic<uint16_t>& slot : node_of_slot_) {
    auto expected = static_cast<uint16_t>(node);
    slot.compare_exchange_strong(expected, static_cast<uint16_t>(other));
  }
}

void Router::learn_slots(uint32_t node) {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep before = learned_at_.load();
  if (before != 0 && now - before < Clock::duration(between_lessons).count()) return;
  if (!learned_at_.compare_exchange_strong(before, now)) return;  // another thread asks
  Command slots = command_of({"CLUSTER", "SLOTS"});
  Command* const only[] = {&slots};
  if (exchange(node, only).is_ok() && slots.answer == Answer::array) read_slots(*slots.reply, node);
}

/// An array of {first slot, last slot, {host, port, ...}, ...}; what is none of that is left out.
void Router::read_slots(const redisReply& slots, uint32_t node) {
  const auto is = [](const redisReply* reply, int type) {
    return reply != nullptr && reply->type == type;
  };
  for (size_t i = 0; i < slots.elements; ++i) {
    const redisReply* const range = slots.element[i];
    if (!is(range, REDIS_REPLY_ARRAY) || range->elements < 3 ||
        !is(range->element[0], REDIS_REPLY_INTEGER) ||
        !is(range->element[1], REDIS_REPLY_INTEGER) || !is(range->element[2], REDIS_REPLY_ARRAY))
      continue;
    const redisReply* const owner = range->element[2];
    const int64_t first = range->element[0]->integer, last = range->element[1]->integer;
    if (owner->elements < 2 || !is(owner->element[1], REDIS_REPLY_INTEGER) || first < 0 ||
        first > last || last >= int64_t{num_slots} || owner->element[1]->integer < 1 ||
        owner->element[1]->integer > 0xffff)
      continue;
    Address address = nodes_.address(node);
    address.path.clear();
    address.port = static_cast<uint16_t>(owner->element[1]->integer);
    if (is(owner->element[0], REDIS_REPLY_STRING) && owner->element[0]->len != 0)
      address.host.assign(owner->element[0]->str, static_cast<size_t>(owner->element[0]->len));
    if (address.host.empty()) address.host = "127.0.0.1";
    const Result<uint32_t> number = nodes_.number_of(address);
    for (int64_t s = first; number && s <= last; ++s)
      node_of_slot_[static_cast<size_t>(s)] = static_cast<uint16_t>(*number);
  }
}

}  // namespace folio::inline v1::tier::redis
