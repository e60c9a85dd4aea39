// SPDX-License-Identifier: Apache-2.0
/// folio/tier/transports.h: the transports there are.
#pragma once

#include <memory>

#include "folio/tier/transport.h"

namespace folio::inline v1 {

/// Ends within one process, for tests: whoever calls `poll`, `cancel` or `receive` of an end does
/// what is to be done, of all ends, or `step` does it bit by bit.
class FOLIO_EXPORT InProcessNetwork {
 public:
  enum class Pace : uint8_t {
    on_poll = 0,  ///< `poll` and `receive` do all that waits
    on_step = 1,  ///< only `step` does
  };
  explicit InProcessNetwork(Pace pace = Pace::on_poll) noexcept;
  InProcessNetwork(const InProcessNetwork&) = delete;
  InProcessNetwork& operator=(const InProcessNetwork&) = delete;
  ~InProcessNetwork();

  /// An end may outlive the network, and is alone then. Errors: invalid_argument for options out of
  /// range; out_of_memory
  [[nodiscard]] Result<std::unique_ptr<Transport>> make_end(
      const TransportOptions& options = {}) noexcept;
  /// Does one thing: a connection, a run of a transfer, the end of a transfer, a message. False:
  /// there was none
  bool step() noexcept;
  /// The end is lost to all its peers, and they to it, as if its process had been killed.
  void cut(Transport& end) noexcept;

  struct State;  ///< its own

 private:
  std::shared_ptr<State> state_;
};

}  // namespace folio::inline v1
