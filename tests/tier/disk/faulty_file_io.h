// SPDX-License-Identifier: Apache-2.0
/// tests/tier/disk/faulty_file_io.h: files as they are on a bad day.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "support/random.h"
#include "tier/disk/plain_file_io.h"

namespace folio::test {

/// What a test holds while the tier owns the FileIo. Chances are out of 1000, of each call of the
/// system; change them while nothing is under way, or under the mutex.
struct Faults {
  explicit Faults(uint64_t seed) : rng(seed) {}
  std::mutex mutex;
  Rng rng;
  int short_transfer = 0, interrupted = 0, refused = 0;  ///< to be continued, or tried again
  int read_error = 0, write_error = 0, no_space = 0;     ///< EIO, EIO, ENOSPC
  int flipped_read = 0, flipped_write = 0;
  int never_ends = 0;        ///< of each operation
  int64_t power_bytes = -1;  ///< after so many are written, nothing is written any more; -1: never
  std::atomic<int> open_error = 0, allocate_error = 0;
  std::atomic<int64_t> opens = 0;
  std::function<void()> after_allocate = [] {};
  /// Whether the device has room for so many bytes more.
  std::function<bool(int64_t)> has_room = [](int64_t) { return true; };
  bool promises_room = true;         ///< else room is found when it is written
  std::mutex gate;                   ///< each transfer passes it
  std::vector<tier::IoMemory> left;  ///< of operations that never end

  bool hits(int chance) { return chance > 0 && rng.between(1, 1000) <= chance; }
};

class FaultyFileIo final : public tier::PlainFileIo {
 public:
  explicit FaultyFileIo(Faults& faults) : faults_(faults) {}
  using PlainFileIo::run;

  void run(std::span<tier::FileOp> ops, const tier::IoMemory& memory,
           tier::FileWork& work) noexcept override {
    for (size_t i = 0; i < ops.size(); ++i) {
      if (!is_left(memory)) {
        One one(work, i);
        PlainFileIo::run(ops.subspan(i, 1), memory, one);
        continue;
      }
      work.begin(i);
      ops[i].error = ETIMEDOUT;
      work.end(i);
    }
  }

  int open(int directory, const char* name, int flags) noexcept override {
    ++faults_.opens;
    return faults_.open_error != 0 ? -faults_.open_error : FileIo::open(directory, name, flags);
  }
  int allocate(int file, int64_t offset, int64_t bytes) noexcept override {
    if (faults_.allocate_error != 0) return faults_.allocate_error;
    if (!faults_.promises_room) return 0;
    if (!faults_.has_room(bytes)) return ENOSPC;
    const int error = FileIo::allocate(file, offset, bytes);
    faults_.after_allocate();
    return error;
  }

 protected:
  int64_t transfer(const tier::FileOp& op, int64_t done) noexcept override {
    { const std::lock_guard gate(faults_.gate); }
    const std::lock_guard lock(faults_.mutex);
    Faults& f = faults_;
    if (f.hits(f.interrupted)) return -EINTR;
    if (f.hits(f.refused)) return -EAGAIN;
    if (f.hits(op.writes ? f.write_error : f.read_error)) return -EIO;
    if (op.writes && f.hits(f.no_space)) return -ENOSPC;
    if (op.writes && !f.promises_room && !f.has_room(op.bytes)) return -ENOSPC;
    tier::FileOp part = op;
    if (f.hits(f.short_transfer))  // by blocks, as O_DIRECT asks for it
      part.bytes =
          done + std::max<int64_t>(1, f.rng.between(0, (op.bytes - done) / tier::file_block - 1)) *
                     tier::file_block;
    part.bytes = std::min(part.bytes, op.bytes);
    return op.writes ? write(part, done) : read(part, done);
  }

 private:
  /// The work of one operation of several.
  struct One final : tier::FileWork {
    One(tier::FileWork& given, size_t i) : work(given), index(i) {}
    void begin(size_t) noexcept override { work.begin(index); }
    void end(size_t) noexcept override { work.end(index); }
    tier::FileWork& work;
    const size_t index;
  };

  bool is_left(const tier::IoMemory& memory) {
    const std::lock_guard lock(faults_.mutex);
    if (!faults_.hits(faults_.never_ends)) return false;
    faults_.left.push_back(memory);
    return true;
  }

  int64_t read(const tier::FileOp& op, int64_t done) {
    const int64_t count = PlainFileIo::transfer(op, done);
    if (count > 0 && faults_.hits(faults_.flipped_read)) flip(op.memory + done, count);
    return count;
  }

  int64_t write(const tier::FileOp& op, int64_t done) {
    int64_t count = op.bytes - done;
    if (faults_.power_bytes >= 0) {
      // whole blocks of it, then nothing
      const int64_t kept =
          std::min(count, faults_.power_bytes) / tier::file_block * tier::file_block;
      faults_.power_bytes -= kept;
      if (kept < count) faults_.power_bytes = 0;
      tier::FileOp torn = op;
      torn.bytes = done + kept;
      if (kept > 0) static_cast<void>(PlainFileIo::transfer(torn, done));
      return count;
    }
    if (!faults_.hits(faults_.flipped_write)) return PlainFileIo::transfer(op, done);
    flip(op.memory + done, count);
    return PlainFileIo::transfer(op, done);
  }

  void flip(std::byte* bytes, int64_t count) {
    bytes[faults_.rng.between(0, count - 1)] ^= std::byte(1 << faults_.rng.between(0, 7));
  }

  Faults& faults_;
};

}  // namespace folio::test
