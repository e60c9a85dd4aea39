// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/tests/load_test.cpp: the module in the hands of libraries that it does not
/// know, and what it says then. A module stays loaded: each test is a process of its own.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>

namespace ggml_folio {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

enum Outcome { served = 10, refused = 11, refused_and_changed = 12, not_loaded = 13 };

Outcome load(const char* library) {
  void* other = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (other == nullptr) return not_loaded;
  const auto init = reinterpret_cast<const void* (*)(const char*)>(dlsym(other, "load_backend"));
  if (init(FOLIO_GGML_MODULE) != nullptr) return served;
  return reinterpret_cast<bool (*)()>(dlsym(other, "is_untouched"))() ? refused
                                                                      : refused_and_changed;
}

class Load : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(Load, a_version_that_is_tested_is_served_without_a_word) {
  EXPECT_EXIT(std::exit(load(SAME_GGML)), testing::ExitedWithCode(served),
              Not(HasSubstr("ggml-folio")));
}

TEST_F(Load, a_later_version_is_served_with_one_warning) {
  EXPECT_EXIT((load(LATER_GGML), std::exit(load(LATER_GGML))), testing::ExitedWithCode(served),
              AllOf(HasSubstr("this is ggml 0.99.0, and the device is tested in ggml "),
                    Not(ContainsRegex("0.99.0(.|\n)*0.99.0"))));
}

TEST_F(Load, an_older_version_is_refused_by_its_name) {
  EXPECT_EXIT(
      std::exit(load(OLDER_GGML)), testing::ExitedWithCode(refused),
      HasSubstr("not loaded: this is ggml 0.15.0; the device serves ggml 0.15.1 and later"));
}

TEST_F(Load, what_lacks_a_function_is_told_so_or_that_it_is_older) {
  EXPECT_EXIT(std::exit(load(BARE_GGML)), testing::ExitedWithCode(refused),
              ContainsRegex("not loaded: this is ggml 0.25.3, which has no ggml_[a-z_]+; the "
                            "device is tested in ggml "));
  EXPECT_EXIT(std::exit(load(BARE_OLDER_GGML)), testing::ExitedWithCode(refused),
              HasSubstr("not loaded: this is ggml 0.12.0; the device serves ggml 0.15.1"));
}

TEST_F(Load, what_is_laid_out_otherwise_is_refused_by_its_name) {
  const struct {
    const char* library;
    const char* what;
  } others[] = {{OTHER_DEVICE, "a device (ggml_backend_device)"},
                {OTHER_PROPERTIES, "the properties of a device (ggml_backend_dev_props)"},
                {OTHER_BUFFERS, "a buffer's type (ggml_backend_buffer_type)"},
                {OTHER_NODES, "a tensor (ggml_tensor)"},
                {OTHER_ATTENTION, "what attention computes (FLASH_ATTN_EXT)"}};
  for (const auto& [library, what] : others)
    EXPECT_EXIT(std::exit(load(library)), testing::ExitedWithCode(refused),
                AllOf(HasSubstr("not loaded: this is ggml 0.25.3, in which "), HasSubstr(what)));
}

TEST_F(Load, a_second_ggml_of_a_process_is_told_so) {
  EXPECT_EXIT(std::exit(load(SAME_GGML) == served ? load(LATER_GGML) : not_loaded),
              testing::ExitedWithCode(refused), HasSubstr("another ggml of this process"));
}

TEST_F(Load, a_program_without_ggml_is_told_so) {
  void* module = dlopen(FOLIO_GGML_MODULE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << dlerror();
  const auto init = reinterpret_cast<void* (*)()>(dlsym(module, "ggml_backend_init"));
  ASSERT_NE(init, nullptr);
  EXPECT_EXIT(std::exit(init() == nullptr ? refused : served), testing::ExitedWithCode(refused),
              HasSubstr("llama.cpp must be a shared library"));
}

}  // namespace
}  // namespace ggml_folio
