// SPDX-License-Identifier: Apache-2.0
/// tier/peer/book_checks.cpp: what transports refuse, in one voice: `Transport::call: argument is
/// X, expected Y`.
#include <algorithm>
#include <limits>
#include <vector>

#include "tier/checks.h"
#include "tier/peer/book.h"

namespace folio::inline v1::tier {
namespace {

constexpr int64_t most = std::numeric_limits<int64_t>::max();

/// No two may share bytes.
Status check_apart(const char* side, std::span<const RegionRun> runs) {
  std::vector<RegionRun> sorted(runs.begin(), runs.end());
  std::sort(sorted.begin(), sorted.end(), [](const RegionRun& a, const RegionRun& b) {
    return a.region != b.region ? a.region < b.region : a.offset < b.offset;
  });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const RegionRun &a = sorted[i - 1], &b = sorted[i];
    if (a.region == b.region && b.offset < a.offset + a.bytes)
      return fail(Errc::invalid_argument,
                  "Transport::post: {} runs at {} and {} of region {} share bytes, which would be "
                  "written twice",
                  side, a.offset, b.offset, a.region.value);
  }
  return {};
}

}  // namespace

int64_t Book::bytes_of(RegionId region) const noexcept {
  const auto found = regions_.find(region);
  return found == regions_.end() ? -1 : found->second.bytes;
}

Status Book::check_peer(const char* call, PeerId peer, std::string_view purpose) const {
  const auto found = peers_.find(peer);
  if (found == peers_.end())
    return fail(Errc::invalid_argument, "Transport::{}: peer is {}, expected the id of a peer",
                call, peer.value);
  if (purpose == "use" && found->second.state == PeerState::lost)
    return fail(Errc::io, "Transport::{}: peer {} is lost", call, peer.value);
  return {};
}

Result<int64_t> Book::check_runs(const char* side, std::span<const RegionRun> runs,
                                 const std::map<RegionId, int64_t>* remote) const {
  if (runs.data() == nullptr || runs.empty() || runs.size() > options_.max_runs)
    return fail(Errc::invalid_argument, "Transport::post: {} has {} runs, expected 1 .. {}", side,
                runs.size(), options_.max_runs);
  int64_t sum = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RegionRun& run = runs[i];
    int64_t bytes = -1;
    if (remote == nullptr) {
      bytes = bytes_of(run.region);
    } else if (const auto found = remote->find(run.region); found != remote->end()) {
      bytes = found->second;
    }
    if (bytes < 0)
      return fail(Errc::invalid_argument,
                  "Transport::post: {} run {} is of region {}, expected the id of one", side, i,
                  run.region.value);
    if (run.bytes < 1 || run.offset < 0 || run.offset > bytes || run.bytes > bytes - run.offset)
      return fail(Errc::invalid_argument,
                  "Transport::post: {} run {} is {} bytes at {}, expected 1 or more within the {} "
                  "of region {}",
                  side, i, run.bytes, run.offset, bytes, run.region.value);
    if (run.bytes > most - sum)
      return fail(Errc::invalid_argument, "Transport::post: {} has more than {} bytes", side, most);
    sum += run.bytes;
  }
  return sum;
}

Status Book::check(const TransferRequest& request) const {
  if (Status s = check_peer("post", request.peer, "use"); !s.is_ok()) return s;
  if (request.direction != TransferDirection::write && request.direction != TransferDirection::read)
    return fail(Errc::invalid_argument, "Transport::post: direction is {}, expected 0 or 1",
                static_cast<int>(request.direction));
  const auto local = check_runs("local", request.local, nullptr);
  if (!local) return local.error();
  const auto remote = check_runs("remote", request.remote, &peers_.at(request.peer).regions);
  if (!remote) return remote.error();
  if (*local != *remote)
    return fail(Errc::invalid_argument,
                "Transport::post: remote has {} bytes, expected {}, as local has", *remote, *local);
  const size_t message_bytes = request.message.size();
  if (message_bytes > static_cast<size_t>(options_.max_message_bytes))
    return fail(Errc::invalid_argument, "Transport::post: message has {} bytes, expected 0 .. {}",
                message_bytes, options_.max_message_bytes);
  if (Status s = check_memory("Transport::post", "message", request.message.data(), message_bytes);
      !s.is_ok())
    return s;
  return request.direction == TransferDirection::read ? check_apart("local", request.local)
                                                      : check_apart("remote", request.remote);
}

Status check_options(const TransportOptions& o) noexcept {
  const auto refuse = [](const char* what, int64_t is, int64_t first, int64_t last) {
    return fail(Errc::invalid_argument, "Transport: {} is {}, expected {} .. {}", what, is, first,
                last);
  };
  constexpr int64_t most_message = int64_t{1} << 30, most_queued = int64_t{1} << 40;
  if (o.max_peers < 1) return refuse("max_peers", o.max_peers, 1, 0xffffffffU);
  if (o.max_transfers < 1) return refuse("max_transfers", o.max_transfers, 1, 0xffffffffU);
  constexpr uint32_t most_runs = 1U << 20;
  if (o.max_runs < 1 || o.max_runs > most_runs) return refuse("max_runs", o.max_runs, 1, most_runs);
  if (o.max_message_bytes < 1 || o.max_message_bytes > most_message)
    return refuse("max_message_bytes", o.max_message_bytes, 1, most_message);
  if (o.max_queued_bytes < o.max_message_bytes || o.max_queued_bytes > most_queued)
    return refuse("max_queued_bytes", o.max_queued_bytes, o.max_message_bytes, most_queued);
  constexpr int64_t most_ms = 86'400'000;
  if (o.timeout_ms < 1 || o.timeout_ms > most_ms)
    return refuse("timeout_ms", o.timeout_ms, 1, most_ms);
  if (o.on_event == nullptr && o.context != nullptr)
    return fail(Errc::invalid_argument,
                "Transport: on_event is null, expected a function, as context is not");
  return {};
}

}  // namespace folio::inline v1::tier
