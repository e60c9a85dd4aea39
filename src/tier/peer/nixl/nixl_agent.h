// SPDX-License-Identifier: Apache-2.0
/// tier/peer/nixl/nixl_agent.h: one of NIXL's agents with its UCX: its regions, writes to regions
/// of others, notifications.
///
/// One thread at a time. Nothing happens but within calls: `take` and `look` move things on.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/cache/page_extents.h"
#include "folio/tier/transport.h"
#include "tier/peer/nixl/nixl_library.h"

namespace folio::inline v1::tier {

/// Memory by its first byte. A region's number is never used again, so that what takes its place at
/// the same address is another one to NIXL, too.
struct NixlRegion {
  uint64_t first = 0, bytes = 0, region = 0;
};
class NixlRegions {
 public:
  void add(const NixlRegion& region);
  void clear() noexcept;
  /// That has all of these bytes; 0: none.
  [[nodiscard]] uint64_t find(const std::byte* data, int64_t bytes) const noexcept;
  /// Where runs lie; false: one is not within a region.
  [[nodiscard]] bool locate(std::span<const RegionRun> runs, std::vector<Extent>* extents) const;

 private:
  std::map<uint64_t, NixlRegion> by_first_, by_region_;
};

/// Bytes to be written.
struct NixlPiece {
  const std::byte* here = nullptr;
  const std::byte* there = nullptr;
  int64_t bytes = 0;
  uint64_t here_region = 0, there_region = 0;
};

class NixlAgent {
 public:
  /// Of a name that nobody else has. Errors: io; throws bad_alloc, as the others
  [[nodiscard]] static Result<std::unique_ptr<NixlAgent>> open(const NixlLibrary& nixl,
                                                               const std::string& name,
                                                               std::string_view transports);
  NixlAgent(const NixlAgent&) = delete;
  NixlAgent& operator=(const NixlAgent&) = delete;
  /// Writes that have been begun have been dropped before. Nobody touches memory any more: neither
  /// this agent nor, through it, those that know it.
  ~NixlAgent();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool has_region(RegionId region) const noexcept {
    return regions_.contains(region);
  }
  /// Errors: io
  [[nodiscard]] Status add_region(RegionId region, std::span<std::byte> memory);
  void remove_region(RegionId region) noexcept;
  [[nodiscard]] std::vector<NixlRegion> regions() const;
  /// Of this agent and its regions, for others to `learn`. Errors: io
  [[nodiscard]] Result<std::vector<std::byte>> about() const;
  /// The other agent is known from then on, by regions that it had and has: its name. Errors: io
  [[nodiscard]] Result<std::string> learn(std::span<const std::byte> about);
  void forget(const std::string& agent) noexcept;

  /// Errors: io where it is seen that the other agent has gone
  [[nodiscard]] Status notify(const std::string& agent, std::span<const std::byte> bytes) noexcept;
  /// What has come, of each agent in the order in which it came.
  [[nodiscard]] std::vector<std::vector<std::byte>> take();

  /// To regions of the other agent's. May copy before it returns. Errors: io
  [[nodiscard]] Result<nixl::Request*> begin_write(const std::string& agent,
                                                   std::span<const NixlPiece> pieces) noexcept;
  /// Whether all bytes are there, for all to see. Errors: io, when it has failed
  [[nodiscard]] Result<bool> look(nixl::Request* write) noexcept;
  /// One that has not ended may go on while the agent lives.
  void drop(nixl::Request* write) noexcept;

 private:
  explicit NixlAgent(const NixlLibrary& nixl) noexcept : nixl_(nixl) {}
  [[nodiscard]] Status start(const std::string& name, std::string_view transports);
  /// A call with a list of one region.
  template <class Call>
  nixl::Code with_region(RegionId region, std::span<std::byte> memory, Call call) const noexcept;

  const NixlLibrary& nixl_;
  std::string name_;
  nixl::Agent* agent_ = nullptr;
  nixl::Backend* backend_ = nullptr;
  nixl::Notifications* notifications_ = nullptr;
  std::map<RegionId, std::span<std::byte>> regions_;
};

}  // namespace folio::inline v1::tier
