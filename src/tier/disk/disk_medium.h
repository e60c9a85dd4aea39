// SPDX-License-Identifier: Apache-2.0
/// tier/disk/disk_medium.h: pages as records of a directory.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "folio/tier/disk_tier.h"
#include "tier/disk/file_io.h"
#include "tier/disk/segments.h"
#include "tier/medium.h"

namespace folio::inline v1::tier {

class DiskMedium final : public Medium {
 public:
  /// Errors: as make_disk_tier's
  [[nodiscard]] static Result<std::unique_ptr<Medium>> open(const std::string& path,
                                                            const TierOptions& options,
                                                            const DiskOptions& disk,
                                                            std::unique_ptr<FileIo> io);

  bool has(const PageName& name) noexcept override;
  void run(std::span<Job* const> jobs) noexcept override;
  void drop(const PageName& name) noexcept override;
  uint32_t batch() const noexcept override { return depth_; }
  void count(TierFigures& figures) const noexcept override;
  Status last_fault() const noexcept override;

 private:
  /// A record on its way, at `staged` of the thread's memory.
  struct Moving {
    Job* job;
    Place place;
    int64_t staged;
  };

  DiskMedium(std::unique_ptr<Directory> directory, const TierOptions& options,
             const DiskOptions& disk, std::unique_ptr<FileIo> io)
      : directory_(std::move(directory)),
        io_(std::move(io)),
        fingerprint_(options.fingerprint),
        segment_bytes_(disk.segment_bytes),
        depth_(disk.depth) {}

  void store(std::span<Job* const> jobs);
  void load(std::span<Job* const> jobs);
  [[nodiscard]] FileOp write_of(const Moving& writing, std::byte* record);
  void end_store(const Moving& writing, int error);
  void end_load(const Moving& reading, const FileOp& op);
  void note(Status fault) noexcept;

  mutable std::mutex mutex_;
  const std::unique_ptr<Directory> directory_;
  const std::unique_ptr<FileIo> io_;
  const Digest256 fingerprint_;
  const int64_t segment_bytes_;
  const uint32_t depth_;
  Status last_fault_;
};

}  // namespace folio::inline v1::tier
