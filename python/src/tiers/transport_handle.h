// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/transport_handle.h: a transport until it is somebody's.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "../array.h"
#include "../without_gil.h"
#include "folio/tier/transport.h"
#include "of_process.h"

namespace folio::python {

/// Arrays that may be written, each dense, or KVCaches, as runs of bytes.
struct Memories {
  Memories(const nb::sequence& arrays, const char* argument);
  std::vector<std::span<std::byte>> spans = {};
  nb::list keep = {};
};

class TransportHandle {
 public:
  explicit TransportHandle(std::unique_ptr<tier::Transport> transport)
      : transport_(std::move(transport)) {}
  TransportHandle(const TransportHandle&) = delete;
  TransportHandle& operator=(const TransportHandle&) = delete;
  ~TransportHandle() { process_.end(transport_); }

  /// Calls function(transport) without the GIL. Throws Error once it has been given away.
  template <class Function>
  auto with(Function&& function) {
    process_.expect_here("transport");
    const WithoutGil free;
    const std::lock_guard lock(mutex_);
    return function(open());
  }
  /// To a PeerTier, which ends it, and keeps this for the memory. Without the GIL.
  std::unique_ptr<tier::Transport> give_away();
  /// To one end that receives its messages, until it gives it back. Throws Error for a second one.
  tier::Transport* lend();
  void take_back() noexcept;

  nb::list memory = {};  ///< arrays of its regions

 private:
  tier::Transport& open() const;
  tier::Transport& open_to_one_end();

  OfProcess process_;
  std::mutex mutex_;
  std::unique_ptr<tier::Transport> transport_;
  bool is_lent_ = false;
};

/// What an end has of its transport, which it keeps.
class LentTransport {
 public:
  explicit LentTransport(nb::object transport)
      : transport_(std::move(transport)), lent_(handle().lend()) {}
  LentTransport(const LentTransport&) = delete;
  LentTransport& operator=(const LentTransport&) = delete;
  ~LentTransport() { handle().take_back(); }

  [[nodiscard]] TransportHandle& handle() const { return nb::cast<TransportHandle&>(transport_); }
  [[nodiscard]] tier::Transport* get() const { return lent_; }
  [[nodiscard]] const nb::object& object() const { return transport_; }

 private:
  nb::object transport_;
  tier::Transport* lent_;
};

}  // namespace folio::python
