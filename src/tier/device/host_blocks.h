// SPDX-License-Identifier: Apache-2.0
/// tier/device/host_blocks.h: memory for pages on the host: plain, or of the kind that a device
/// copies from and to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "folio/cache/page_extents.h"
#include "folio/core/buffer.h"
#include "folio/tier/device_copies.h"

namespace folio::inline v1::tier {

/// To whom blocks go back. Thread safe.
class BlockOwner {
 public:
  /// `part`: of the owner's memory, as it said when it gave the block.
  virtual void give_back(void* part, std::byte* block) noexcept = 0;

 protected:
  ~BlockOwner() = default;
};

/// Memory of one page, until it is destroyed; moves. Its owner stays longer.
class HostBlock {
 public:
  HostBlock() = default;
  explicit HostBlock(Buffer plain) noexcept : plain_(std::move(plain)), data_(plain_.data()) {}
  HostBlock(BlockOwner& owner, void* part, std::byte* data) noexcept
      : owner_(&owner), part_(part), data_(data) {}
  HostBlock(HostBlock&& other) noexcept { *this = std::move(other); }
  HostBlock& operator=(HostBlock&& other) noexcept {
    std::swap(plain_, other.plain_);
    std::swap(owner_, other.owner_);
    std::swap(part_, other.part_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~HostBlock() {
    if (owner_ != nullptr) owner_->give_back(part_, data_);
  }
  /// 64-byte aligned; null: no block.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  Buffer plain_;
  BlockOwner* owner_ = nullptr;  ///< null: plain
  void* part_ = nullptr;
  std::byte* data_ = nullptr;
};

/// A device's memory is dear to ask for, so it is taken in slabs of blocks of one size. A slab goes
/// back when it is empty and another one of its size has room. Thread safe.
class HostBlocks final : public BlockOwner {
 public:
  static constexpr int64_t slab_bytes = int64_t{16} << 20;  ///< or one block, if that is larger

  /// Null: plain memory, block by block.
  explicit HostBlocks(std::shared_ptr<DeviceCopies> device) noexcept : device_(std::move(device)) {}
  HostBlocks(const HostBlocks&) = delete;
  HostBlocks& operator=(const HostBlocks&) = delete;
  /// All blocks have come back.
  ~HostBlocks();

  /// `bytes` >= 1. Errors: out_of_memory, device
  [[nodiscard]] Result<HostBlock> take(int64_t bytes) noexcept;

  // Between extents, one behind the other, and a block.
  [[nodiscard]] Status gather(std::span<const Extent> from, std::byte* to) const noexcept;
  [[nodiscard]] Status scatter(std::byte* from, std::span<const Extent> to) const noexcept;
  /// Copies on the device, or here, if there is none.
  [[nodiscard]] Status copy(CopyDirection direction,
                            std::span<const DeviceCopy> copies) const noexcept;

  void give_back(void* slab, std::byte* block) noexcept override;

 private:
  struct Slab;
  using Slabs = std::list<Slab>;  ///< those that have room in front
  struct Slab {
    std::byte* begin = nullptr;
    size_t blocks = 0;
    std::vector<std::byte*> free;
    Slabs* all = nullptr;  ///< of blocks of this size
    Slabs::iterator self;
  };

  [[nodiscard]] Status add_slab(Slabs& slabs, int64_t block_bytes);

  const std::shared_ptr<DeviceCopies> device_;
  std::mutex mutex_;
  std::map<int64_t, Slabs> slabs_;  ///< by the size of their blocks
};

}  // namespace folio::inline v1::tier
