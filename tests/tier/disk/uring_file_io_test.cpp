// SPDX-License-Identifier: Apache-2.0
/// tests/tier/disk/uring_file_io_test.cpp: operations by io_uring, those that never end among them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tier/disk/disk_fixture.h"
#include "tier/disk/plain_file_io.h"

namespace folio::test {
namespace {

constexpr int64_t block = tier::file_block;

class UringFileIo : public ::testing::Test {
 protected:
  void SetUp() override {
    if (tier::make_uring_file_io(2, 0) == nullptr) GTEST_SKIP() << "no io_uring here";
    ASSERT_EQ(pipe(pipe_), 0);
    file_ = ::open(folder_.path("file").c_str(), O_RDWR | O_CREAT, 0644);
    ASSERT_GE(file_, 0);
  }
  void TearDown() override {
    for (const int file : {pipe_[0], pipe_[1], file_})
      if (file >= 0) close(file);
  }
  TemporaryFolder folder_;
  int pipe_[2] = {-1, -1}, file_ = -1;
};

TEST_F(UringFileIo, does_more_operations_than_it_has_in_flight) {
  const auto io = tier::make_uring_file_io(3, 10'000);
  const tier::IoMemory memory = tier::allocate_io_memory(20 * block);
  std::vector<tier::FileOp> ops;
  for (int64_t i = 0; i < 20; ++i) {
    std::memset(memory->data() + i * block, static_cast<int>(i), block);
    ops.push_back({file_, memory->data() + i * block, block, i * block, true});
  }
  io->run(ops, memory);
  for (tier::FileOp& op : ops) {
    EXPECT_EQ(op.error, 0);
    op.writes = false;
    std::memset(op.memory, 0, block);
  }
  io->run(ops, memory);
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(memory->data()[i * block], std::byte(i));
  EXPECT_EQ(memory.use_count(), 1);
}

TEST_F(UringFileIo, a_file_that_ends_too_soon_is_said_to) {
  const auto io = tier::make_uring_file_io(3, 10'000);
  const tier::IoMemory memory = tier::allocate_io_memory(3 * block);
  ASSERT_EQ(ftruncate(file_, block + 100), 0);
  tier::FileOp ops[] = {{file_, memory->data(), block, 0},
                        {file_, memory->data() + block, 2 * block, 0}};
  io->run(ops, memory);
  EXPECT_EQ(ops[0].error, 0);
  EXPECT_EQ(ops[1].error, ENODATA);
  tier::FileOp bad{-1, memory->data(), block, 0};
  io->run({&bad, 1}, memory);
  EXPECT_EQ(bad.error, EBADF);
}

/// Nobody writes into the pipe: as a device that is gone.
TEST_F(UringFileIo, what_never_ends_times_out_and_keeps_its_memory) {
  const auto io = tier::make_uring_file_io(3, 30);
  const tier::IoMemory memory = tier::allocate_io_memory(2 * block);
  ASSERT_EQ(ftruncate(file_, block), 0);
  tier::FileOp ops[] = {{file_, memory->data(), block, 0},
                        {pipe_[0], memory->data() + block, block, 0}};
  io->run(ops, memory);
  EXPECT_EQ(ops[0].error, 0);
  EXPECT_EQ(ops[1].error, ETIMEDOUT);
  EXPECT_EQ(memory.use_count(), 2) << "the kernel may write it yet";
  const std::vector<char> bytes(block, 'x');
  ASSERT_EQ(write(pipe_[1], bytes.data(), bytes.size()), block);
  while (memory.use_count() == 2) {  // seen when the next ones run
    tier::FileOp op{file_, memory->data(), block, 0};
    io->run({&op, 1}, memory);
    EXPECT_EQ(op.error, 0);
  }
}

TEST_F(UringFileIo, a_device_that_does_not_answer_is_not_asked_for_ever) {
  auto io = tier::make_uring_file_io(3, 5);
  for (int i = 0; i < 20; ++i) {
    const tier::IoMemory memory = tier::allocate_io_memory(block);
    tier::FileOp op{pipe_[0], memory->data(), block, 0};
    io->run({&op, 1}, memory);
    EXPECT_EQ(op.error, ETIMEDOUT);
    EXPECT_EQ(memory.use_count(), i < 8 ? 2 : 1);
  }
  io.reset();  // and it ends
}

}  // namespace
}  // namespace folio::test
