// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/groups_errors_test.cpp: groups that are none of an end's pool, and ends
/// whose groups do not go together: refused with the reason, and nothing held.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "folio/tier/device_copies.h"
#include "tier/transfer/group_handovers.h"

namespace folio::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// ---- Of one end

class GroupErrors : public GroupHandovers {
 protected:
  /// Of a sender and of a receiver.
  void expect(auto change, const char* reason, Errc code = Errc::invalid_argument) {
    GroupEnd at(mixed_end(), transport());
    TransferEnd end = at.end();
    std::vector<tier::GroupOfTransfer> groups = at.groups;
    change(end, groups);
    if (end.groups.data() == at.groups.data()) end.groups = groups;
    const Status sender = HandoverSender::create({.end = end}).error();
    EXPECT_EQ(sender.code(), code) << reason;
    EXPECT_THAT(std::string(sender.message()),
                AllOf(HasSubstr("HandoverSender::create: "), HasSubstr(reason)));
    const Status receiver = HandoverReceiver::create({.end = end}).error();
    EXPECT_EQ(receiver.code(), code) << reason;
    EXPECT_THAT(std::string(receiver.message()),
                AllOf(HasSubstr("HandoverReceiver::create: "), HasSubstr(reason)));
  }
};

using Groups = std::vector<tier::GroupOfTransfer>;

TEST_F(GroupErrors, name_what_is_wrong_with_groups) {
  expect([](TransferEnd& end, Groups&) { end.groups = {}; }, "end.pool is one of several groups");
  expect([](TransferEnd&, Groups& groups) { groups.pop_back(); },
         "groups has 3 elements, expected 4");
  expect([](TransferEnd& end, Groups& groups) { end.planes = groups[0].pages.planes; },
         "end.planes, end.first_head or end.total_heads are given");
  expect([](TransferEnd& end, Groups&) { end.first_head = 1; }, "expected them in end.groups");
  expect(
      [](TransferEnd& end, Groups&) {
        end.groups = {static_cast<const tier::GroupOfTransfer*>(nullptr), 4};
      },
      "end.groups is null");
  expect([](TransferEnd&, Groups& groups) { std::swap(groups[1].pages, groups[3].pages); },
         "expected planes");
  static constexpr int32_t twice[] = {0, 2};
  expect([](TransferEnd&, Groups& groups) { groups[1].pages.layers = twice; },
         "each of the model's in one group");
  expect([](TransferEnd&, Groups& groups) { groups[1].pages.layers = {}; },
         "groups[1].layers has 0 numbers, expected 2");
  expect([](TransferEnd& end, Groups&) { end.regions = {}; }, "lies in no region");
  expect([](TransferEnd&, Groups& groups) { groups[1].first_head = 1; },
         "end.groups[1].first_head is 1, expected 0 .. 0");
  expect([](TransferEnd&, Groups& groups) { groups[3].total_heads = 1; },
         "total_heads of group 3 is 1, expected 2 ..");
}
TEST_F(GroupErrors, name_what_is_wrong_with_planes_and_states) {
  std::vector<KVPlanes> planes;
  expect(
      [&](TransferEnd&, Groups& groups) {
        planes.assign(groups[1].pages.planes.begin(), groups[1].pages.planes.end());
        planes[1].value.num_heads = 1;
        groups[1].pages.planes = planes;
      },
      "end.groups[1].planes[1] differs from planes[0]", Errc::unsupported);
  static constexpr int64_t five[] = {1, 1, 1, 1, 1}, none[] = {0}, odd[] = {24, 9};
  for (const std::span<const int64_t> parts :
       {std::span<const int64_t>(five), std::span<const int64_t>(none)})
    expect([&](TransferEnd&, Groups& groups) { groups[3].state_parts = parts; },
           "end.groups[3].state_parts has other parts than 1 .. 4");
  expect([](TransferEnd&, Groups& groups) { groups[3].state_parts = odd; },
         "end.groups[3].state_parts are 33 bytes for a head, expected a divisor of the state's 64");
  GroupEnd jamba(jamba_end(), transport());
  std::vector<tier::StatePages> states = jamba.states[1];
  states[2].bytes = 8;
  std::vector<tier::GroupOfTransfer> groups = jamba.groups;
  groups[1].pages.states = states;
  TransferEnd end = jamba.end();
  end.groups = groups;
  const Status s = HandoverSender::create({.end = end}).error();
  EXPECT_EQ(s.code(), Errc::unsupported);
  EXPECT_THAT(std::string(s.message()), HasSubstr("end.groups[1] has states of 64 and 8 bytes"));
}

/// A device that nobody asks for anything.
class NoCopies final : public DeviceCopies {
 public:
  Result<std::byte*> allocate(int64_t) noexcept override { return fail(Errc::device, "no memory"); }
  void release(std::byte*) noexcept override {}
  Status copy(CopyDirection, std::span<const DeviceCopy>) noexcept override {
    return fail(Errc::device, "no copies");
  }
};

TEST_F(GroupErrors, refuse_pages_in_a_devices_memory) {
  expect([](TransferEnd& end, Groups&) { end.device = std::make_shared<NoCopies>(); },
         "end.device is given, expected pages in the host's memory", Errc::unsupported);
  End plain({}, transport());
  TransferEnd end = plain.end();
  end.device = std::make_shared<NoCopies>();
  EXPECT_EQ(HandoverSender::create({.end = end}).error().code(), Errc::unsupported);
}

// ---- Of two

TEST_F(GroupHandovers, are_refused_where_rules_differ_naming_layer_groups_and_both_values) {
  GroupEndSpec other = gemma_end();
  other.groups[1].rule.window = 10;
  EXPECT_THAT(refusal_of(gemma_end(), other),
              HasSubstr("layer 0 (group 1 of the sender, 1 of the receiver): window is 9, expected "
                        "the receiver's 10"));
  other = mixed_end(), other.groups[1].rule.sinks = 2;
  EXPECT_THAT(refusal_of(mixed_end(), other), HasSubstr("sinks is 3, expected the receiver's 2"));
  other = llama_4_end(), other.groups[1].rule.chunk = 16;
  EXPECT_THAT(refusal_of(llama_4_end(), other),
              HasSubstr("chunk is 12, expected the receiver's 16"));
  other = llama_4_end(), other.groups[1].rule = window_rule(12);
  EXPECT_THAT(refusal_of(llama_4_end(), other), HasSubstr("layer 0 (group 1 of the sender, 1 of"));
  other = gemma_end(), other.groups[0].layers = {4}, other.groups[1].layers = {0, 1, 2, 3, 5};
  EXPECT_THAT(
      refusal_of(gemma_end(), other),
      HasSubstr("layer 4 (group 1 of the sender, 0 of the receiver): rule is window, expected "
                "the receiver's full"));
}
TEST_F(GroupHandovers, are_refused_where_layers_differ) {
  GroupEndSpec other = gemma_end();
  other.groups[1].layers = {0, 1, 2, 3}, other.groups[0].layers = {4};
  EXPECT_THAT(refusal_of(gemma_end(), other),
              HasSubstr("num_layers is 6, expected the receiver's 5"));
  other = gemma_end(), other.model = 2;
  EXPECT_THAT(refusal_of(gemma_end(), other), HasSubstr("the models of the two ends differ"));
  other = mamba_end(), other.model = 2;
  EXPECT_THAT(refusal_of(mamba_end(), other), HasSubstr("the models of the two ends differ"));
  other = gemma_end(), other.groups[1].head_size = 16;
  EXPECT_THAT(refusal_of(gemma_end(), other),
              HasSubstr("layer 0 (group 1 of the sender, 1 of the receiver): head_size is 8, "
                        "expected the receiver's 16"));
  other = gemma_end(), other.groups[0].total_heads = 4;
  EXPECT_THAT(refusal_of(gemma_end(), other),
              HasSubstr("layer 5 (group 0 of the sender, 0 of the receiver): total_heads is 2"));
  other = jamba_end(), other.groups[1].state_parts = {16, 16};
  EXPECT_THAT(refusal_of(jamba_end(), other),
              HasSubstr("part 0 of a state has 24 bytes for a head, expected the receiver's 16"));
  other = jamba_end(), other.groups[1].total_heads = 4;
  EXPECT_THAT(refusal_of(jamba_end(), other),
              HasSubstr("total_heads is 2, expected the receiver's 4"));
  GroupEndSpec lower = gemma_end();
  for (GroupSpec& group : lower.groups) group.total_heads = 4;
  GroupEndSpec upper = lower;
  for (GroupSpec& group : upper.groups) group.first_head = 2;
  EXPECT_THAT(refusal_of(lower, upper), HasSubstr("no heads that the receiver has"));
}

TEST_F(GroupHandovers, do_not_come_from_ends_without_groups_nor_go_to_them) {
  GroupEndSpec one = gpt_oss_end();
  one.groups = {one.groups[0]}, one.groups[0].layers = {0, 1, 2};
  GroupPrefillEnd with(one, transport());
  GroupDecodeEnd to_with(one, transport());
  PrefillEnd without({}, transport());
  DecodeEnd to_without({}, transport());
  const Tokens tokens{1, 2, 3};
  const auto outcome = [&](HandoverSender& sender, HandoverReceiver& receiver) {
    for (int i = 0; i < 6; ++i) sender.poll(0), receiver.poll(0);
    HandoverEnd end[1];
    EXPECT_EQ(sender.take_ends(end), 1U);
    EXPECT_EQ(end[0].outcome, HandoverOutcome::refused);
    return std::string(end[0].reason.message());
  };
  const SequenceId a = with.pool.admit(tokens)->id;
  const PeerId plain = with.transport->connect(to_without.transport->address().value()).value();
  static_cast<void>(with.sender.begin(plain, 1, a, tokens).value());
  EXPECT_THAT(outcome(with.sender, to_without.receiver),
              HasSubstr("the sender has version 2, expected 1: TransferEnd::groups"));
  const SequenceId b = without.pool.admit(tokens)->id;
  const PeerId groups = without.transport->connect(to_with.transport->address().value()).value();
  static_cast<void>(without.sender.begin(groups, 1, b, tokens).value());
  EXPECT_THAT(outcome(without.sender, to_with.receiver),
              HasSubstr("the sender has version 1, expected 2: TransferEnd::groups"));
}

}  // namespace
}  // namespace folio::test
