// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/index_groups_test.cpp: handovers of layers that have an index cache on the
/// pages of K and V: a group of theirs that lies on another one's pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folio/cache/copy.h"
#include "folio/names/sha256_names.h"
#include "folio/tier/transfer.h"
#include "folio/tier/transports.h"
#include "support/indexed_layers.h"

namespace folio::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Main = IndexedLayers::Main;
using IndexTokens = std::vector<TokenId>;

constexpr int32_t main_layers[] = {0, 2}, index_layers[] = {1, 3};

struct IndexEndSpec {
  Main main = Main::latent;
  IndexFormat format = {};
  int32_t page_size = 4;
};

/// Pool, planes and transport.
struct IndexEnd {
  IndexEnd(const IndexEndSpec& of, std::unique_ptr<Transport> over)
      : layers(of.main, of.format, of.page_size, 24),
        transport(std::move(over)),
        names(Sha256Names::create().value()),
        pool(std::move(PagePool::create({.num_pages = 24,
                                         .page_size = of.page_size,
                                         .max_sequences = 8,
                                         .name = names.function(),
                                         .max_io_pins = 64}))
                 .value()) {
    for (const std::span<std::byte> bytes : layers.memory())
      regions.push_back({transport->add_region(bytes).value(), bytes});
    for (size_t i = 0; i < layers.planes().size(); ++i)
      (i % 2 == 0 ? mains : indices).push_back(layers.planes()[i]);
    groups = {{.pages = {.planes = mains, .layers = main_layers}},
              {.pages = {.planes = indices, .layers = index_layers}, .on_pages_of = 0}};
  }
  [[nodiscard]] TransferEnd end() {
    return {.transport = transport.get(),
            .pool = &pool,
            .regions = regions,
            .model = {{7}},
            .name = names.function(),
            .groups = groups};
  }
  [[nodiscard]] int64_t slot_of(SequenceId id, int32_t position) const {
    const int64_t first = pool.row_start(id).value();
    const int32_t size = pool.page_size();
    return int64_t{pool.table().entries[first + position / size]} * size + position % size;
  }
  /// The first token that has not what it should have, or -1.
  [[nodiscard]] int32_t first_wrong(SequenceId id, const IndexTokens& tokens,
                                    ExpectedRows& expected) const {
    for (size_t t = 0; t < tokens.size(); ++t) {
      const auto position = static_cast<int32_t>(t);
      if (layers.bytes_of(slot_of(id, position)) != expected.of(tokens[t], position))
        return position;
    }
    return -1;
  }

  IndexedLayers layers;  ///< outlive the transport, whose peers write to them
  std::unique_ptr<Transport> transport;
  Sha256Names names;
  PagePool pool;
  std::vector<TransferRegion> regions;
  std::vector<KVPlanes> mains, indices;
  std::vector<tier::GroupOfTransfer> groups;
};

class IndexHandovers : public ::testing::Test {
 protected:
  /// Prompts go from one end to another, some of them beginning alike.
  void hand_over(const IndexEndSpec& from, const IndexEndSpec& to, Landing landing) {
    IndexEnd a(from, network_.make_end().value()), b(to, network_.make_end().value());
    HandoverSender sender = HandoverSender::create({.end = a.end()}).value();
    HandoverReceiver receiver =
        HandoverReceiver::create({.end = b.end(), .landing = landing, .staging_slots = 3}).value();
    const PeerId peer = a.transport->connect(b.transport->address().value()).value();
    ExpectedRows expected(to.main, to.format);
    Rng rng(test_seed());
    IndexTokens prompt;
    for (uint64_t request = 1; request <= 4; ++request) {
      for (int i = rng.int_between(1, 12); i > 0; --i) prompt.push_back(rng.int_between(0, 999));
      const SequenceId id = prefill(a, sender, peer, request, prompt);
      HandoverEnd end[1];
      for (int i = 0; i < 400 && sender.take_ends(end) == 0; ++i) sender.poll(0), receiver.poll(0);
      ASSERT_EQ(end[0].outcome, HandoverOutcome::done) << end[0].reason.message();
      ASSERT_NE(end[0].id, HandoverId{}) << receiver.last_fault().message();
      a.pool.release(id).or_throw();
      ReceivedSequence got[1];
      ASSERT_EQ(receiver.take(got), 1U);
      ASSERT_EQ(got[0].tokens, prompt);
      EXPECT_EQ(got[0].cached_tokens > 0, had_pages_);
      EXPECT_EQ(b.first_wrong(got[0].id, prompt, expected), -1) << request;
      had_pages_ = std::ssize(prompt) >= to.page_size;
      b.pool.release(got[0].id).or_throw();
      EXPECT_EQ(a.pool.stats().used_pages + b.pool.stats().used_pages, 0);
      ASSERT_EQ(b.pool.check_invariants().message(), "");
    }
    direct = receiver.figures().direct_pieces;
    staged = receiver.figures().staged_pieces;
    had_pages_ = false;
  }
  /// Why the receiver refuses the sender.
  std::string refusal_of(IndexEnd& a, IndexEnd& b) {
    HandoverSender sender = HandoverSender::create({.end = a.end()}).value();
    HandoverReceiver receiver = HandoverReceiver::create({.end = b.end()}).value();
    const PeerId peer = a.transport->connect(b.transport->address().value()).value();
    const IndexTokens prompt{1, 2, 3};
    const SequenceId id = a.pool.admit(prompt).value().id;
    static_cast<void>(sender.begin(peer, 1, id, prompt).value());
    HandoverEnd end[1];
    for (int i = 0; i < 20 && sender.take_ends(end) == 0; ++i) sender.poll(0), receiver.poll(0);
    EXPECT_EQ(end[0].outcome, HandoverOutcome::refused);
    return std::string(end[0].reason.message());
  }

  InProcessNetwork network_;
  int64_t direct = 0, staged = 0;

 private:
  SequenceId prefill(IndexEnd& a, HandoverSender& sender, PeerId peer, uint64_t request,
                     const IndexTokens& prompt) {
    const Admission admission = a.pool.admit(prompt).value();
    const HandoverId h = sender.begin(peer, request, admission.id, prompt).value();
    const auto size = static_cast<int32_t>(prompt.size());
    const int32_t first = admission.cached_tokens;
    a.pool.reserve(admission.id, size - first).or_throw();
    for (int32_t t = first; t < size; ++t)
      a.layers.write(prompt[static_cast<size_t>(t)], t, a.slot_of(admission.id, t));
    for (int32_t layer = 0; layer < 4; ++layer)
      sender.push(h, layer, first, size - first).or_throw();
    a.pool.commit(admission.id, std::span(prompt).subspan(static_cast<size_t>(first))).or_throw();
    sender.finish(h).or_throw();
    return admission.id;
  }

  bool had_pages_ = false;
};

TEST_F(IndexHandovers, bring_index_keys_straight_into_the_pages_of_their_tokens) {
  for (const Main main : {Main::kv, Main::latent}) {
    for (const IndexFormat& format : index_formats) {
      SCOPED_TRACE(format.name);
      const IndexEndSpec end{main, format, 4};
      ASSERT_NO_FATAL_FAILURE(hand_over(end, end, Landing::direct));
      EXPECT_GT(direct, 0);
      EXPECT_EQ(staged, 0);
    }
  }
}

TEST_F(IndexHandovers, bring_index_keys_by_staging_slots_where_pages_differ) {
  for (const IndexFormat& format : index_formats) {
    SCOPED_TRACE(format.name);
    ASSERT_NO_FATAL_FAILURE(
        hand_over({Main::latent, format, 4}, {Main::latent, format, 6}, Landing::direct));
    EXPECT_GT(staged, 0);
    ASSERT_NO_FATAL_FAILURE(
        hand_over({Main::kv, format, 4}, {Main::kv, format, 4}, Landing::staged));
    EXPECT_EQ(direct, 0);
  }
}

TEST_F(IndexHandovers, are_refused_where_one_end_has_no_index) {
  IndexEnd a({}, network_.make_end().value()), b({}, network_.make_end().value());
  static constexpr int32_t alone[] = {0, 1};
  b.groups.pop_back();
  b.groups[0].pages.layers = alone;
  EXPECT_THAT(refusal_of(a, b), HasSubstr("num_layers is 4, expected the receiver's 2"));
}

TEST_F(IndexHandovers, name_what_is_wrong_with_groups_on_the_pages_of_others) {
  const auto expect = [&](auto change, const char* reason) {
    IndexEnd at({}, network_.make_end().value());
    change(at.groups);
    const TransferEnd end = at.end();
    const Status sender = HandoverSender::create({.end = end}).error(),
                 receiver = HandoverReceiver::create({.end = end}).error();
    EXPECT_EQ(sender.code(), Errc::invalid_argument) << reason;
    EXPECT_THAT(std::string(sender.message()),
                AllOf(HasSubstr("HandoverSender::create: "), HasSubstr(reason)));
    EXPECT_THAT(std::string(receiver.message()), HasSubstr(reason));
  };
  using Groups = std::vector<tier::GroupOfTransfer>;
  expect([](Groups& g) { g[1].on_pages_of = 1; },
         "end.groups[1].on_pages_of is 1, expected one of the 1 groups before");
  expect([](Groups& g) { g[1].on_pages_of = -2; }, "end.groups[1].on_pages_of is -2");
  expect([](Groups& g) { g[1].on_pages_of = -1; }, "groups has 2 elements, expected 1");
  expect([](Groups& g) { std::swap(g[0], g[1]); },
         "end.groups[0].on_pages_of is 0, expected one of the 0 groups before");
  expect([](Groups& g) { g.push_back({.pages = g[1].pages}); }, "end.groups[2].on_pages_of is -1");
  expect([](Groups& g) { g[1].pages.planes = {}; }, "end.groups[1] has no planes");
  expect([](Groups& g) { g[1].pages.layers = {}; }, "end.groups[1] has no planes");
  expect([](Groups& g) { g[0].pages.layers = {}; }, "end.groups[0] has no planes");
  expect(
      [](Groups& g) {
        g[1].pages.planes = {static_cast<const KVPlanes*>(nullptr), 2};
      },
      "end.groups[1] has no planes");
  expect([](Groups& g) { g[1].pages.layers = main_layers; }, "expected these of the pool's only");
  expect([](Groups& g) { g[1].pages.planes = g[0].pages.planes; }, "planes");
}

}  // namespace
}  // namespace folio::test
