// SPDX-License-Identifier: Apache-2.0
/// tier/peer/peer_tier.cpp: a page server's client: a medium whose calls ask and wait.
///
/// Names that the server has are known from what it told. Messages are received by whoever waits or
/// looks; answers are left under their ticket.
#include "folio/tier/peer_tier.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "tier/medium.h"
#include "tier/peer/page_message.h"
#include "tier/queued_tier.h"

namespace folio::inline v1::tier {
namespace {

using Clock = std::chrono::steady_clock;

/// The runs of some jobs in registered memory: where they lie, or a copy that lies beside them.
struct Local {
  std::vector<RegionRun> runs;
  std::vector<std::byte> copy;
  RegionId copy_region;
};

class PeerMedium final : public Medium {
 public:
  PeerMedium(std::unique_ptr<Transport> transport, std::span<const std::byte> address,
             const TierOptions& options, int64_t timeout_ms)
      : transport_(std::move(transport)),
        address_(address.begin(), address.end()),
        fingerprint_(options.fingerprint),
        timeout_(timeout_ms) {}

  [[nodiscard]] Status open(std::span<const std::span<std::byte>> memory) {
    for (const std::span<std::byte> span : memory) {
      const auto region = transport_->add_region(span);
      if (!region) return region.error();
      regions_.push_back({span, *region});
    }
    const auto peer = transport_->connect(address_);
    if (!peer) return peer.error();
    peer_ = *peer;
    return subscribe();
  }

  bool has(const PageName& name) noexcept override {
    look();
    const std::lock_guard lock(mutex_);
    return known_.contains(name);
  }
  void run(std::span<Job* const> jobs) noexcept override;
  void drop(const PageName& name) noexcept override {
    look();
    try {
      const std::lock_guard lock(mutex_);
      known_.erase(name);
      (void)transport_->send(peer_, encode({.kind = PageMessageKind::drop, .names = {name}}));
    } catch (const std::bad_alloc&) {  // the page stays there
    }
  }
  [[nodiscard]] uint32_t batch() const noexcept override { return 64; }
  void count(TierFigures& figures) const noexcept override {
    const std::lock_guard lock(mutex_);
    figures.pages = static_cast<int64_t>(known_.size());
  }
  [[nodiscard]] Status last_fault() const noexcept override {
    const std::lock_guard lock(mutex_);
    return fault_.is_ok() ? transport_->last_fault() : fault_;
  }

 private:
  struct Area {
    std::span<std::byte> memory;
    RegionId region;
  };

  // Server and messages.
  [[nodiscard]] Status subscribe();
  /// Takes what has come, and looks whether the server is there.
  void look() noexcept;
  void take(const PageMessage& message);
  void reconnect();
  /// Sends and waits for the answer. Errors: io where none comes in time
  [[nodiscard]] Result<PageMessage> ask(PageMessage message, PageMessageKind answer);
  [[nodiscard]] bool wait(const std::function<bool()>& condition) noexcept;
  void note(const Status& fault) noexcept {
    const std::lock_guard lock(mutex_);
    fault_ = fault;
  }
  void forget(const PageName& name) noexcept {
    const std::lock_guard lock(mutex_);
    known_.erase(name);
  }

  // Bytes.
  void load(std::span<Job* const> jobs);
  void store(std::span<Job* const> jobs);
  [[nodiscard]] Result<Local> find_local(std::span<Job* const> jobs, Job::Kind kind);
  void let_go(Local& local) noexcept;
  [[nodiscard]] std::optional<RegionRun> run_of(const Extent& extent) const noexcept;
  /// Posts and waits; done, or what happened instead.
  [[nodiscard]] TransferState move(const TransferRequest& request);

  const std::unique_ptr<Transport> transport_;
  const std::vector<std::byte> address_;
  const Digest256 fingerprint_;
  const std::chrono::milliseconds timeout_;
  std::vector<Area> regions_;
  mutable std::mutex mutex_;
  PeerId peer_;
  std::set<PageName> known_;
  std::map<uint64_t, PageMessage> answers_;
  std::set<uint64_t> asked_;
  uint64_t next_ticket_ = 1;
  Clock::time_point connected_ = Clock::now();
  Status fault_;
};

// ---- Server and messages

Status PeerMedium::subscribe() {
  return transport_->send(
      peer_, encode({.kind = PageMessageKind::subscribe, .fingerprint = fingerprint_}));
}

void PeerMedium::reconnect() {
  known_.clear();
  if (Clock::now() - connected_ < std::chrono::seconds(1)) return;
  connected_ = Clock::now();
  (void)transport_->disconnect(peer_);
  const auto peer = transport_->connect(address_);
  peer_ = peer.value_or(PeerId{});
  if (peer) (void)subscribe();
}

void PeerMedium::take(const PageMessage& message) {
  switch (message.kind) {
    case PageMessageKind::refused:
      fault_ = fail(Errc::unsupported, "PeerTier: the server is of another version or model");
      known_.clear();
      return;
    case PageMessageKind::index: known_.insert(message.names.begin(), message.names.end()); return;
    case PageMessageKind::gone:
      for (const PageName& name : message.names) known_.erase(name);
      return;
    default:
      // of a call that waits no more: what was lent goes back
      if (asked_.contains(message.ticket)) {
        answers_[message.ticket] = message;
      } else if (message.kind == PageMessageKind::lent) {
        (void)transport_->send(
            peer_, encode({.kind = PageMessageKind::returned, .ticket = message.ticket}));
      }
  }
}

void PeerMedium::look() noexcept {
  const std::lock_guard lock(mutex_);
  try {
    PeerMessage messages[16];
    for (size_t count; (count = transport_->receive(messages)) > 0;) {
      for (const PeerMessage& message : std::span(messages).first(count)) {
        if (message.peer != peer_) continue;
        const auto read = decode_page_message(message.bytes);
        if (read) {
          take(*read);
        } else {
          fault_ = read.error();
        }
      }
    }
    const auto state = transport_->peer_state(peer_);
    if (!state || *state == PeerState::lost) reconnect();
  } catch (const std::bad_alloc&) {
    fault_ = fail(Errc::out_of_memory, "PeerTier: no memory for a message");
  }
}

bool PeerMedium::wait(const std::function<bool()>& condition) noexcept {
  const auto end = Clock::now() + timeout_;
  for (int i = 0; !condition(); ++i) {
    if (Clock::now() > end) return false;
    look();
    if (i < 200) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return true;
}

Result<PageMessage> PeerMedium::ask(PageMessage message, PageMessageKind kind) {
  std::optional<PageMessage> answer;
  PeerId peer;
  {
    const std::lock_guard lock(mutex_);
    message.ticket = next_ticket_++;
    peer = peer_;
    asked_.insert(message.ticket);
  }
  const Status sent = transport_->send(peer, encode(message));
  const bool came = sent.is_ok() && wait([&] {
                      const std::lock_guard lock(mutex_);
                      const auto found = answers_.find(message.ticket);
                      if (found == answers_.end())
                        return peer_ != peer || !transport_->peer_state(peer) ||
                               *transport_->peer_state(peer) == PeerState::lost;
                      answer = std::move(found->second);
                      return true;
                    });
  {
    const std::lock_guard lock(mutex_);
    asked_.erase(message.ticket);
    answers_.erase(message.ticket);
  }
  if (!sent.is_ok()) return sent;
  if (!came || !answer) return fail(Errc::io, "PeerTier: the server does not answer");
  if (answer->kind != kind) return fail(Errc::io, "PeerTier: the server answers something else");
  return std::move(*answer);
}

// ---- Bytes

std::optional<RegionRun> PeerMedium::run_of(const Extent& extent) const noexcept {
  const std::less_equal<const std::byte*> not_behind;
  for (const Area& area : regions_) {
    const std::byte* const first = area.memory.data();
    if (not_behind(first, extent.data) &&
        not_behind(extent.data + extent.bytes, first + area.memory.size()))
      return RegionRun{area.region, extent.data - first, extent.bytes};
  }
  return std::nullopt;
}

Result<Local> PeerMedium::find_local(std::span<Job* const> jobs, Job::Kind kind) {
  Local local;
  bool is_registered = true;
  int64_t bytes = 0;
  for (const Job* const job : jobs) {
    for (const Extent& e : job->extents) {
      const auto run = run_of(e);
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
  const auto lent = ask(std::move(want), PageMessageKind::lent);
  if (!lent) return note(lent.error());
  std::vector<Job*> coming;
  std::vector<PayloadHeader> headers;
  std::vector<RegionRun> remote;
  size_t next = 0;
  for (size_t i = 0; i < asked.size() && i < lent->answers.size(); ++i) {
    Job& job = *asked[i];
    job.outcome = TierOutcome::missing;
    if (lent->answers[i] != PageAnswer::yes) {
      forget(job.name);
      continue;
    }
    if (next >= lent->headers.size() || next >= lent->runs.size()) break;
    const PayloadHeader& header = lent->headers[next];
    const char* const fault = fault_of(header, job.name, fingerprint_, bytes_of(job.extents));
    const bool is_sound = fault == nullptr && lent->runs[next].bytes == header.bytes;
    job.outcome = is_sound ? TierOutcome::failed : TierOutcome::corrupt;
    if (is_sound) {
      coming.push_back(&job);
      headers.push_back(header);
      remote.push_back(lent->runs[next]);
    } else {
      note(fail(Errc::io, "PeerTier: the server's page is {}", fault == nullptr ? "cut" : fault));
    }
    ++next;
  }
  const auto back = encode({.kind = PageMessageKind::returned, .ticket = lent->ticket});
  if (coming.empty()) return void(transport_->send(peer_, back));
  auto local = find_local(coming, Job::Kind::load);
  if (!local) return note(local.error());
  const TransferState state = move({.direction = TransferDirection::read,
                                    .peer = peer_,
                                    .local = local->runs,
                                    .remote = remote,
                                    .message = back});
  let_go(*local);
  if (state != TransferState::done) {
    (void)transport_->send(peer_, back);
    return;
  }
  // behind the lease's end another page may stand there, whole or not
  const bool is_late = Clock::now() - begun > std::chrono::milliseconds(lent->lease_ms);
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
  const auto room = ask(std::move(offer), PageMessageKind::room);
  if (!room) return note(room.error());
  std::vector<Job*> going;
  for (size_t i = 0; i < jobs.size() && i < room->answers.size(); ++i) {
    Job& job = *jobs[i];
    const PageAnswer answer = room->answers[i];
    job.outcome = answer == PageAnswer::there_already ? TierOutcome::done
                  : answer == PageAnswer::no          ? TierOutcome::full
                                                      : TierOutcome::failed;
    if (answer == PageAnswer::yes) going.push_back(&job);
  }
  if (going.empty()) return;
  if (room->runs.size() != going.size())
    return note(fail(Errc::io, "PeerTier: the server gives room for other pages"));
  auto local = find_local(going, Job::Kind::store);
  if (!local) return note(local.error());
  {
    const std::lock_guard lock(mutex_);
    asked_.insert(room->ticket);
  }
  const auto message = encode({.kind = PageMessageKind::stored, .ticket = room->ticket});
  const TransferState state =
      move({.peer = peer_, .local = local->runs, .remote = room->runs, .message = message});
  let_go(*local);
  std::optional<PageMessage> kept;
  if (state == TransferState::done)
    (void)wait([&] {
      const std::lock_guard lock(mutex_);
      const auto found = answers_.find(room->ticket);
      if (found == answers_.end()) return false;
      kept = std::move(found->second);
      return true;
    });
  const std::lock_guard lock(mutex_);
  asked_.erase(room->ticket);
  answers_.erase(room->ticket);
  if (!kept || kept->kind != PageMessageKind::kept || kept->answers.size() != going.size()) return;
  for (size_t i = 0; i < going.size(); ++i) {
    if (kept->answers[i] != PageAnswer::yes) continue;
    going[i]->outcome = TierOutcome::done;
    known_.insert(going[i]->name);
  }
}

}  // namespace
}  // namespace folio::inline v1::tier

namespace folio::inline v1 {

Result<std::unique_ptr<Tier>> make_peer_tier(std::unique_ptr<Transport> transport,
                                             std::span<const std::byte> address,
                                             const TierOptions& options,
                                             const PeerTierOptions& peer) noexcept {
  constexpr int64_t most_ms = 86'400'000;
  if (transport == nullptr)
    return fail(Errc::invalid_argument, "make_peer_tier: transport is null");
  if (peer.timeout_ms < 1 || peer.timeout_ms > most_ms)
    return fail(Errc::invalid_argument, "make_peer_tier: timeout_ms is {}, expected 1 .. {}",
                peer.timeout_ms, most_ms);
  if (peer.memory.data() == nullptr && !peer.memory.empty())
    return fail(Errc::invalid_argument, "make_peer_tier: memory is null, expected {} spans",
                peer.memory.size());
  try {
    auto medium =
        std::make_unique<tier::PeerMedium>(std::move(transport), address, options, peer.timeout_ms);
    if (Status s = medium->open(peer.memory); !s.is_ok()) return s;
    return tier::QueuedTier::create(std::move(medium), options);
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "make_peer_tier: no memory");
  }
}

}  // namespace folio::inline v1
