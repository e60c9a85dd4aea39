// SPDX-License-Identifier: Apache-2.0
/// tests/tier/missing_libraries_test.cpp: what a folio that was built with everything says on a
/// machine that lacks what is loaded at run time. Our functions stand before the loader's.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "folio/tier/event_publisher.h"
#include "folio/tier/event_subscriber.h"
#include "folio/tier/redis_tier.h"
#include "folio/tier/transports.h"
#include "support/temporary_folder.h"

namespace folio::test {
namespace {

std::vector<std::string> asked_for;  ///< of the loader
std::string own_module;              ///< the file that folio is in

}  // namespace

// The loader's functions, as tests/tier/CMakeLists.txt wraps them.
void* open_nothing(const char* path, int) noexcept asm("__wrap_dlopen");
char* say_why() noexcept asm("__wrap_dlerror");
int tell_module(const void*, Dl_info* info) noexcept asm("__wrap_dladdr");

void* open_nothing(const char* path, int) noexcept {
  asked_for.emplace_back(path);
  return nullptr;
}

char* say_why() noexcept {
  static std::string text;
  text = asked_for.back() + ": there is none";
  return text.data();
}

int tell_module(const void*, Dl_info* info) noexcept {
  info->dli_fname = own_module.c_str();
  return 1;
}

namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// In a folder of Python's packages, where pip has put files that are no libraries.
class MissingLibraries : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    packages_ = std::make_unique<TemporaryFolder>();
    for (const std::string file :
         {"folio_kv/_core.abi3.so", "pyzmq.libs/libzmq-1f02.so.5.2.5",
          "pyzmq.libs/libsodium-03.so.26", ".nixl_cu12.mesonpy.libs/libnixl_capi.so"}) {
      std::filesystem::create_directories(std::filesystem::path(of_pip(file)).parent_path());
      std::ofstream(of_pip(file)) << "no library";
    }
    own_module = of_pip("folio_kv/_core.abi3.so");
  }
  static void TearDownTestSuite() { packages_.reset(); }
  void SetUp() override { asked_for.clear(); }
  static std::string of_pip(const std::string& file) { return packages_->path(file); }
  template <class Refusal>
  static void expect_missing(const Status& s, const Refusal& text) {
    EXPECT_EQ(s.code(), Errc::unsupported);
    EXPECT_THAT(s.message(), text);
  }

 private:
  static inline std::unique_ptr<TemporaryFolder> packages_;
};

TEST_F(MissingLibraries, zeromq_is_looked_for_by_its_name_and_in_pips_pyzmq) {
  expect_missing(EventPublisher::create().error(),
                 AllOf(StartsWith("EventPublisher::create: ZeroMQ"), HasSubstr("Debian: libzmq5"),
                       HasSubstr("pip: pyzmq"),
                       EndsWith("libzmq.so.5: there is none; " +
                                of_pip("pyzmq.libs/libzmq-1f02.so.5.2.5") + ": there is none")));
}

TEST_F(MissingLibraries, subscribers_and_publishers_name_zeromq_each_time) {
  for (int i = 0; i < 2; ++i) {
    expect_missing(EventSubscriber::create({.endpoint = "tcp://127.0.0.1:1"}).error(),
                   AllOf(StartsWith("EventSubscriber::create: ZeroMQ"), HasSubstr("libzmq5")));
    expect_missing(EventPublisher::create().error(), HasSubstr("libzmq5"));
  }
}

TEST_F(MissingLibraries, bad_arguments_are_said_first) {
  EXPECT_EQ(EventPublisher::create({.endpoint = "nowhere"}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(make_redis_tier("rediss://", TierOptions{.max_bytes = 1 << 20}).error().code(),
            Errc::invalid_argument);
}

TEST_F(MissingLibraries, an_index_of_events_needs_no_zeromq) {
  EXPECT_TRUE(EventIndex::create().error().is_ok());
  EXPECT_TRUE(asked_for.empty());
}

TEST_F(MissingLibraries, encrypted_redis_names_openssl_and_plain_redis_needs_none) {
  const TierOptions options{.max_bytes = 1 << 20};
  EXPECT_TRUE(make_redis_tier("redis://127.0.0.1:1", options).error().is_ok());
  EXPECT_TRUE(asked_for.empty());
  const Status s = make_redis_tier("rediss://127.0.0.1:1", options).error();
  expect_missing(s, AllOf(StartsWith("make_redis_tier: TLS needs OpenSSL 3"), HasSubstr("libssl3"),
                          HasSubstr("libssl.so.3: there is none")));
}

TEST_F(MissingLibraries, transports_name_ucx_and_nixl) {
  expect_missing(make_ucx_transport().error(),
                 AllOf(StartsWith("make_ucx_transport: UCX"), HasSubstr("libucx0"),
                       HasSubstr("libucp.so.0: there is none")));
  expect_missing(
      make_nixl_transport().error(),
      AllOf(StartsWith("make_nixl_transport: NIXL"), HasSubstr("nixl-cu13"),
            HasSubstr("libnixl_capi.so: there is none"),
            EndsWith(of_pip(".nixl_cu12.mesonpy.libs/libnixl_capi.so") + ": there is none")));
}

}  // namespace
}  // namespace folio::test
