// SPDX-License-Identifier: Apache-2.0
/// cli/tiers/tier_media.cpp: sizes of tiers in payloads, and their factories.
#include "tiers/tier_media.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
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

/// Pages that so many bytes of the model hold. Errors: invalid_argument where they hold fewer than
/// `least`
Result<int64_t> pages_of(const char* option, int64_t bytes, int64_t page_bytes, int64_t least,
                         const char* why) {
  const int64_t pages = bytes / page_bytes;
  if (pages >= least) return pages;
  return Status(Errc::invalid_argument,
                fmt::format("{}: {} bytes hold {} pages of {} bytes, expected at least {}: {}",
                            option, bytes, pages, page_bytes, least, why));
}

Status too_many(const char* option, int64_t bytes, int64_t pages, const TierChoice& choice) {
  return {Errc::invalid_argument,
          fmt::format("{}: {} bytes hold {} pages, too many for payloads of {} bytes each", option,
                      bytes, pages, choice.payload_bytes)};
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

Result<MadeTier> make_host(const TierChoice& choice, int64_t page_bytes, int64_t queued,
                           const Digest256& fingerprint) {
  const auto pages = pages_of("--host-bytes", choice.host_bytes, page_bytes, 1, "one page");
  if (!pages) return pages.error();
  const int64_t record = host_record_bytes(choice.payload_bytes).value();
  if (*pages > most_bytes / record)
    return too_many("--host-bytes", choice.host_bytes, *pages, choice);
  auto tier = make_host_tier(options_of(*pages * record, queued, fingerprint));
  if (!tier) return refusal("--host-bytes", tier.error());
  return MadeTier{std::move(*tier), *pages, "memory"};
}

Result<MadeTier> make_disk(const TierChoice& choice, int64_t page_bytes, int64_t queued,
                           const Digest256& fingerprint) {
  const int64_t record = disk_record_bytes(choice.payload_bytes).value();
  const int64_t least_segment = std::max(least_segment_bytes, record);
  const auto pages = pages_of("--disk-bytes", choice.disk_bytes, page_bytes,
                              (2 * least_segment + record - 1) / record,
                              "two files' worth of payloads, each of at least 1 MiB and one page");
  if (!pages) return pages.error();
  if (*pages > most_bytes / record)
    return too_many("--disk-bytes", choice.disk_bytes, *pages, choice);
  const int64_t bytes = *pages * record;
  const int64_t segment = std::clamp(bytes / wanted_segments, least_segment,
                                     std::max(least_segment, usual_segment_bytes));
  auto tier = make_disk_tier(choice.disk, options_of(bytes, queued, fingerprint),
                             {.segment_bytes = segment});
  if (!tier) return refusal("--disk", tier.error());
  return MadeTier{std::move(*tier), *pages, choice.disk};
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
Result<MadeTier> make_redis(const TierChoice& choice, int64_t page_bytes, int64_t queued,
                            const Digest256& fingerprint) {
  const int64_t record = redis_record_bytes(choice.payload_bytes).value();
  Result<int64_t> pages = int64_t{0};
  if (choice.redis_bytes != 0)
    pages = pages_of("--redis-bytes", choice.redis_bytes, page_bytes, 1, "one page");
  if (!pages) return pages.error();
  if (*pages > most_bytes / record)
    return too_many("--redis-bytes", choice.redis_bytes, *pages, choice);
  const int64_t bytes = *pages != 0 ? *pages * record : most_bytes;
  const TierOptions options = options_of(bytes, queued, fingerprint);
  const RedisOptions redis{.absent_ms = 0, .max_names = most_names};
  {
    // Another one, so that its figures are not those of the replay.
    auto first = make_redis_tier(choice.redis, options, redis);
    if (!first) return refusal("--redis", first.error());
    if (Status s = check_answers(**first, choice.payload_bytes); !s.is_ok())
      return refusal("--redis", s);
  }
  auto tier = make_redis_tier(choice.redis, options, redis);
  if (!tier) return refusal("--redis", tier.error());
  return MadeTier{std::move(*tier), *pages, without_login(choice.redis)};
}

}  // namespace

Result<MadeTier> make_tier(TierKind kind, const TierChoice& choice, int64_t page_bytes,
                           int64_t pages, const Digest256& fingerprint) {
  switch (kind) {
    case TierKind::host:
      if (choice.host_bytes != 0) return make_host(choice, page_bytes, pages, fingerprint);
      break;
    case TierKind::disk:
      if (!choice.disk.empty()) return make_disk(choice, page_bytes, pages, fingerprint);
      break;
    case TierKind::redis:
      if (!choice.redis.empty()) return make_redis(choice, page_bytes, pages, fingerprint);
      break;
  }
  return MadeTier{};
}

}  // namespace folio::cli
