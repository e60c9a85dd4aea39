// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/book_test.cpp: what peers may do with regions, as the book has it.
#include "tier/peer/book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace folio::test {
namespace {

using ::testing::HasSubstr;

class Books : public ::testing::Test {
 protected:
  Status pin(int64_t offset, int64_t count, RegionId of = {1}) {
    const RegionRun run{of, offset, count};
    return book.pin(peer, {&run, 1}, &memory);
  }

  std::vector<std::byte> bytes = std::vector<std::byte>(100);
  std::vector<Extent> memory;
  tier::Book book{{}, tier::WireKind::in_process, {1}};
  RegionId region = book.add_region(bytes).value();
  PeerId peer =
      book.accepted(tier::encode({.kind = tier::WireKind::in_process, .end = {2}})).value();
};

TEST_F(Books, pin_what_peers_name_inside_of_regions) {
  ASSERT_TRUE(pin(10, 90).is_ok());
  ASSERT_EQ(memory.size(), 1U);
  EXPECT_EQ(memory[0].data, bytes.data() + 10);
  EXPECT_EQ(memory[0].bytes, 90);
  EXPECT_EQ(book.remove_region(region).code(), Errc::busy);
  const RegionRun run{region, 10, 90};
  book.unpin({&run, 1});
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  for (const auto& [offset, count] : {std::pair<int64_t, int64_t>{10, 91},
                                      {0, 0},
                                      {0, -1},
                                      {-1, 1},
                                      {100, 1},
                                      {1, most},
                                      {most, 1},
                                      {most, most}})
    EXPECT_THAT(std::string(pin(offset, count).message()), HasSubstr("of region 1, which has 100"));
  EXPECT_EQ(pin(0, 1, {2}).code(), Errc::invalid_argument);
  EXPECT_TRUE(book.remove_region(region).is_ok()) << "nothing is pinned by what was refused";
}

TEST_F(Books, pin_nothing_for_peers_that_have_been_disconnected) {
  ASSERT_TRUE(pin(0, 100).is_ok());
  ASSERT_TRUE(book.disconnect(peer).is_ok());
  EXPECT_THAT(std::string(pin(0, 100).message()), HasSubstr("has been disconnected"));
  EXPECT_EQ(book.remove_region(region).code(), Errc::busy) << "what it had begun";
  const RegionRun run{region, 0, 100};
  book.unpin({&run, 1});
  EXPECT_TRUE(book.remove_region(region).is_ok());
}

}  // namespace
}  // namespace folio::test
