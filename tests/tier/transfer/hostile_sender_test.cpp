// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/hostile_sender_test.cpp: senders that greet and announce as no sender does.
#include "tier/transfer/hostile_sender.h"

#include <cstring>
#include <limits>

namespace folio::test {
namespace {

using namespace tier;
using ::testing::HasSubstr;

TEST_F(HostileSender, says_no_hello) {
  peer.send(Announce{.id = 1, .tokens = tokens});
  poll();
  EXPECT_EQ(to.receiver.figures().refused_messages, 1);
  EXPECT_EQ(to.receiver.figures().announced, 0);
}

TEST_F(HostileSender, sends_what_is_no_message) {
  greet();
  static_cast<void>(open(1));
  peer.send_bytes(bytes_of("x"));
  poll();
  EXPECT_EQ(to.receiver.figures().refused_messages, 1);
  EXPECT_TRUE(peer.is_cut_off());
  EXPECT_EQ(to.receiver.figures().sequences, 0);
  EXPECT_EQ(to.receiver.figures().pinned_pages, 3) << "a write may be under way";
}

TEST_F(HostileSender, cuts_or_lengthens_messages) {
  Hello hello;
  hello.geometry = geometry;
  const std::vector<std::byte> messages[] = {
      encode(hello),
      encode(Announce{.id = 1, .salt = "s", .spans = {{0, 1, {}}}, .tokens = tokens}),
      encode(Want{.id = 1, .slots = 2}),
      encode(Landed{.id = 1, .layer = 0, .pieces = {{}}}),
      encode(Done{.id = 1, .output = tokens}),
      encode(Ended{.id = 1})};
  for (const std::vector<std::byte>& whole : messages) {
    for (size_t size = 1; size <= whole.size() + 1; ++size) {
      if (size == whole.size()) continue;
      Peer other(network, *to.transport);
      std::vector<std::byte> cut = whole;
      cut.resize(size);
      if (kind_of(whole) != Kind::hello) other.send(hello);
      other.send_bytes(cut);
      const int64_t before = to.receiver.figures().refused_messages;
      to.receiver.poll(0);
      EXPECT_EQ(to.receiver.figures().refused_messages, before + 1) << size;
    }
  }
  EXPECT_EQ(to.receiver.figures().announced, 0);
}

TEST_F(HostileSender, says_that_lists_are_longer_than_its_messages) {
  greet();
  std::vector<std::byte> message = encode(Announce{.id = 1, .tokens = tokens});
  const size_t count = message.size() - 40 - sizeof(uint32_t);
  std::memcpy(message.data() + count, &huge, sizeof(huge));
  peer.send_bytes(message);
  poll();
  EXPECT_EQ(to.receiver.figures().refused_messages, 1);
  EXPECT_TRUE(peer.is_cut_off());
}

TEST_F(HostileSender, has_a_geometry_that_is_none) {
  const auto expect = [&](auto change, const char* reason) {
    Peer other(network, *to.transport);
    Hello hello;
    hello.geometry = geometry;
    change(hello.geometry);
    other.send(hello);
    poll();
    EXPECT_THAT(other.receive<Unwelcome>().reason, HasSubstr(reason));
    other.send(Announce{.id = 1, .tokens = tokens});  // what was under way meanwhile
    poll();
  };
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  expect([](Geometry& g) { g.num_layers = 0; }, "num_layers is 0, expected 1 ..");
  expect([](Geometry& g) { g.page_size = most; }, "page_size is 2147483647, expected 1 ..");
  expect([](Geometry& g) { g.head_size = -1; }, "head_size is -1, expected 1 ..");
  expect([](Geometry& g) { g.num_heads = g.total_heads = most; }, "num_heads is 2147483647");
  expect([](Geometry& g) { g.total_heads = 1; }, "total_heads is 1, expected 2 ..");
  expect([](Geometry& g) { g.first_head = most; }, "first_head is 2147483647, expected 0 .. 0");
  expect([](Geometry& g) { g.order = static_cast<StorageOrder>(2); }, "order is 2, expected");
  expect([](Geometry& g) { g.is_mla = 2; }, "is_mla is 2, expected 0 .. 1");
  expect([](Geometry& g) { g.is_mla = 1; }, "value has rows, expected none");
  expect([](Geometry& g) { g.page_size = 1 << 16, g.key.dtype = DType::f32; },
         "staging_slot_bytes");
  EXPECT_EQ(to.receiver.figures().announced, 0);
  EXPECT_EQ(to.receiver.figures().refused_messages, 0);
}

TEST_F(HostileSender, has_rows_that_no_plane_has) {
  const struct {
    RowForm form;
    const char* reason;
  } cases[] = {
      {{.dtype = static_cast<DType>(77)}, "key.dtype is 77, expected"},
      {{.dtype = DType::f8_e8m0}, "key.dtype is 6, expected"},
      {{.dtype = DType::bf16, .scale_kind = static_cast<ScaleKind>(3)}, "key.scale_kind is 3"},
      {{.dtype = DType::bf16, .scale_kind = ScaleKind::slots}, "key.scale_dtype is 0, expected"},
      {{.dtype = DType::i8, .scale_dtype = DType::f32, .scale_kind = ScaleKind::slots},
       "key.granularity is 0, expected 1 or more"},
      {{.dtype = DType::i4}, "key.scale_kind is 0, expected scales (i4)"},
      {{.dtype = DType::q4_0, .scale_dtype = DType::f16, .scale_kind = ScaleKind::slots},
       "key.scale_kind is 1, expected none (q4_0)"},
      {{.dtype = DType::bf16, .zeros = static_cast<Zeros>(4)}, "key.zeros is 4, expected 0 .. 3"},
      {{.dtype = DType::bf16, .zeros = Zeros::patterns}, "key.scale_dtype is 0"},
      {{.dtype = DType::i4,
        .scale_dtype = DType::f16,
        .scale_kind = ScaleKind::slots,
        .zeros = Zeros::patterns,
        .granularity = 8},
       "key.zeros is 1, expected what i4 has beside scales of f16"},
      {{.dtype = DType::u4,
        .scale_dtype = DType::f16,
        .scale_kind = ScaleKind::slots,
        .zeros = Zeros::in_scale,
        .granularity = 8},
       "key.zeros is 3, expected what u4 has beside scales of f16"},
      {{.dtype = DType::bf16, .hadamard = {.block = 24}}, "key.hadamard is of blocks of 24"},
      {{.dtype = DType::bf16, .hadamard = {.block = 64}}, "divides heads of 32"},
      {{.dtype = DType::bf16, .hadamard = {.sign_seed = 7}}, "signs by 7, expected none"},
      {{.dtype = DType::bf16, .has_channel_scales = 2}, "key.has_channel_scales is 2"},
      {{.dtype = DType::bf16, .has_channel_scales = 1}, "key.has_channel_scales differs"},
      {{.dtype = DType::f8_e4m3,
        .scale_dtype = DType::f32,
        .scale_kind = ScaleKind::shared,
        .granularity = 8},
       "key.dtype differs from the receiver's"}};
  for (const auto& [form, reason] : cases) {
    Peer other(network, *to.transport);
    Hello hello;
    hello.geometry = geometry;
    hello.geometry.key = form;
    other.send(hello);
    poll();
    EXPECT_THAT(other.receive<Unwelcome>().reason, HasSubstr(reason));
  }
  EXPECT_EQ(to.receiver.figures().announced, 0);
  EXPECT_EQ(to.receiver.figures().refused_messages, 0);
}

TEST_F(HostileSender, greets_twice_or_is_of_another_version) {
  Hello hello;
  hello.geometry = geometry;
  hello.version = 2;
  Peer other(network, *to.transport);
  other.send(hello);
  poll();
  EXPECT_THAT(other.receive<Unwelcome>().reason, HasSubstr("version 2, expected 1"));
  greet();
  hello.version = 1;
  peer.send(hello);
  poll();
  EXPECT_EQ(to.receiver.figures().refused_messages, 1);
  EXPECT_TRUE(peer.is_cut_off());
}

TEST_F(HostileSender, announces_what_cannot_be) {
  greet();
  uint64_t id = 0;
  const auto expect = [&](Announce announce, const char* reason) {
    announce.id = ++id;
    peer.send(announce);
    poll();
    const Abort abort = peer.receive<Abort>();
    EXPECT_EQ(abort.id, id);
    EXPECT_THAT(abort.reason, HasSubstr(reason));
    EXPECT_EQ(abort.code, static_cast<uint8_t>(AbortCode::refused));
    EXPECT_EQ(to.receiver.figures().handovers, 0);
    EXPECT_EQ(to.pool.stats().used_pages, 0);
  };
  expect({}, "0 tokens, expected 1 ..");
  expect({.tokens = Tokens(200'000, 1)}, "expected");  // 50,000 pages
  expect({.salt = std::string(1000, 's'), .tokens = tokens}, "salt");
  expect({.spans = {{-5, 3, {}}}, .tokens = tokens}, "spans");
  expect({.spans = {{0, std::numeric_limits<int32_t>::max(), {}}}, .tokens = tokens}, "spans");
  peer.send(Announce{.id = id, .tokens = tokens});
  poll();
  EXPECT_EQ(to.receiver.figures().refused_messages, 1) << "an id that it had";
  const Accept accept = open(++id);
  EXPECT_EQ(accept.id, id);
  peer.send(Announce{.id = id + 1, .request = id, .tokens = {1, 2}});
  poll();
  EXPECT_THAT(peer.receive<Abort>().reason, HasSubstr("with other tokens"));
  peer.send(Announce{.id = id + 2, .request = id, .tokens = tokens});
  poll();
  EXPECT_THAT(peer.receive<Abort>().reason, HasSubstr("has a sender of heads 0 .. 1 already"));
  EXPECT_EQ(to.receiver.figures().handovers, 1);
}

}  // namespace
}  // namespace folio::test
