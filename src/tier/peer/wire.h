// SPDX-License-Identifier: Apache-2.0
/// tier/peer/wire.h: what lies below a transport's books: one way to reach other ends.
#pragma once

#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "tier/peer/address.h"
#include "tier/peer/book.h"

namespace folio::inline v1::tier {

/// Calls marked *any* come from any thread; all others from the thread that does the work, and
/// there the wire tells its book what becomes of them. Nothing throws.
class Wire {
 public:
  virtual ~Wire() = default;

  /// any: before peers can touch it, and after
  [[nodiscard]] virtual Status add_region(RegionId, std::span<std::byte>) noexcept { return {}; }
  virtual void remove_region(RegionId) noexcept {}
  /// any: what `connect` of another end is given; throws bad_alloc
  [[nodiscard]] virtual std::vector<std::byte> endpoint() const = 0;

  /// Ends in `Book::connected` or `Book::lost`.
  virtual void connect(PeerId peer, std::span<const std::byte> endpoint) noexcept = 0;
  /// A later endpoint of a peer that is there.
  virtual void refresh(PeerId, std::span<const std::byte>) noexcept {}
  /// All its transfers end as failed; the book has forgotten it, or takes it as lost.
  virtual void disconnect(PeerId peer) noexcept = 0;
  /// `transfer` stays until `Book::ended`.
  virtual void post(const TransferRecord& transfer) noexcept = 0;
  /// Nothing for one that the wire does not have.
  virtual void cancel(TransferId transfer) noexcept = 0;
  /// `Book::left` when it is no longer here.
  virtual void send(PeerId peer, std::vector<std::byte> message) noexcept = 0;

  /// Does what can be done without waiting; whether there was something.
  virtual bool progress() noexcept = 0;
  /// Until there may be something to do, or `wake`, or some milliseconds.
  virtual void wait(int64_t milliseconds) noexcept = 0;
  virtual void wake() noexcept = 0;  ///< any

  /// any: a wire without a thread does its work, before the books are looked at
  virtual void drive() noexcept {}
};

/// What a call for a peer returns; out_of_memory where it throws bad_alloc.
template <class Call>
[[nodiscard]] Status attempt(Call call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "Transport: no memory for a peer");
  }
}

}  // namespace folio::inline v1::tier
