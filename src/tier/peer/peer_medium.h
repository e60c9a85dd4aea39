// SPDX-License-Identifier: Apache-2.0
/// tier/peer/peer_medium.h: a page server's client: a medium whose calls ask and wait.
///
/// Names that the server has are known from what it told. Messages are received by whoever waits or
/// looks; answers are left under their ticket.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "folio/tier/medium.h"
#include "tier/peer/areas.h"
#include "tier/peer/page_message.h"

namespace folio::inline v1::tier {

/// The runs of some jobs in registered memory: where they lie, or a copy that lies beside them.
struct Local {
  std::vector<RegionRun> runs;
  std::vector<std::byte> copy;
  RegionId copy_region;
};

class PeerMedium final : public Medium {
 public:
  using Clock = std::chrono::steady_clock;
  PeerMedium(std::unique_ptr<Transport> transport, std::span<const std::byte> address,
             const TierOptions& options, int64_t timeout_ms)
      : transport_(std::move(transport)),
        address_(address.begin(), address.end()),
        fingerprint_(options.fingerprint),
        timeout_(timeout_ms) {}

  [[nodiscard]] Status open(std::span<const std::span<std::byte>> memory) {
    for (const std::span<std::byte> span : memory)
      if (Status s = areas_.add(*transport_, span); !s.is_ok()) return s;
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
  // Server and messages.
  [[nodiscard]] Status subscribe();
  /// Takes what has come, and looks whether the server is there.
  void look() noexcept;
  void take(const PageMessage& message);
  void reconnect();
  /// What was answered, and by whom: the server may have been connected to anew since.
  struct Answer {
    PageMessage message;
    PeerId peer;
  };
  /// Sends and waits for the answer. Errors: io where none comes in time
  [[nodiscard]] Result<Answer> ask(PageMessage message, PageMessageKind answer);
  void expect(uint64_t ticket);
  void unexpect(uint64_t ticket) noexcept;
  /// To a ticket that is expected, and is not any more then; none: the peer is lost, or silent.
  [[nodiscard]] std::optional<PageMessage> await(uint64_t ticket, PeerId peer);
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
  /// Posts and waits; done, or what happened instead.
  [[nodiscard]] TransferState move(const TransferRequest& request);

  const std::unique_ptr<Transport> transport_;
  const std::vector<std::byte> address_;
  const Digest256 fingerprint_;
  const std::chrono::milliseconds timeout_;
  Areas areas_;
  mutable std::mutex mutex_;
  PeerId peer_;
  std::set<PageName> known_;
  std::map<uint64_t, PageMessage> answers_;
  std::set<uint64_t> asked_;
  uint64_t next_ticket_ = 1;
  Clock::time_point connected_ = Clock::now();
  Status fault_;
};

}  // namespace folio::inline v1::tier
