// SPDX-License-Identifier: Apache-2.0
/// tier/disk/uring_file_io.cpp: the one file that knows liburing.
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "tier/disk/plain_file_io.h"

namespace folio::inline v1::tier {
namespace {

/// Of one thread at a time.
class Ring {
 public:
  Ring(uint32_t depth, int64_t timeout_ms) noexcept
      : depth_(depth), timeout_ms_(timeout_ms), error_(-io_uring_queue_init(depth, &ring_, 0)) {}
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (error_ == 0) io_uring_queue_exit(&ring_);
  }
  [[nodiscard]] int error() const noexcept { return error_; }
  std::unique_ptr<Ring> behind;  ///< in the list that it is in

  /// At most as many as the ring is deep are in flight; what came short goes on where it ended.
  /// False: operations are left in flight, and the ring with them.
  [[nodiscard]] bool run(std::span<FileOp> ops, const IoMemory& memory, FileWork& work) noexcept {
    ops_ = ops;
    work_ = &work;
    for (FileOp& op : ops) op.error = EINPROGRESS;
    size_t next = 0;
    while (next < ops.size() || in_flight_ > 0) {
      for (; next < ops.size() && in_flight_ < depth_; ++next) {
        work.begin(next);
        submit(next, 0);
      }
      if (!wait()) {
        memory_ = memory;
        for (size_t i = 0; i < ops.size(); ++i) {
          if (ops[i].error != EINPROGRESS) continue;
          ops[i].error = ETIMEDOUT;
          work.end(i);
        }
        return false;
      }
    }
    return true;
  }

  /// Of operations that were left: whether they are over now.
  [[nodiscard]] bool is_over() noexcept {
    io_uring_cqe* done = nullptr;
    while (in_flight_ > 0 && io_uring_peek_cqe(&ring_, &done) == 0) {
      --in_flight_;
      io_uring_cqe_seen(&ring_, done);
    }
    if (in_flight_ == 0) memory_ = nullptr;
    return in_flight_ == 0;
  }

 private:
  /// For one operation or more; false where none ended in time.
  bool wait() noexcept {
    __kernel_timespec time{.tv_sec = timeout_ms_ / 1000, .tv_nsec = timeout_ms_ % 1000 * 1'000'000};
    io_uring_cqe* done = nullptr;
    int refusals = 0;
    for (;;) {
      const int result = io_uring_submit_and_wait_timeout(
          &ring_, &done, 1, timeout_ms_ == 0 ? nullptr : &time, nullptr);
      if (io_uring_peek_cqe(&ring_, &done) == 0) break;
      if (result == -EAGAIN || result == -EBUSY) {  // the kernel has no memory for it now
        if (++refusals > 10'000) return false;
        usleep(100);
      } else if (result < 0 && result != -EINTR) {
        return false;
      }
    }
    for (; io_uring_peek_cqe(&ring_, &done) == 0; io_uring_cqe_seen(&ring_, done)) end(*done);
    return true;
  }

  void submit(size_t index, int64_t done) noexcept {
    FileOp& op = ops_[index];
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);  // there is one: `depth_` at most
    constexpr int64_t most = int64_t{1} << 30;
    const auto bytes = static_cast<unsigned>(std::min(op.bytes - done, most));
    const auto offset = static_cast<uint64_t>(op.offset + done);
    if (op.writes)
      io_uring_prep_write(entry, op.file, op.memory + done, bytes, offset);
    else
      io_uring_prep_read(entry, op.file, op.memory + done, bytes, offset);
    op.progress = done;
    io_uring_sqe_set_data64(entry, index);
    ++in_flight_;
  }

  void end(const io_uring_cqe& cqe) noexcept {
    const size_t index = io_uring_cqe_get_data64(&cqe);
    FileOp& op = ops_[index];
    --in_flight_;
    const bool again = cqe.res == -EINTR || cqe.res == -EAGAIN;
    const int64_t done = op.progress + std::max(cqe.res, 0);
    if (again || (cqe.res > 0 && done < op.bytes)) return submit(index, done);
    op.error = cqe.res < 0 ? -cqe.res : done == op.bytes ? 0 : op.writes ? EIO : ENODATA;
    work_->end(index);
  }

  io_uring ring_{};
  const uint32_t depth_;
  const int64_t timeout_ms_;
  const int error_;
  uint32_t in_flight_ = 0;
  std::span<FileOp> ops_;
  FileWork* work_ = nullptr;
  IoMemory memory_;  ///< of what is left
};

/// A list by `behind`.
void push(std::unique_ptr<Ring>& list, std::unique_ptr<Ring> ring) noexcept {
  ring->behind = std::move(list);
  list = std::move(ring);
}

std::unique_ptr<Ring> pop(std::unique_ptr<Ring>& list) noexcept {
  std::unique_ptr<Ring> ring = std::move(list);
  if (ring != nullptr) list = std::move(ring->behind);
  return ring;
}

/// Rings with operations that the kernel has not ended when their tier closed. They stay for ever:
/// closing them would give away memory that the kernel may still write.
void keep_for_ever(std::unique_ptr<Ring> ring) noexcept {
  static std::mutex mutex;
  static auto* const rings = new (std::nothrow) std::unique_ptr<Ring>;
  const std::lock_guard lock(mutex);
  if (rings != nullptr)
    push(*rings, std::move(ring));
  else
    static_cast<void>(ring.release());
}

class UringFileIo final : public FileIo {
 public:
  UringFileIo(uint32_t depth, int64_t timeout_ms) : depth_(depth), timeout_ms_(timeout_ms) {}
  ~UringFileIo() override {
    while (std::unique_ptr<Ring> ring = pop(left_))
      if (!ring->is_over()) keep_for_ever(std::move(ring));
  }

  void run(std::span<FileOp> ops, const IoMemory& memory, FileWork& work) noexcept override {
    std::unique_ptr<Ring> ring;
    const int error = borrow(ring);
    if (error != 0 && error != ETIMEDOUT)  // a ring takes a file and memory: there are none now
      return PlainFileIo().run(ops, memory, work);
    if (error != 0) {
      for (size_t i = 0; i < ops.size(); ++i) {
        ops[i].error = error;
        work.end(i);
      }
      return;
    }
    const bool is_over = ring->run(ops, memory, work);
    const std::lock_guard lock(mutex_);
    push(is_over ? idle_ : left_, std::move(ring));
  }

 private:
  /// Returns errno.
  int borrow(std::unique_ptr<Ring>& ring) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (sort() >= most_left)
        return ETIMEDOUT;  // a device that does not answer is not asked again
      ring = pop(idle_);
    }
    if (ring == nullptr) ring.reset(new (std::nothrow) Ring(depth_, timeout_ms_));
    return ring == nullptr ? ENOMEM : ring->error();
  }

  /// Rings whose operations are over at last are idle again; returns how many are not.
  uint32_t sort() noexcept {
    std::unique_ptr<Ring> all = std::move(left_);
    uint32_t count = 0;
    while (std::unique_ptr<Ring> ring = pop(all)) {
      const bool is_over = ring->is_over();
      count += is_over ? 0 : 1;
      push(is_over ? idle_ : left_, std::move(ring));
    }
    return count;
  }

  static constexpr uint32_t most_left = 8;
  const uint32_t depth_;
  const int64_t timeout_ms_;
  std::mutex mutex_;
  std::unique_ptr<Ring> idle_;  ///< as many as there have been threads at once
  std::unique_ptr<Ring> left_;  ///< with operations that did not end
};

}  // namespace

std::unique_ptr<FileIo> make_uring_file_io(uint32_t depth, int64_t timeout_ms) {
  if (const Ring probe(2, 0); probe.error() != 0) return nullptr;
  return std::make_unique<UringFileIo>(depth, timeout_ms);
}

}  // namespace folio::inline v1::tier
