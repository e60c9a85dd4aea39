// SPDX-License-Identifier: Apache-2.0
/// tier/host/host_tier.cpp: host tiers are made, with an arena and without.
#include "folio/tier/host_tier.h"

#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "folio/tier/host_pages.h"
#include "tier/checks.h"
#include "tier/host/host_medium.h"
#include "tier/host/page_arena.h"
#include "tier/queued_tier.h"

namespace folio::inline v1::tier {
namespace {

Status no_memory() { return fail(Errc::out_of_memory, "make_host_tier: no memory"); }

/// What an arena cannot be made of. `room`: of a page with its header.
Status check_arena(const TierOptions& options, int64_t page_bytes, int64_t room) {
  constexpr int64_t most_pages = std::numeric_limits<int32_t>::max();
  if (options.max_bytes < room)
    return fail(Errc::invalid_argument,
                "make_host_tier: options.max_bytes is {}, expected {} or more: a page of {} bytes "
                "and its header",
                options.max_bytes, room, page_bytes);
  if (options.max_bytes / room > most_pages)
    return fail(Errc::invalid_argument,
                "make_host_tier: options.max_bytes is {}, expected at most {}: {} pages of {} "
                "bytes and their headers",
                options.max_bytes, most_pages * room, most_pages, page_bytes);
  if (options.device == nullptr) return {};
  return fail(Errc::invalid_argument,
              "make_host_tier: options.device is given, expected null: pages that are read in "
              "place are the host's");
}

/// The queue over a medium that has an arena, and the way past the queue to what it holds.
class ArenaTier final : public HostTier {
 public:
  ArenaTier(std::unique_ptr<Tier> queue, HostMedium& medium) noexcept
      : queue_(std::move(queue)), medium_(medium) {}

  int32_t find(std::span<const PageName> names) noexcept override { return queue_->find(names); }
  void find_each(std::span<const PageName> names, std::span<uint8_t> there) noexcept override {
    queue_->find_each(names, there);
  }
  Result<TierTicket> load(std::span<const TierPage> pages, int64_t deadline_ms,
                          LoadOrder order) noexcept override {
    return queue_->load(pages, deadline_ms, order);
  }
  uint32_t landed(TierTicket ticket) const noexcept override { return queue_->landed(ticket); }
  Result<TierTicket> store(std::span<const TierPage> pages) noexcept override {
    return queue_->store(pages);
  }
  Status drop(std::span<const PageName> names) noexcept override { return queue_->drop(names); }
  Status visit_names(NameVisitor visitor) noexcept override { return queue_->visit_names(visitor); }
  void cancel(TierTicket ticket) noexcept override { queue_->cancel(ticket); }
  size_t poll(std::span<TierCompletion> completions) noexcept override {
    return queue_->poll(completions);
  }
  TierFigures figures() const noexcept override { return queue_->figures(); }
  Status last_fault() const noexcept override { return queue_->last_fault(); }

  HostSlab slab() const noexcept override {
    const PageArena& arena = medium_.arena();
    return {.data = arena.data(),
            .page_bytes = arena.page_bytes(),
            .page_stride_bytes = arena.page_stride_bytes(),
            .pages = arena.pages()};
  }
  Status hold(std::span<const PageName> names, std::span<int32_t> pages) noexcept override {
    constexpr const char* call = "HostTier::hold";
    if (names.size() != pages.size())
      return fail(Errc::invalid_argument, "{}: pages are {}, expected {}: one for each name", call,
                  pages.size(), names.size());
    if (Status s = check_memory(call, "names", names.data(), names.size()); !s.is_ok()) return s;
    if (Status s = check_memory(call, "pages", pages.data(), pages.size()); !s.is_ok()) return s;
    return medium_.hold(names, pages);
  }
  void give_back(std::span<const int32_t> pages) noexcept override {
    if (pages.data() != nullptr) medium_.give_back(pages);
  }

 private:
  const std::unique_ptr<Tier> queue_;  ///< has the medium
  HostMedium& medium_;
};

}  // namespace

Result<std::unique_ptr<HostMedium>> make_arena_medium(const TierOptions& options,
                                                      int64_t page_bytes) noexcept {
  if (Status s = check_options(options); !s.is_ok()) return s;
  const Result<int64_t> room = host_record_bytes(page_bytes);
  if (!room)
    return fail(Errc::invalid_argument, "make_host_tier: page_bytes is {}, expected 1 .. {}",
                page_bytes, int64_t{1} << 40);
  if (Status s = check_arena(options, page_bytes, *room); !s.is_ok()) return s;
  Result<std::unique_ptr<PageArena>> arena =
      PageArena::reserve(page_bytes, options.max_bytes / *room);
  if (!arena) return arena.error();
  std::unique_ptr<HostMedium> medium(new (std::nothrow) HostMedium(options, std::move(*arena)));
  if (medium == nullptr) return no_memory();
  return medium;
}

Result<std::unique_ptr<HostTier>> make_host_tier(const TierOptions& options,
                                                 int64_t page_bytes) noexcept {
  Result<std::unique_ptr<HostMedium>> medium = make_arena_medium(options, page_bytes);
  if (!medium) return medium.error();
  HostMedium& arena_medium = **medium;
  Result<std::unique_ptr<Tier>> queue = QueuedTier::create(std::move(*medium), options);
  if (!queue) return queue.error();
  std::unique_ptr<HostTier> tier(new (std::nothrow) ArenaTier(std::move(*queue), arena_medium));
  if (tier == nullptr) return no_memory();
  return tier;
}

Result<std::unique_ptr<Tier>> make_host_tier(const TierOptions& options) noexcept {
  std::unique_ptr<Medium> medium = make_host_medium(options);
  if (medium == nullptr) return no_memory();
  return QueuedTier::create(std::move(medium), options);
}

}  // namespace folio::inline v1::tier
