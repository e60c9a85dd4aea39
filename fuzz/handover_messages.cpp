// SPDX-License-Identifier: Apache-2.0
/// fuzz/handover_messages.cpp: whatever bytes a peer of a handover sends, a message is whole or
/// none, says the same when it is encoded again, and groups that pass the checks have sizes and
/// entries that are in range.
///
/// Input: a byte that chooses one of some good messages, then bytes of it that are others: a place
/// (2 bytes) and what it has. With 255 as the first byte, all bytes of a message.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "tier/transfer/wire.h"

namespace {

using namespace folio;
using namespace folio::tier;

void require(bool holds) {
  if (!holds) std::abort();
}

GroupLayout group_of(GroupRule rule, int32_t reach, int32_t page_tokens) {
  GroupLayout g{.rule = rule, .page_tokens = page_tokens};
  if (rule == GroupRule::window) g.window = reach, g.sinks = 2;
  if (rule == GroupRule::chunked) g.chunk = reach;
  g.pages = {.num_layers = 5, .page_size = 4, .head_size = 8, .num_heads = 2, .total_heads = 4};
  g.pages.key.dtype = g.pages.value.dtype = DType::bf16;
  if (rule != GroupRule::state) return g;
  g.pages = {.num_layers = 5, .page_size = 1, .num_heads = 2, .total_heads = 4};
  g.pages.order = StorageOrder::head_major;
  g.pages.state_rows = {24, 8};
  return g;
}

/// Of the end that takes the messages.
Layout own_layout() {
  return {.groups = {group_of(GroupRule::full, 0, 4), group_of(GroupRule::window, 9, 4),
                     group_of(GroupRule::chunked, 12, 4), group_of(GroupRule::state, 0, 8)},
          .group_of = {1, 0, 2, 3, 1},
          .shared_crc = std::vector<uint32_t>(5)};
}

void look_at_layout(const Layout& layout) {
  if (!check_layout(layout).is_ok()) return;
  for (size_t layer = 0; layer < layout.num_layers(); ++layer) {
    const GroupLayout& group = layout.of(layer);
    const SlotLayout slot = slot_layout(group.pages, group.pages.num_heads);
    require(slot.bytes >= 0 && slot.bytes <= int64_t{1} << 50);
    for (const int32_t tokens : {1, 40, 1 << 30}) {
      require(group.first_kept(tokens) >= 0 && group.first_kept(tokens) <= tokens);
      require(group.sink_tokens(tokens) >= 0 && group.sink_tokens(tokens) <= tokens);
    }
  }
  const Layout own = own_layout();
  for (const bool is_sender : {false, true}) {
    const Result<Bundles> bundles =
        is_sender ? bundles_of(own, layout, true) : bundles_of(layout, own, true);
    if (!bundles) continue;
    for (size_t layer = 0; layer < own.num_layers(); ++layer)
      if (const Bundle* const bundle = bundles->of_layer(layer); bundle != nullptr)
        require(bundle->heads.count > 0 && bundle->heads.first >= 0 &&
                bundle->heads.first + bundle->heads.count <= 4);
  }
}

void look_at_runs(const AcceptGroups& accept) {
  const Layout own = own_layout();
  const Bundles bundles = bundles_of(own, own, true).value();
  constexpr int32_t tokens = 41;
  if (fault_of(own, accept.runs, tokens) != nullptr) return;
  for (const Bundle& bundle : bundles.all) {
    const std::vector<int32_t> entries = entries_of(own, bundle, accept.runs, tokens);
    require(std::ranges::is_sorted(entries));
    require(std::ranges::adjacent_find(entries) == entries.end());
    size_t pages = 0;
    for (const TokenRun& run : accept.runs)
      pages += run.group == bundle.to ? num_pages(own, run) : 0;
    require(entries.size() == pages);
    for (const int32_t entry : entries) {
      require(entry >= 0 && entry < own.groups[bundle.from].pages_for(tokens));
      require(tokens_of(own.groups[bundle.from], entry, tokens) > 0);
    }
  }
}

template <class Message>
void take(std::span<const std::byte> bytes) {
  const std::optional<Message> message = decode<Message>(bytes);
  if (!message) return;
  require(std::ranges::equal(encode(*message), bytes));
  if constexpr (requires { message->layout; }) look_at_layout(message->layout);
  if constexpr (requires { message->runs; }) look_at_runs(*message);
}

template <class... Messages>
void take_any(std::span<const std::byte> bytes) {
  (take<Messages>(bytes), ...);
}

std::vector<std::vector<std::byte>> good_messages() {
  const Layout own = own_layout();
  Hello hello;
  hello.geometry = own.groups[0].pages;
  Welcome welcome{.is_direct = 1, .places = std::vector<Place>(4)};
  welcome.geometry = own.groups[0].pages;
  return {
      encode(hello),
      encode(Groups{.layout = own}),
      encode(welcome),
      encode(WelcomeGroups{.layout = own, .may_be_direct = 1, .places = std::vector<Place>(20)}),
      encode(Unwelcome{.reason = "no"}),
      encode(Announce{.id = 1, .salt = "s", .spans = {{0, 1, {}}}, .tokens = {1, 2, 3}}),
      encode(Accept{.id = 1, .pages = {1, 2}}),
      encode(AcceptGroups{.id = 1,
                          .runs = {{0, 0, 41}, {1, 0, 4}, {1, 32, 41}, {2, 36, 41}, {3, 40, 41}},
                          .pages = std::vector<uint32_t>(18)}),
      encode(Want{.id = 1, .slots = 2}),
      encode(Slots{.id = 1, .slots = {1, 2}}),
      encode(Landed{.id = 1, .layer = 3, .pieces = {{.page = 5}}}),
      encode(Done{.id = 1, .output = {1, 2}}),
      encode(Committed{.id = 1}),
      encode(Abort{.id = 1, .reason = "because"}),
      encode(Ended{.id = 1}),
      encode(Computing{.id = 1})};
}

std::vector<std::byte> message_of(std::span<const uint8_t> data) {
  static const std::vector<std::vector<std::byte>> good = good_messages();
  if (data[0] == 255) {
    std::vector<std::byte> bytes(sizeof(wire_magic) + data.size() - 1);
    std::memcpy(bytes.data(), &wire_magic, sizeof(wire_magic));
    std::ranges::copy(std::as_bytes(data.subspan(1)), bytes.begin() + sizeof(wire_magic));
    return bytes;
  }
  std::vector<std::byte> bytes = good[data[0] % good.size()];
  for (size_t i = 1; i + 3 <= data.size(); i += 3)
    bytes[static_cast<size_t>(data[i] << 8 | data[i + 1]) % bytes.size()] = std::byte{data[i + 2]};
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::vector<std::byte> bytes = message_of({data, size});
  take_any<Hello, Groups, Welcome, WelcomeGroups, Unwelcome, Announce, Accept, AcceptGroups, Want,
           Slots, Landed, Done, Committed, Abort, Ended, Computing>(bytes);
  return 0;
}
