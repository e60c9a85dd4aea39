// SPDX-License-Identifier: Apache-2.0
/// tier/peer/booked_transport.h: a transport: books over a wire, and a thread that does the work.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "folio/tier/transport.h"
#include "tier/peer/book.h"
#include "tier/peer/wire.h"

namespace folio::inline v1::tier {

class BookedTransport final : public Transport {
 public:
  enum class Work : uint8_t { by_thread, by_wire };
  /// The wire knows the book already. Throws system_error where there is no thread to be had.
  BookedTransport(std::unique_ptr<Book> book, std::unique_ptr<Wire> wire, Work work);
  ~BookedTransport() override;

  Result<RegionId> add_region(std::span<std::byte> memory) noexcept override;
  Status remove_region(RegionId region) noexcept override;
  Result<std::vector<std::byte>> address() const noexcept override;
  Result<PeerId> connect(std::span<const std::byte> address) noexcept override;
  Status disconnect(PeerId peer) noexcept override;
  Result<PeerState> peer_state(PeerId peer) const noexcept override;
  Result<TransferId> post(const TransferRequest& request) noexcept override;
  Result<TransferState> poll(TransferId transfer) noexcept override;
  Status cancel(TransferId transfer) noexcept override;
  Status release(TransferId transfer) noexcept override;
  Status send(PeerId peer, std::span<const std::byte> message) noexcept override;
  size_t receive(std::span<PeerMessage> messages) noexcept override;
  Status last_fault() const noexcept override;

  /// Hands the oldest command to the wire; false: there was none.
  static bool run_command(Book& book, Wire& wire) noexcept;

  [[nodiscard]] Book& book() noexcept { return *book_; }
  [[nodiscard]] Wire& wire() noexcept { return *wire_; }

 private:
  void work() noexcept;
  /// Runs a call of the book that may throw bad_alloc, and wakes who does the work.
  template <class Call>
  auto change(const char* name, Call call) noexcept -> decltype(call());

  const std::unique_ptr<Book> book_;
  const std::unique_ptr<Wire> wire_;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

}  // namespace folio::inline v1::tier
