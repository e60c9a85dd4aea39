// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/layers.h: where the layers of a pool's pages are, as managers, servers and ends
/// of handovers are told.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>
#include <vector>

#include "../pool.h"
#include "folio/tier/cache_manager.h"
#include "folio/tier/transfer.h"

namespace folio::python {

namespace nb = nanobind;

/// `planes`, or `groups`; what they point to lives as long as this.
class Layers {
 public:
  enum class User { cache, transfer };  ///< of transfers, groups have heads and parts of states

  /// `planes`: a sequence of Pages, one a layer, or None; `groups`: of dictionaries. Throws Error
  /// that names what is none, and for states of fewer pages than the pool has.
  Layers(nb::handle planes, const nb::sequence& groups, const PagePool& pool, User user);
  Layers(const Layers&) = delete;
  Layers& operator=(const Layers&) = delete;

  [[nodiscard]] std::span<const KVPlanes> planes() const { return planes_; }
  [[nodiscard]] std::span<const tier::GroupOfCache> of_cache() const { return of_cache_; }
  [[nodiscard]] std::span<const tier::GroupOfTransfer> of_transfer() const { return of_transfer_; }
  /// Pages and arrays, for who outlives this.
  [[nodiscard]] const nb::list& memory() const { return memory_; }

 private:
  struct Group {
    std::vector<KVPlanes> planes;
    std::vector<tier::StatePages> states;
    std::vector<int32_t> layers;
    std::vector<int64_t> state_parts;
    int32_t hit_interval = 0, first_head = 0, total_heads = 0, on_pages_of = -1;
  };
  void read_group(nb::handle given, size_t g, const PagePool& pool, User user);
  void read_states(nb::handle given, Group& group, size_t g, const PagePool& pool);

  std::vector<KVPlanes> planes_;
  std::vector<Group> groups_;
  std::vector<tier::GroupOfCache> of_cache_;
  std::vector<tier::GroupOfTransfer> of_transfer_;
  nb::list memory_;
};

}  // namespace folio::python
