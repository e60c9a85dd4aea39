// SPDX-License-Identifier: Apache-2.0
/// tier/disk/uring_file_io.cpp: the one file that knows liburing.
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "tier/disk/file_io.h"

namespace folio::inline v1::tier {
namespace {

/// Of one thread at a time.
class Ring {
 public:
  explicit Ring(uint32_t depth) noexcept
      : depth_(depth), error_(-io_uring_queue_init(depth, &ring_, 0)) {}
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (error_ == 0) io_uring_queue_exit(&ring_);
  }
  [[nodiscard]] int error() const noexcept { return error_; }
  std::unique_ptr<Ring> behind;  ///< among those that are idle

  /// At most as many as the ring is deep are in flight; what came short goes on where it ended.
  void run(std::span<FileOp> ops) noexcept {
    size_t next = 0;
    uint32_t in_flight = 0;
    for (FileOp& op : ops) op.error = 0;
    while (next < ops.size() || in_flight > 0) {
      for (; next < ops.size() && in_flight < depth_; ++next, ++in_flight) submit(ops[next], 0);
      io_uring_submit(&ring_);
      io_uring_cqe* done = nullptr;
      if (const int error = -io_uring_wait_cqe(&ring_, &done); error != 0) {
        if (error == EINTR) continue;
        for (FileOp& op : ops) op.error = error;  // unheard of: the ring itself is broken
        return;
      }
      if (end(*done)) --in_flight;
      io_uring_cqe_seen(&ring_, done);
    }
  }

 private:
  void submit(FileOp& op, int64_t done) noexcept {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    constexpr int64_t most = int64_t{1} << 30;
    const auto bytes = static_cast<unsigned>(std::min(op.bytes - done, most));
    const auto offset = static_cast<uint64_t>(op.offset + done);
    if (op.writes)
      io_uring_prep_write(entry, op.file, op.memory + done, bytes, offset);
    else
      io_uring_prep_read(entry, op.file, op.memory + done, bytes, offset);
    op.progress = done;
    io_uring_sqe_set_data(entry, &op);
  }

  /// Whether the operation is over.
  bool end(const io_uring_cqe& cqe) noexcept {
    FileOp& op = *static_cast<FileOp*>(io_uring_cqe_get_data(&cqe));
    if (cqe.res < 0 && cqe.res != -EINTR && cqe.res != -EAGAIN) {
      op.error = -cqe.res;
      return true;
    }
    if (cqe.res == 0) {
      op.error = op.writes ? EIO : ENODATA;
      return true;
    }
    const int64_t done = op.progress + std::max(cqe.res, 0);
    if (done == op.bytes) return true;
    submit(op, done);
    return false;
  }

  io_uring ring_{};
  uint32_t depth_;
  int error_;
};

class UringFileIo final : public FileIo {
 public:
  explicit UringFileIo(uint32_t depth) : depth_(depth), plain_(make_plain_file_io()) {}

  void run(std::span<FileOp> ops) noexcept override {
    std::unique_ptr<Ring> ring = borrow();
    if (ring == nullptr) return plain_->run(ops);
    ring->run(ops);
    const std::lock_guard lock(mutex_);
    ring->behind = std::move(idle_);
    idle_ = std::move(ring);
  }

 private:
  std::unique_ptr<Ring> borrow() noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (idle_ != nullptr) {
        std::unique_ptr<Ring> ring = std::move(idle_);
        idle_ = std::move(ring->behind);
        return ring;
      }
    }
    std::unique_ptr<Ring> ring(new (std::nothrow) Ring(depth_));
    return ring != nullptr && ring->error() == 0 ? std::move(ring) : nullptr;
  }

  const uint32_t depth_;
  const std::unique_ptr<FileIo> plain_;
  std::mutex mutex_;
  std::unique_ptr<Ring> idle_;  ///< as many as there have been threads at once
};

}  // namespace

std::unique_ptr<FileIo> make_uring_file_io(uint32_t depth) {
  if (const Ring probe(2); probe.error() != 0) return nullptr;
  return std::make_unique<UringFileIo>(depth);
}

}  // namespace folio::inline v1::tier
