// SPDX-License-Identifier: Apache-2.0
/// folio/testing/access_order.h: which accesses to shared memory are ordered, whatever the schedule
/// was: vector clocks.
///
/// Every actor and every barrier has a time. A clock says, for each of them, up to which time its
/// owner has seen it. An actor's time advances when it arrives somewhere, a barrier's when a phase
/// completes. Two accesses to the same bytes are ordered if the later one's clock has reached the
/// earlier one's time; if not, another schedule may swap them, so a fault is found on any schedule
/// and not only on the unlucky ones. Source: Lamport 1978; Flanagan and Freund 2009, FastTrack (the
/// write as one pair of thread and time). Thread safety: externally synchronised. Memory is
/// allocated by the constructor only, which may throw std::bad_alloc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace folio::inline v1::emulator {

/// Up to which time each thread (actors, then barriers) has been seen.
using Clock = std::vector<int64_t>;

inline void join(Clock& into, const Clock& from) noexcept {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

/// Bytes of shared memory; both numbers are multiples of AccessOrder::granule_bytes.
struct SharedRange {
  int64_t begin = 0;
  int64_t bytes = 0;
  bool operator==(const SharedRange&) const = default;
};

/// Why an access is not ordered.
enum class Disorder : uint8_t {
  none = 0,
  never_written = 1,  ///< a read of bytes that nothing has written
  after_write = 2,    ///< not ordered after the last write
  after_read = 3,     ///< a write that is not ordered after a read
};

struct Access {
  Disorder disorder = Disorder::none;
  int64_t at = 0;   ///< first byte that is concerned
  int32_t by = -1;  ///< actor of the earlier access
};

class AccessOrder {
 public:
  static constexpr int64_t granule_bytes = 16;

  AccessOrder(int64_t bytes, int32_t num_actors)
      : num_actors_(num_actors),
        writes_(static_cast<size_t>(bytes / granule_bytes)),
        reads_(static_cast<size_t>(bytes / granule_bytes) * static_cast<size_t>(num_actors), 0) {}

  [[nodiscard]] bool contains(const SharedRange& range) const noexcept {
    const auto size = static_cast<int64_t>(writes_.size()) * granule_bytes;
    return range.begin >= 0 && range.bytes > 0 && range.begin % granule_bytes == 0 &&
           range.bytes % granule_bytes == 0 && range.bytes <= size &&
           range.begin <= size - range.bytes;
  }

  /// `actor`, whose clock is `seen`, reads `range`.
  [[nodiscard]] Access read(const SharedRange& range, int32_t actor, const Clock& seen) noexcept {
    for (int64_t g = range.begin / granule_bytes; g < (range.begin + range.bytes) / granule_bytes;
         ++g) {
      const Write& write = writes_[static_cast<size_t>(g)];
      if (write.thread < 0) return {Disorder::never_written, g * granule_bytes, -1};
      if (seen[static_cast<size_t>(write.thread)] < write.time)
        return {Disorder::after_write, g * granule_bytes, write.by};
      reads_[static_cast<size_t>(g * num_actors_ + actor)] = seen[static_cast<size_t>(actor)];
    }
    return {};
  }

  /// What a write is ordered by: who may rely on it once `thread` has reached `time`.
  struct Write {
    int32_t thread = -1;
    int32_t by = -1;  ///< the actor, for messages
    int64_t time = 0;
  };

  /// A write of `range` by someone whose clock is `seen`; reads of `by` itself are ordered before
  /// it.
  [[nodiscard]] Access write(const SharedRange& range, const Write& write,
                             const Clock& seen) noexcept {
    for (int64_t g = range.begin / granule_bytes; g < (range.begin + range.bytes) / granule_bytes;
         ++g) {
      Write& last = writes_[static_cast<size_t>(g)];
      if (last.thread >= 0 && seen[static_cast<size_t>(last.thread)] < last.time)
        return {Disorder::after_write, g * granule_bytes, last.by};
      for (int32_t reader = 0; reader < num_actors_; ++reader) {
        const int64_t time = reads_[static_cast<size_t>(g * num_actors_ + reader)];
        if (seen[static_cast<size_t>(reader)] < time)
          return {Disorder::after_read, g * granule_bytes, reader};
      }
      last = write;
    }
    return {};
  }

 private:
  int64_t num_actors_;
  std::vector<Write> writes_;   // [granule]
  std::vector<int64_t> reads_;  // [granule, actor] time of the last read; 0: none
};

}  // namespace folio::inline v1::emulator
