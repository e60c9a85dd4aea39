// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/tests/huge_pages_test.cpp: which of ggml's buffers Linux is asked to hold in
/// large pages, as its own list of the process's memory says (VmFlags of /proc/self/smaps).
#include <ggml-backend.h>
#include <gmock/gmock.h>
#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace ggml_folio {
namespace {

constexpr size_t MiB = size_t{1} << 20;
constexpr size_t large = 64 * MiB;
constexpr size_t small = 8 * MiB - 4096;

struct FreeBuffer {
  void operator()(ggml_backend_buffer_t buffer) const { ggml_backend_buffer_free(buffer); }
};
using Buffer = std::unique_ptr<ggml_backend_buffer, FreeBuffer>;

/// Of the CPU device. Each is a mapping of its own, also where one was freed before.
Buffer allocate(size_t bytes) {
  static const int fixed = mallopt(M_MMAP_THRESHOLD, static_cast<int>(MiB));
  EXPECT_EQ(fixed, 1);
  const ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  return Buffer(ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(cpu), bytes));
}

/// The flags of the mapping that holds the address, empty where the kernel shows none.
std::string flags_at(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream list("/proc/self/smaps");
  bool is_here = false;
  for (std::string line; std::getline(list, line);) {
    char* after = nullptr;
    const uintptr_t begin = std::strtoull(line.c_str(), &after, 16);
    if (after != line.c_str() && *after == '-')
      is_here = begin <= wanted && wanted < std::strtoull(after + 1, nullptr, 16);
    if (is_here && line.starts_with("VmFlags:")) return line + " ";
  }
  return {};
}

bool is_advised(const Buffer& buffer) {
  const char* base = static_cast<const char*>(ggml_backend_buffer_get_base(buffer.get()));
  return flags_at(base + ggml_backend_buffer_get_size(buffer.get()) / 2).find(" hg ") !=
         std::string::npos;
}

/// The module, loaded once.
struct Loaded {
  bool was_advised_before = is_advised(allocate(large));
  ggml_backend_reg_t registry = ggml_backend_load(FOLIO_GGML_MODULE);
};

class HugePages : public testing::Test {
 protected:
  void SetUp() override {
    const bool has_flags = !flags_at(this).empty();
    const bool has_huge_pages = std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good();
    if (!has_flags) GTEST_SKIP() << "the kernel shows no VmFlags in /proc/self/smaps";
    if (!has_huge_pages) GTEST_SKIP() << "the kernel has no transparent huge pages";
  }

  static const Loaded& load() {
    static const Loaded loaded;
    return loaded;
  }
};

TEST_F(HugePages, are_asked_for_when_the_device_is_loaded) {
  ASSERT_NE(load().registry, nullptr);
  EXPECT_FALSE(load().was_advised_before);
  EXPECT_TRUE(is_advised(allocate(large)));
}

TEST_F(HugePages, a_buffer_is_writable_to_its_ends) {
  ASSERT_NE(load().registry, nullptr);
  const Buffer buffer = allocate(large + 12345);
  ASSERT_NE(buffer, nullptr);
  ggml_backend_buffer_clear(buffer.get(), 7);
  const char* base = static_cast<const char*>(ggml_backend_buffer_get_base(buffer.get()));
  EXPECT_EQ(base[0], 7);
  EXPECT_EQ(base[large + 12344], 7);
}

TEST_F(HugePages, small_buffers_are_left_alone) {
  ASSERT_NE(load().registry, nullptr);
  EXPECT_FALSE(is_advised(allocate(small)));
  EXPECT_NE(allocate(0), nullptr);
}

TEST_F(HugePages, what_ggml_does_not_allocate_is_null) {
  ASSERT_NE(load().registry, nullptr);
  EXPECT_EQ(allocate(size_t{1} << 62), nullptr);
}

TEST_F(HugePages, a_second_load_changes_nothing) {
  ASSERT_NE(load().registry, nullptr);
  ASSERT_NE(ggml_backend_load(FOLIO_GGML_MODULE), nullptr);
  EXPECT_TRUE(is_advised(allocate(large)));
}

TEST_F(HugePages, threads_may_allocate_at_once) {
  ASSERT_NE(load().registry, nullptr);
  std::vector<int> advised(8);
  std::vector<std::thread> threads;
  for (int& one : advised)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) one += is_advised(allocate(large)) ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(advised, testing::Each(20));
}

/// Variables are read once: in a process of its own, which gtest starts anew.
TEST_F(HugePages, the_variable_switches_them_off) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ends_with_advice = [](const char* value) {
    setenv("FOLIO_GGML_HUGE_PAGES", value, 1);
    if (load().registry == nullptr) std::exit(2);
    std::exit(is_advised(allocate(large)) ? 1 : 0);
  };
  EXPECT_EXIT(ends_with_advice("0"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(ends_with_advice("1"), testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace ggml_folio
