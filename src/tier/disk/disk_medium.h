// SPDX-License-Identifier: Apache-2.0
/// tier/disk/disk_medium.h: pages as records of a directory.
///
/// Jobs are done in batches of `batch_bytes` at most: pages are copied, checked and on their way at
/// the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "folio/tier/disk_tier.h"
#include "folio/tier/medium.h"
#include "tier/disk/batch_memory.h"
#include "tier/disk/directory.h"
#include "tier/disk/file_io.h"

namespace folio::inline v1::tier {

class DiskMedium final : public Medium {
 public:
  static constexpr int64_t usual_pause_ms = 1000;  ///< DirectoryOptions::first_pause_ms
  /// Errors: as make_disk_tier's
  [[nodiscard]] static Result<std::unique_ptr<Medium>> open(
      const std::string& path, const TierOptions& options, const DiskOptions& disk,
      std::unique_ptr<FileIo> io, int64_t first_pause_ms = usual_pause_ms);

  bool has(const PageName& name) noexcept override;
  void run(std::span<Job* const> jobs) noexcept override;
  void drop(const PageName& name) noexcept override;
  bool visit_names(const NameVisitor& visitor) override;
  uint32_t batch() const noexcept override { return depth_; }
  bool loads_in_order() const noexcept override { return true; }
  void count(TierFigures& figures) const noexcept override;
  Status last_fault() const noexcept override;

 private:
  class Stores;
  class Loads;
  class OrderedLoads;

  DiskMedium(std::unique_ptr<FileIo> io, std::unique_ptr<Directory> directory,
             const TierOptions& options, const DiskOptions& disk)
      : io_(std::move(io)),
        directory_(std::move(directory)),
        fingerprint_(options.fingerprint),
        segment_bytes_(disk.segment_bytes / file_block * file_block),
        depth_(disk.depth),
        batch_memory_(options.threads) {}

  void store(std::span<Job* const> jobs);
  void store_batch(std::span<Job* const> jobs);
  [[nodiscard]] Status write_batch(std::span<Job* const> jobs);
  void load(std::span<Job* const> jobs);
  void load_in_order(std::span<Job* const> jobs);
  [[nodiscard]] std::optional<Directory::Held> place_of(Job& job);
  [[nodiscard]] bool is_of(const DiskHeader& header, const Job& job,
                           const Directory::Held& place) const;
  [[nodiscard]] Status end_store(Job& job, const Directory::Held& place, int error);
  void end_load(Job& job, const Directory::Held& place, bool is_whole);
  void fail_read(Job& job, const Directory::Held& place, int error);

  const std::unique_ptr<FileIo> io_;  ///< outlives the directory, which uses it
  const std::unique_ptr<Directory> directory_;
  const Digest256 fingerprint_;
  const int64_t segment_bytes_;
  const uint32_t depth_;
  BatchMemory batch_memory_;
};

}  // namespace folio::inline v1::tier
