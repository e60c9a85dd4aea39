// SPDX-License-Identifier: Apache-2.0
/// folio/core/execution.h: where and by whom work is done: devices, streams, executors,
/// caller-owned memory.
///
/// All four are plain data. An `Executor` is three words, the same object in C, C++ and Python;
/// folio never creates threads unless the caller uses `default_executor` or `thread_pool_executor`.
#pragma once

#include <cstdint>

#include "folio/core/export.h"

namespace folio::inline v1 {

struct Device {
  enum class Kind : uint8_t { cpu = 0, cuda = 1 };
  Kind kind = Kind::cpu;
  int32_t index = 0;
  bool operator==(const Device&) const = default;
};

/// A cudaStream_t, opaque, so that users of the CPU library need no CUDA toolkit.
struct Stream {
  void* handle = nullptr;
};

/// Runs independent tasks. `parallel_for` calls `task(arg, i)` once for each i in [0, n), on any
/// threads in any order, and returns when all have returned. `concurrency` says how many tasks may
/// run at once. Tasks never throw and never call the executor again.
///
/// Either function may throw: the call of folio that was given the executor then returns
/// Errc::internal, and its output is undefined. The same answer follows a `parallel_for` that
/// returns without having called some i. To call an i again is harmless, from nested threads too,
/// and so is an i outside [0, n): nothing is done. However it leaves, `parallel_for` must have no
/// task under way and begin none any more, since `arg` ends with the call.
struct Executor {
  void* context = nullptr;
  int (*concurrency)(void* context) = nullptr;
  void (*parallel_for)(void* context, int64_t n, void (*task)(void* arg, int64_t i) noexcept,
                       void* arg) = nullptr;
};

/// Runs every task on the calling thread, in order.
[[nodiscard]] FOLIO_EXPORT Executor serial_executor() noexcept;

/// The library's own threads (OpenMP's, or those of thread_pool_executor where built without it),
/// started at first use. `threads` <= 0: as many as the machine offers. More threads than that are
/// started only as far as there are tasks for them. Right for engines that have OpenMP regions of
/// their own, whose team it shares, and, as team_executor says, for machines that others share.
/// Thread safety: usable from any thread.
[[nodiscard]] FOLIO_EXPORT Executor default_executor(int threads = 0) noexcept;

/// Threads of folio's own, one pool in a process, started at first use, as many as a call asks for.
/// They stay awake for 0.2 ms after a call, so that the next layer's finds them there, and sleep
/// then. A call waits for the tasks that were begun and for no thread that has begun none, and none
/// of its threads stays on the caller's core if it may run elsewhere: where other work is on the
/// cores, whoever has a core takes the tasks. While one call has the threads, calls of other
/// threads run their tasks alone.
///
/// They may run where the process' first thread might when folio was loaded, whichever of these
/// cores the caller that starts them has bound itself to; where it may run on others, they may run
/// where it may.
///
/// Right for engines without OpenMP: beside a team that spins between its regions a step of 0.2 ms
/// takes twice as long as on default_executor (docs/design/0003-threads.md). `threads` and thread
/// safety as above.
[[nodiscard]] FOLIO_EXPORT Executor thread_pool_executor(int threads = 0) noexcept;

/// Threads of the caller's that run a region together, as those of an OpenMP runtime do.
struct ThreadTeam {
  /// How many there are; one or less: tasks run on the calling thread.
  int (*size)() = nullptr;
  /// Calls region(arg) on the calling thread and once on each of up to `threads` - 1 others, and
  /// returns when all have returned.
  void (*run)(int threads, void (*region)(void* arg), void* arg) = nullptr;
};

/// The threads of `team`, which has both functions and outlives the executor. A team waits for each
/// of its threads, also for one that has no task and no core: where loops are seen to wait so, they
/// run on as many threads of thread_pool_executor instead, and the team is asked again after 64 to
/// 1,024 of them. Null, or a team without a function: an executor without functions, which every
/// call of folio refuses. Thread safety: usable from any thread that may call `run`.
[[nodiscard]] FOLIO_EXPORT Executor team_executor(const ThreadTeam* team) noexcept;

/// Caller-owned memory. Where folio takes one it says which alignment it needs (64 bytes unless
/// said otherwise).
struct MemorySpan {
  void* data = nullptr;
  int64_t bytes = 0;
};

}  // namespace folio::inline v1
