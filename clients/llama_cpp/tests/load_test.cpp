// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/tests/load_test.cpp: the module in the hands of libraries that it does not
/// know, and what it says then.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <string>

namespace ggml_folio {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

/// What the module writes when the library loads it; it has to refuse, and to change nothing.
std::string refusal_of(const char* library) {
  void* other = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (other == nullptr) return dlerror();
  const auto load = reinterpret_cast<const void* (*)(const char*)>(dlsym(other, "load_backend"));
  CaptureStderr();
  EXPECT_EQ(load(FOLIO_GGML_MODULE), nullptr);
  EXPECT_TRUE(reinterpret_cast<bool (*)()>(dlsym(other, "is_untouched"))());
  return GetCapturedStderr();
}

TEST(Load, AnotherVersionIsRefusedByItsName) {
  EXPECT_THAT(refusal_of(OTHER_GGML), HasSubstr("not loaded: this is ggml 0.26.0"));
}

TEST(Load, OtherNumbersOfOperationsAreRefused) {
  EXPECT_THAT(refusal_of(RENUMBERED_GGML),
              HasSubstr("not loaded: this ggml has another number for the operation NONE"));
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
