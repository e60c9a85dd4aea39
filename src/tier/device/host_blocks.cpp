// SPDX-License-Identifier: Apache-2.0
/// tier/device/host_blocks.cpp: slabs of blocks, and copies between blocks and extents.
#include "tier/device/host_blocks.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <vector>

namespace folio::inline v1::tier {
namespace {

Status out_of_host_memory(int64_t bytes) {
  return fail(Errc::out_of_memory, "Tier: no memory for a page of {} bytes on the host", bytes);
}

std::vector<DeviceCopy> copies_of(std::span<const Extent> extents, std::byte* host) {
  std::vector<DeviceCopy> copies;
  copies.reserve(extents.size());
  for (const Extent& e : extents) {
    copies.push_back({e.data, host, e.bytes});
    host += e.bytes;
  }
  return copies;
}

}  // namespace

HostBlocks::~HostBlocks() {
  for (auto& [bytes, slabs] : slabs_)
    for (Slab& slab : slabs) device_->release(slab.begin);
}

Result<HostBlock> HostBlocks::take(int64_t bytes) noexcept {
  if (device_ == nullptr) {
    Result<Buffer> plain = Buffer::allocate(bytes);
    if (!plain) return plain.error();
    return HostBlock(std::move(*plain));
  }
  const int64_t block_bytes = (bytes + Buffer::alignment - 1) & -Buffer::alignment;
  try {
    const std::lock_guard lock(mutex_);
    Slabs& slabs = slabs_[block_bytes];
    if (slabs.empty() || slabs.front().free.empty())
      if (Status s = add_slab(slabs, block_bytes); !s.is_ok()) return s;
    Slab& slab = slabs.front();
    HostBlock block(*this, &slab, slab.free.back());
    slab.free.pop_back();
    if (slab.free.empty()) slabs.splice(slabs.end(), slabs, slab.self);
    return block;
  } catch (const std::bad_alloc&) {
    return out_of_host_memory(bytes);
  }
}

Status HostBlocks::add_slab(Slabs& slabs, int64_t block_bytes) {
  const int64_t blocks = std::max(slab_bytes / block_bytes, int64_t{1});
  Slabs added(1);
  Slab& slab = added.front();
  slab.blocks = static_cast<size_t>(blocks);
  slab.free.reserve(slab.blocks);  // so that a block comes back without asking for memory
  const Result<std::byte*> memory = device_->allocate(blocks * block_bytes);
  if (!memory) return memory.error();
  slab.begin = *memory;
  slab.all = &slabs;
  slab.self = added.begin();
  for (int64_t i = blocks; i-- > 0;) slab.free.push_back(*memory + i * block_bytes);
  slabs.splice(slabs.begin(), added);
  return {};
}

void HostBlocks::give_back(void* part, std::byte* block) noexcept {
  const std::lock_guard lock(mutex_);
  Slab& slab = *static_cast<Slab*>(part);
  slab.free.push_back(block);
  Slabs& slabs = *slab.all;
  slabs.splice(slabs.begin(), slabs, slab.self);
  const bool others_have_room = slabs.size() > 1 && !std::next(slabs.begin())->free.empty();
  if (slab.free.size() < slab.blocks || !others_have_room) return;
  device_->release(slab.begin);
  slabs.pop_front();
}

Status HostBlocks::copy(CopyDirection direction,
                        std::span<const DeviceCopy> copies) const noexcept {
  if (device_ != nullptr) return device_->copy(direction, copies);
  for (const DeviceCopy& c : copies) {
    const auto bytes = static_cast<size_t>(c.bytes);
    if (direction == CopyDirection::to_host)
      std::memcpy(c.host, c.device, bytes);
    else
      std::memcpy(c.device, c.host, bytes);
  }
  return {};
}

Status HostBlocks::gather(std::span<const Extent> from, std::byte* to) const noexcept {
  try {
    return copy(CopyDirection::to_host, copies_of(from, to));
  } catch (const std::bad_alloc&) {
    return out_of_host_memory(0);
  }
}

Status HostBlocks::scatter(std::byte* from, std::span<const Extent> to) const noexcept {
  try {
    return copy(CopyDirection::to_device, copies_of(to, from));
  } catch (const std::bad_alloc&) {
    return out_of_host_memory(0);
  }
}

}  // namespace folio::inline v1::tier
