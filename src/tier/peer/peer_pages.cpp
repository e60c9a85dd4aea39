// SPDX-License-Identifier: Apache-2.0
/// tier/peer/peer_pages.cpp: pages that a client loads from a server and stores there.
#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <thread>

#include "tier/peer/peer_medium.h"

namespace folio::inline v1::tier {

Result<Local> PeerMedium::find_local(std::span<Job* const> jobs, Job::Kind kind) {
  Local local;
  bool is_registered = true;
  int64_t bytes = 0;
  for (const Job* const job : jobs) {
    for (const Extent& e : job->extents) {
      const auto run = areas_.run_of(e);
      is_registered &= run.has_value();
      if (run) local.runs.push_back(*run);
      bytes += e.bytes;
    }
  }
  if (is_registered) return local;
  local.copy.resize(static_cast<size_t>(bytes));
  const auto region = transport_->add_region(local.copy);
  if (!region) return region.error();
  local.copy_region = *region;
  local.runs = {{*region, 0, bytes}};
  std::byte* to = local.copy.data();
  if (kind == Job::Kind::store)
    for (const Job* const job : jobs)
      for (const Extent& e : job->extents) {
        std::memcpy(to, e.data, static_cast<size_t>(e.bytes));
        to += e.bytes;
      }
  return local;
}

void PeerMedium::let_go(Local& local) noexcept {
  if (local.copy_region == RegionId{}) return;
  while (transport_->remove_region(local.copy_region).code() == Errc::busy)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

TransferState PeerMedium::move(const TransferRequest& request) {
  const auto id = transport_->post(request);
  if (!id) {
    note(id.error());
    return TransferState::failed;
  }
  TransferState state = TransferState::pending;
  const auto has_ended = [&] {
    state = transport_->poll(*id).value_or(TransferState::failed);
    return state != TransferState::pending;
  };
  if (!wait(has_ended)) {
    // memory is the caller's again when it has ended, and not before: the transport sees to that
    (void)transport_->cancel(*id);
    while (!has_ended()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  (void)transport_->release(*id);
  return state;
}

void PeerMedium::run(std::span<Job* const> jobs) noexcept {
  for (Job* const job : jobs) job->outcome = TierOutcome::failed;
  look();
  try {
    if (jobs.front()->kind == Job::Kind::load) {
      load(jobs);
    } else {
      store(jobs);
    }
  } catch (const std::bad_alloc&) {
    note(fail(Errc::out_of_memory, "PeerTier: no memory"));
  }
}

void PeerMedium::load(std::span<Job* const> jobs) {
  PageMessage want{.kind = PageMessageKind::want};
  std::vector<Job*> asked;
  for (Job* const job : jobs) {
    const std::lock_guard lock(mutex_);
    if (!known_.contains(job->name)) {
      job->outcome = TierOutcome::missing;
      continue;
    }
    asked.push_back(job);
    want.names.push_back(job->name);
  }
  if (asked.empty()) return;
  const auto begun = Clock::now();
  const auto answer = ask(std::move(want), PageMessageKind::lent);
  if (!answer) return note(answer.error());
  const auto& [lent, server] = *answer;
  std::vector<Job*> coming;
  std::vector<PayloadHeader> headers;
  std::vector<RegionRun> remote;
  size_t next = 0, next_run = 0;
  for (size_t i = 0; i < asked.size() && i < lent.answers.size(); ++i) {
    Job& job = *asked[i];
    job.outcome = TierOutcome::missing;
    if (lent.answers[i] != PageAnswer::yes) {
      forget(job.name);
      continue;
    }
    if (next >= lent.headers.size()) break;
    const PayloadHeader& header = lent.headers[next];
    const size_t first_run = next_run;
    int64_t bytes = 0;
    for (; next_run < lent.runs.size() && bytes < header.bytes; ++next_run)
      bytes += std::clamp<int64_t>(lent.runs[next_run].bytes, 0, header.bytes);
    const char* const fault = fault_of(header, job.name, fingerprint_, bytes_of(job.extents));
    const bool is_sound = fault == nullptr && bytes == header.bytes;
    job.outcome = is_sound ? TierOutcome::failed : TierOutcome::corrupt;
    if (is_sound) {
      coming.push_back(&job);
      headers.push_back(header);
      remote.insert(remote.end(), lent.runs.begin() + static_cast<std::ptrdiff_t>(first_run),
                    lent.runs.begin() + static_cast<std::ptrdiff_t>(next_run));
    } else {
      note(fail(Errc::io, "PeerTier: the server's page is {}", fault == nullptr ? "cut" : fault));
    }
    ++next;
  }
  const auto back = encode({.kind = PageMessageKind::returned, .ticket = lent.ticket});
  if (coming.empty()) return void(transport_->send(server, back));
  auto local = find_local(coming, Job::Kind::load);
  if (!local) return note(local.error());
  const TransferState state = move({.direction = TransferDirection::read,
                                    .peer = server,
                                    .local = local->runs,
                                    .remote = remote,
                                    .message = back});
  let_go(*local);
  if (state != TransferState::done) {
    (void)transport_->send(server, back);
    return;
  }
  // behind the lease's end another page may stand there, whole or not
  const bool is_late = Clock::now() - begun > std::chrono::milliseconds(lent.lease_ms);
  const std::byte* from = local->copy.data();
  for (size_t i = 0; i < coming.size(); ++i) {
    Job& job = *coming[i];
    if (local->copy_region != RegionId{})
      for (const Extent& e : job.extents) {
        std::memcpy(e.data, from, static_cast<size_t>(e.bytes));
        from += e.bytes;
      }
    const bool is_whole = crc_of(job.extents) == headers[i].crc;
    job.outcome = is_whole  ? TierOutcome::done
                  : is_late ? TierOutcome::missing
                            : TierOutcome::corrupt;
  }
}

void PeerMedium::store(std::span<Job* const> jobs) {
  PageMessage offer{.kind = PageMessageKind::offer};
  for (const Job* const job : jobs)
    offer.headers.push_back(header_of(job->name, fingerprint_, job->extents));
  const auto answer = ask(std::move(offer), PageMessageKind::room);
  if (!answer) return note(answer.error());
  const auto& [room, server] = *answer;
  std::vector<Job*> going;
  for (size_t i = 0; i < jobs.size() && i < room.answers.size(); ++i) {
    Job& job = *jobs[i];
    const PageAnswer given = room.answers[i];
    job.outcome = given == PageAnswer::there_already ? TierOutcome::done
                  : given == PageAnswer::no          ? TierOutcome::full
                                                     : TierOutcome::failed;
    if (given == PageAnswer::yes) going.push_back(&job);
  }
  if (going.empty()) return;
  if (room.runs.size() != going.size())
    return note(fail(Errc::io, "PeerTier: the server gives room for other pages"));
  auto local = find_local(going, Job::Kind::store);
  if (!local) return note(local.error());
  expect(room.ticket);
  const auto message = encode({.kind = PageMessageKind::stored, .ticket = room.ticket});
  const TransferState state =
      move({.peer = server, .local = local->runs, .remote = room.runs, .message = message});
  let_go(*local);
  if (state != TransferState::done) return unexpect(room.ticket);
  const std::optional<PageMessage> kept = await(room.ticket, server);
  const std::lock_guard lock(mutex_);
  if (!kept || kept->kind != PageMessageKind::kept || kept->answers.size() != going.size()) return;
  for (size_t i = 0; i < going.size(); ++i) {
    if (kept->answers[i] != PageAnswer::yes) continue;
    going[i]->outcome = TierOutcome::done;
    known_.insert(going[i]->name);
  }
}

}  // namespace folio::inline v1::tier
