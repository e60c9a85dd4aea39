// SPDX-License-Identifier: Apache-2.0
/// cli/tiers/tier_media.cpp: sizes of tiers in payloads, and their factories.
#include "tiers/tier_media.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "folio/core/buffer.h"
#include "folio/tier/disk_tier.h"
#include "folio/tier/host_tier.h"
#include "folio/tier/redis_tier.h"

namespace folio::cli {
namespace {

constexpr int64_t least_segment_bytes = int64_t{1} << 20;
constexpr int64_t usual_segment_bytes = int64_t{256} << 20;
// A segment goes as a whole: more of them follow the order of use more closely.
constexpr int64_t wanted_segments = 64;
constexpr int64_t most_bytes = int64_t{1} << 60;  // that a tier has to count
constexpr int64_t most_names = int64_t{1} << 32;
constexpr int64_t answer_deadline_ms = 5000;
constexpr int64_t usual_payload_bytes = 64;  // of the smallest kind of page, of several

/// The largest page that fits into so many bytes of a file.
int64_t most_payload(int64_t record_bytes) {
  int64_t payload = record_bytes;
  while (disk_record_bytes(payload).value() > record_bytes) --payload;
  return payload;
}

/// What a kind's page takes in a tier.
using RecordBytes = Result<int64_t> (*)(int64_t) noexcept;

/// The kind with the smallest pages of the model: the measure of all others.
const PageKind& smallest(std::span<const PageKind> kinds) {
  return *std::ranges::min_element(kinds, {}, &PageKind::page_bytes);
}

/// A tier's size as it counts it.
struct Room {
  int64_t pages = 0;   ///< of the first kind alone
  int64_t bytes = 0;   ///< of records
  int64_t record = 0;  ///< the largest
};

/// So many bytes of the model. Errors: invalid_argument where they hold fewer than `least` bytes of
/// records, or no page of some kind
Result<Room> room_of(const char* option, int64_t bytes, std::span<const PageKind> kinds,
                     RecordBytes record_of, int64_t least, const char* why) {
  const PageKind& one = smallest(kinds);
  const int64_t record = record_of(one.payload_bytes).value();
  const PageKind& largest = *std::ranges::max_element(kinds, {}, &PageKind::page_bytes);
  Room room{.pages = bytes / kinds.front().page_bytes,
            .record = record_of(largest.payload_bytes).value()};
  const int64_t pages = bytes / one.page_bytes;
  const int64_t least_pages =
      std::max((least + record - 1) / record, (room.record + record - 1) / record);
  if (pages < least_pages)
    return Status(Errc::invalid_argument,
                  fmt::format("{}: {} bytes hold {} pages of {} bytes, expected at least {}: {}",
                              option, bytes, pages, one.page_bytes, least_pages, why));
  if (pages > most_bytes / record)
    return Status(Errc::invalid_argument,
                  fmt::format("{}: {} bytes hold {} pages, too many for payloads of {} bytes each",
                              option, bytes, pages, one.payload_bytes));
  room.bytes = pages * record;
  if (kinds.size() > 1)  // a part of a page is room for others
    room.bytes =
        static_cast<int64_t>(static_cast<double>(bytes) / static_cast<double>(one.page_bytes) *
                             static_cast<double>(record));
  return room;
}

/// Of a tier that cannot be made. What it says names the place, the option names the tier.
Status refusal(const char* option, const Status& s) {
  return {s.code(), fmt::format("{}: {}", option, s.message())};
}

/// One thread, so that pages are stored and used in one order; room for whatever a step may hand
/// over.
TierOptions options_of(int64_t max_bytes, int64_t pages, const Digest256& fingerprint) {
  return {.max_queued_bytes = int64_t{1} << 50,
          .max_queued_pages = static_cast<uint32_t>(std::min(pages, int64_t{UINT32_MAX})),
          .threads = 1,
          .max_bytes = max_bytes,
          .fingerprint = fingerprint};
}

Result<MadeTier> make_host(const TierChoice& choice, const TierTask& task) {
  const auto room = room_of("--host-bytes", choice.host_bytes, task.kinds, host_record_bytes, 1,
                            task.kinds.size() == 1 ? "one page" : "one of the largest kind");
  if (!room) return room.error();
  auto tier = make_host_tier(options_of(room->bytes, task.pages, task.fingerprint));
  if (!tier) return refusal("--host-bytes", tier.error());
  return MadeTier{std::move(*tier), room->pages, "memory", room->bytes};
}

Result<MadeTier> make_disk(const TierChoice& choice, const TierTask& task) {
  int64_t least_segment = least_segment_bytes;
  for (const PageKind& kind : task.kinds)
    least_segment = std::max(least_segment, disk_record_bytes(kind.payload_bytes).value());
  const auto room =
      room_of("--disk-bytes", choice.disk_bytes, task.kinds, disk_record_bytes, 2 * least_segment,
              "two files' worth of payloads, each of at least 1 MiB and one page");
  if (!room) return room.error();
  const int64_t segment = std::clamp(room->bytes / wanted_segments, least_segment,
                                     std::max(least_segment, usual_segment_bytes));
  auto tier = make_disk_tier(choice.disk, options_of(room->bytes, task.pages, task.fingerprint),
                             {.segment_bytes = segment});
  if (!tier) return refusal("--disk", tier.error());
  return MadeTier{std::move(*tier), room->pages, choice.disk, room->bytes};
}

/// One page is looked for that nobody has. Errors: io where no answer comes
Status check_answers(Tier& tier, int64_t payload_bytes) {
  auto memory = Buffer::allocate(payload_bytes);
  if (!memory) return memory.error();
  const Extent extent{memory->data(), memory->bytes()};
  const TierPage page{PageName(), {&extent, 1}};
  const auto ticket = tier.load({&page, 1}, answer_deadline_ms);
  if (!ticket) return ticket.error();
  TierCompletion end;
  while (tier.poll({&end, 1}) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (end.outcome == TierOutcome::missing || end.outcome == TierOutcome::done) return {};
  const Status fault = tier.last_fault();
  return {Errc::io,
          fmt::format("no answer: {}", fault.is_ok() ? name(end.outcome) : fault.message())};
}

/// Pages that nobody has looked for yet are hoped to be there: so those are found that others have
/// stored.
Result<MadeTier> make_redis(const TierChoice& choice, const TierTask& task) {
  Result<Room> room = Room{.bytes = most_bytes};
  if (choice.redis_bytes != 0)
    room = room_of("--redis-bytes", choice.redis_bytes, task.kinds, redis_record_bytes, 1,
                   task.kinds.size() == 1 ? "one page" : "one of the largest kind");
  if (!room) return room.error();
  const TierOptions options = options_of(room->bytes, task.pages, task.fingerprint);
  const RedisOptions redis{.absent_ms = 0, .max_names = most_names};
  {
    // Another one, so that its figures are not those of the replay.
    auto first = make_redis_tier(choice.redis, options, redis);
    if (!first) return refusal("--redis", first.error());
    if (Status s = check_answers(**first, smallest(task.kinds).payload_bytes); !s.is_ok())
      return refusal("--redis", s);
  }
  auto tier = make_redis_tier(choice.redis, options, redis);
  if (!tier) return refusal("--redis", tier.error());
  return MadeTier{std::move(*tier), room->pages, without_login(choice.redis), room->bytes};
}

}  // namespace

void choose_payloads(const TierChoice& choice, std::span<PageKind> kinds) {
  const bool in_files = !choice.disk.empty();
  const RecordBytes record_of = in_files ? disk_record_bytes : host_record_bytes;
  // of a page that is a whole number of blocks
  const int64_t unit = in_files ? disk_record_bytes(1).value() : 1;
  const int64_t header = in_files ? unit - most_payload(unit) : host_record_bytes(1).value() - 1;
  const int64_t wanted = choice.payload_bytes != 0 ? choice.payload_bytes : usual_payload_bytes;
  const int64_t record = record_of(wanted).value();
  if (kinds.size() == 1) {
    kinds.front().payload_bytes = choice.payload_bytes != 0 ? wanted : record - header;
    return;
  }
  const double scale =
      static_cast<double>(record) / static_cast<double>(smallest(kinds).page_bytes);
  for (PageKind& kind : kinds) {
    const double share = static_cast<double>(kind.page_bytes) * scale / static_cast<double>(unit);
    kind.payload_bytes = static_cast<int64_t>(std::llround(share)) * unit - header;
  }
}

Result<MadeTier> make_tier(TierKind kind, const TierChoice& choice, const TierTask& task) {
  switch (kind) {
    case TierKind::host:
      if (choice.host_bytes != 0) return make_host(choice, task);
      break;
    case TierKind::disk:
      if (!choice.disk.empty()) return make_disk(choice, task);
      break;
    case TierKind::redis:
      if (!choice.redis.empty()) return make_redis(choice, task);
      break;
  }
  return MadeTier{};
}

}  // namespace folio::cli
