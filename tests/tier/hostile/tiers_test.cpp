// SPDX-License-Identifier: Apache-2.0
/// tests/tier/hostile/tiers_test.cpp: callers who give a tier, of any kind, what it cannot use.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <vector>

#include "folio/tier/disk_tier.h"
#include "folio/tier/host_pages.h"
#include "folio/tier/host_tier.h"
#include "folio/tier/redis_tier.h"
#include "support/temporary_folder.h"
#include "tier/hostile/refusals.h"
#include "tier/peer/page_server_helpers.h"

namespace folio::test {
namespace {

constexpr int64_t most_of_a_page = int64_t{1} << 40;

/// Where tiers of all kinds have their pages.
struct World {
  World() : server(kind, {.max_bytes = 8 * page_bytes, .page_bytes = page_bytes}) {}
  InProcessNetwork network;
  TransportKind kind{"in_process",
                     [this](const TransportOptions& o) { return network.make_end(o); }};
  Server server;
  TemporaryFolder folder;
};

struct TierKind {
  const char* name;
  Result<std::unique_ptr<Tier>> (*make)(World& world, const TierOptions& options);
  bool works = true;  ///< there is what keeps its pages
};
void PrintTo(const TierKind& kind, std::ostream* out) { *out << kind.name; }

const TierKind tier_kinds[] = {
    {"host", [](World&, const TierOptions& o) { return make_host_tier(o); }},
    {"host_slab",
     [](World&, const TierOptions& o) -> Result<std::unique_ptr<Tier>> {
       TierOptions reserved = o;  // so much of the address space
       reserved.max_bytes = std::min(o.max_bytes, int64_t{64} << 20);
       auto made = tier::make_host_tier(reserved, 4096);
       if (!made) return made.error();
       return std::unique_ptr<Tier>(std::move(*made));
     }},
    {"disk",
     [](World& world, const TierOptions& o) {
       return make_disk_tier(world.folder.path("pages"), o, {.segment_bytes = 1 << 20});
     }},
    {"peer",
     [](World& world, const TierOptions& o) {
       return make_peer_tier(world.kind.make({}).value(), world.server.address(), o);
     }},
#ifdef FOLIO_HAS_REDIS_TIER
    {"redis",
     [](World& world, const TierOptions& o) {
       const std::string socket = world.folder.path("nobody");
       return make_redis_tier({.socket = socket}, o);
     },
     false},
#endif
};

class EveryTier : public ::testing::TestWithParam<TierKind> {
 protected:
  World world_;
  std::unique_ptr<Tier> tier_ = GetParam().make(world_, {.max_bytes = 64 << 20}).value();
  std::byte bytes_[64] = {};

  [[nodiscard]] TierPage page(std::span<const Extent> extents) const {
    return {name_of(1), extents};
  }
  /// Of a load and of a store.
  void expect_refusals(std::span<const TierPage> pages, const char* part) {
    expect_refusal(tier_->load(pages, 0), part);
    expect_refusal(tier_->load(pages, 0, LoadOrder::extents), part);
    expect_refusal(tier_->store(pages), part);
  }
  /// What is stored now comes back, and nothing else is under way.
  void expect_at_work() {
    EXPECT_EQ(tier_->figures().queued_pages, 0);
    EXPECT_EQ(tier_->figures().queued_bytes, 0);
    if (!GetParam().works) return;
    PageMemory page({100, 33});
    page.fill(7);
    const std::vector<std::byte> bytes = page.memory();
    ASSERT_EQ(store(*tier_, name_of(99), page), TierOutcome::done);
    page.fill(8);
    ASSERT_EQ(load(*tier_, name_of(99), page), TierOutcome::done);
    EXPECT_EQ(page.memory(), bytes);
    EXPECT_EQ(tier_->figures().queued_pages, 0);
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, EveryTier, ::testing::ValuesIn(tier_kinds),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(EveryTier, refuses_runs_that_cannot_be) {
  expect_refusals({}, "pages are 0, expected 1 or more");
  expect_refusals(null_span<const TierPage>(), "pages are 3, expected 1 or more");
  const TierPage none[] = {page({})}, null[] = {page(null_span<const Extent>())};
  expect_refusals(none, "page 0 has no extents");
  expect_refusals(null, "page 0 has no extents");
  const Extent good{bytes_, 8};
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, least_int64, most_int64, most_of_a_page}) {
    const Extent extents[] = {good, {bytes_ + 8, bytes}};
    const TierPage pages[] = {page({&good, 1}), page(extents)};
    expect_refusals(pages, "extent 1 of page 1 has ");
  }
  const Extent longer[] = {{bytes_, 64}, {bytes_, -8}};
  const TierPage less[] = {page(longer)};
  expect_refusals(less, "extent 1 of page 0 has -8 bytes, expected 1 .. ");
  const Extent nowhere[] = {good, {nullptr, 8}};
  const TierPage nowhere_page[] = {page(nowhere)};
  expect_refusals(nowhere_page, "extent 1 of page 0 is null");
  const Extent last{reinterpret_cast<std::byte*>(UINTPTR_MAX - 3), 8};
  const TierPage behind[] = {page({&last, 1})};
  expect_refusals(behind, "extent 0 of page 0 has 8 bytes, expected none behind the last address");
  expect_at_work();
}

TEST_P(EveryTier, refuses_loads_that_would_write_a_byte_twice) {
  const Extent twice[] = {{bytes_, 8}, {bytes_, 8}}, within[] = {{bytes_, 32}, {bytes_ + 31, 8}};
  const Extent front{bytes_, 9}, back{bytes_ + 8, 8};
  const TierPage same[] = {page(twice)}, overlapping[] = {page(within)},
                 two[] = {page({&front, 1}), page({&back, 1})};
  expect_refusal(tier_->load(same, 0), "Tier::load: pages 0 and 0 share bytes");
  expect_refusal(tier_->load(overlapping, 0), "Tier::load: pages 0 and 0 share bytes");
  expect_refusal(tier_->load(two, 0), "Tier::load: pages 0 and 1 share bytes");
  ASSERT_TRUE(tier_->store(same)) << "what is read may be read twice";
  EXPECT_EQ(wait_for(*tier_, 1).front().outcome == TierOutcome::done, GetParam().works);
  expect_at_work();
}

TEST_P(EveryTier, refuses_deadlines_and_orders_that_cannot_be) {
  const Extent good{bytes_, 8};
  const TierPage pages[] = {page({&good, 1})};
  for (const int64_t ms : {int64_t{-1}, least_int64, most_int64, (int64_t{1} << 40) + 1})
    expect_refusal(tier_->load(pages, ms), "deadline_ms is " + std::to_string(ms) + ", expected 0");
  for (const int order : {2, 255})
    expect_refusal(tier_->load(pages, 0, static_cast<LoadOrder>(order)),
                   "order is " + std::to_string(order) + ", expected pages or extents");
  expect_at_work();
}

TEST_P(EveryTier, bears_tickets_of_others_and_of_calls_that_have_ended) {
  const Extent good{bytes_, 8};
  const TierPage pages[] = {page({&good, 1})};
  const TierTicket ended = tier_->store(pages).value();
  EXPECT_EQ(wait_for(*tier_, 1).front().ticket, ended);
  for (const TierTicket ticket : {ended, TierTicket{}, TierTicket{ended.value + 1},
                                  TierTicket{std::numeric_limits<uint64_t>::max()}}) {
    tier_->cancel(ticket);
    EXPECT_EQ(tier_->landed(ticket), 0U);
  }
  EXPECT_EQ(tier_->poll(null_span<TierCompletion>()), 0U);
  ASSERT_TRUE(tier_->store(pages));
  EXPECT_EQ(tier_->poll(null_span<TierCompletion>()), 0U);
  EXPECT_EQ(tier_->poll({}), 0U);
  EXPECT_EQ(wait_for(*tier_, 1).front().page, 0U) << "it was not lost";
  expect_at_work();
}

TEST_P(EveryTier, refuses_names_that_are_nowhere) {
  expect_refusal(tier_->drop(null_span<const PageName>()),
                 "Tier::drop: names is null, expected memory of size 3");
  EXPECT_TRUE(tier_->drop({}).is_ok());
  const PageName unknown[] = {name_of(123'456)};
  EXPECT_TRUE(tier_->drop(unknown).is_ok());
  EXPECT_EQ(tier_->find(null_span<const PageName>()), 0);
  EXPECT_EQ(tier_->find({}), 0);
  uint8_t there[] = {7, 7};
  tier_->find_each(null_span<const PageName>(2), there);
  tier_->find_each(unknown, null_span<uint8_t>(1));
  tier_->find_each(unknown, there);  // more than names
  EXPECT_EQ(there[0] + there[1], 14) << "nothing was written";
  tier_->find_each({}, {});
  expect_refusal(tier_->visit_names(tier::NameVisitor{.function = nullptr, .context = this}),
                 "Tier::visit_names: the function is null");
  EXPECT_TRUE(tier_->last_fault().is_ok() || !GetParam().works);
  expect_at_work();
}

TEST_P(EveryTier, is_not_made_of_options_that_cannot_be) {
  tier_.reset();  // a directory is one tier's
  const auto refuses = [&](const char* part, const auto& change) {
    TierOptions options{.max_bytes = 64 << 20};
    change(options);
    expect_refusal(GetParam().make(world_, options), part);
  };
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, least_int64}) {
    refuses("max_bytes is ", [&](TierOptions& o) { o.max_bytes = bytes; });
    refuses("max_queued_bytes is ", [&](TierOptions& o) { o.max_queued_bytes = bytes; });
  }
  refuses("max_queued_pages is 0", [](TierOptions& o) { o.max_queued_pages = 0; });
  for (const uint32_t threads : {0U, 257U, UINT32_MAX})
    refuses("threads is ", [&](TierOptions& o) { o.threads = threads; });
  refuses("on_completion is null", [&](TierOptions& o) { o.context = this; });
  refuses("on_change.function is null", [&](TierOptions& o) { o.on_change.context = this; });
  tier_ = GetParam()
              .make(world_, {.max_queued_bytes = most_int64,
                             .max_queued_pages = UINT32_MAX,
                             .max_bytes = most_int64})
              .value();
  expect_at_work();
}

/// So many pages that one of them after the other in memory would not do: they lie in the same
/// memory, again and again.
class ManyPages {
 public:
  ManyPages(size_t count, const Extent& extent) : count_(count) {
    const size_t part = 56 * 4096 * 16, parts = (count * sizeof(TierPage) + part - 1) / part;
    bytes_ = parts * part;
    const int file = memfd_create("pages", 0);
    EXPECT_EQ(ftruncate(file, part), 0);
    auto* const at = static_cast<std::byte*>(
        mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t i = 0; i < parts; ++i)
      mmap(at + i * part, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    close(file);
    static_assert(sizeof(TierPage) == 56);
    pages_ = reinterpret_cast<TierPage*>(at);
    for (size_t i = 0; i < part / sizeof(TierPage); ++i)
      std::construct_at(pages_ + i, TierPage{name_of(1), {&extent, 1}});
  }
  ~ManyPages() { munmap(pages_, bytes_); }
  [[nodiscard]] std::span<const TierPage> pages() const { return {pages_, count_}; }

 private:
  size_t count_, bytes_ = 0;
  TierPage* pages_ = nullptr;
};

TEST(HostTier, has_no_room_for_pages_whose_bytes_are_no_number) {
  const auto tier =
      make_host_tier(
          {.max_queued_bytes = most_int64, .max_queued_pages = UINT32_MAX, .max_bytes = 1 << 20})
          .value();
  std::byte byte{};
  const Extent extent{&byte, most_of_a_page};
  const ManyPages all((size_t{1} << 23) + 1, extent);
  PageMemory little({8});
  ASSERT_EQ(store(*tier, name_of(5), little), TierOutcome::done);
  expect_refusal(tier->store(all.pages()), "8388609 pages of 9223372036854775807 bytes",
                 Errc::busy);
  EXPECT_EQ(tier->figures().queued_pages, 0);
}

TEST(TierOutcomes, have_names_whatever_they_are) {
  for (int i = 0; i < num_tier_outcomes; ++i)
    EXPECT_STRNE(name(static_cast<TierOutcome>(i)), "not an outcome");
  EXPECT_STREQ(name(static_cast<TierOutcome>(num_tier_outcomes)), "not an outcome");
  EXPECT_STREQ(name(static_cast<TierOutcome>(255)), "not an outcome");
}

}  // namespace
}  // namespace folio::test
