// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/tests/load_test.cpp: the module in the hands of libraries that it does not
/// know, and what it says then.
#include <dlfcn.h>
#include <gmock/gmock.h>

namespace ggml_folio {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

TEST(Load, AnotherVersionIsRefusedByItsName) {
  void* other = dlopen(OTHER_GGML, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(other, nullptr) << dlerror();
  const auto load = reinterpret_cast<const void* (*)(const char*)>(dlsym(other, "load_backend"));
  ASSERT_NE(load, nullptr);
  CaptureStderr();
  EXPECT_EQ(load(FOLIO_GGML_MODULE), nullptr);
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("not loaded: this is ggml " OTHER_VERSION));
}

TEST(Load, AProgramWithoutGgmlIsToldSo) {
  void* module = dlopen(FOLIO_GGML_MODULE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << dlerror();
  const auto init = reinterpret_cast<void* (*)()>(dlsym(module, "ggml_backend_init"));
  ASSERT_NE(init, nullptr);
  CaptureStderr();
  EXPECT_EQ(init(), nullptr);
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("llama.cpp must be a shared library"));
}

}  // namespace
}  // namespace ggml_folio
