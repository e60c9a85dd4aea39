// SPDX-License-Identifier: Apache-2.0
/// folio/tier/transports.h: the transports there are.
#pragma once

#include <memory>
#include <string_view>

#include "folio/tier/transport.h"

namespace folio::inline v1::tier {

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

enum class ReadAccess : uint8_t {
  as_system_says = 0,
  /// Any process of this user may read this process's memory, for its lifetime: needed where the
  /// system lets only parents do so (Yama's ptrace_scope 1)
  same_user = 1,
};

struct SharedMemoryOptions {
  ReadAccess access = ReadAccess::as_system_says;
};

/// Between processes of one user on one host. Memory may be of any kind and is not shared before:
/// each process writes its own memory alone and reads that of others (process_vm_readv), so that
/// nobody who is late or hangs can write where he must not. Processes in containers must share the
/// name spaces of processes and of the network. Errors: invalid_argument for options out of range;
/// io where the system gives no socket or no thread; out_of_memory
[[nodiscard]] FOLIO_EXPORT Result<std::unique_ptr<Transport>> make_shared_memory_transport(
    const TransportOptions& options = {}, const SharedMemoryOptions& memory = {}) noexcept;

struct UcxOptions {
  /// As UCX_TLS: `tcp`, `shm`, `rc,sm,self`; empty: as the environment says, or what UCX chooses
  std::string_view transports = {};
};

/// Between machines, and processes of one, by UCX's active messages. Addresses are for those who
/// are trusted: UCX believes what they contain. UCX is loaded by the first call, and takes its
/// settings from the environment (UCX_NET_DEVICES and others). Errors: invalid_argument for options
/// out of range; unsupported where UCX was missing when folio was built, or is now; io where it
/// finds nothing to work with; out_of_memory
[[nodiscard]] FOLIO_EXPORT Result<std::unique_ptr<Transport>> make_ucx_transport(
    const TransportOptions& options = {}, const UcxOptions& ucx = {}) noexcept;

struct NixlOptions {
  /// NIXL's library `libnixl_capi.so`, with its plugins beside it; empty: as the loader finds it by
  /// that name, then where pip puts the packages nixl-cu13 and nixl-cu12 if folio is one itself
  std::string_view library = {};
  /// One name, as UCX_TLS takes it: `tcp`, `rc`; UCX_TLS of the environment goes first. Nothing
  /// that writes to another process's memory by itself, as `shm` does: a peer that hangs could
  /// write after it is lost
  std::string_view transports = "^shm";
};

/// Between machines, and processes of one, by NIXL's backend UCX: bytes are written from memory to
/// memory. Each link has an agent of NIXL's at either end; a region is registered when a transfer
/// of the link first touches it. Addresses are for those who are trusted. NIXL is loaded by the
/// first call, without its headers, and takes settings from the environment (NIXL_PLUGIN_DIR,
/// UCX_...). Errors: invalid_argument for options out of range; unsupported where the library is
/// not there or lacks a function, with the reasons; io where it finds nothing to work with;
/// out_of_memory
[[nodiscard]] FOLIO_EXPORT Result<std::unique_ptr<Transport>> make_nixl_transport(
    const TransportOptions& options = {}, const NixlOptions& nixl = {}) noexcept;

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::InProcessNetwork;
using tier::make_nixl_transport;
using tier::make_shared_memory_transport;
using tier::make_ucx_transport;
using tier::NixlOptions;
using tier::ReadAccess;
using tier::SharedMemoryOptions;
using tier::UcxOptions;
}  // namespace folio::inline v1
