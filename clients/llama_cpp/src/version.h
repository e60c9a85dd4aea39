// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/version.h: the versions of ggml that the device is tested in.
///
/// A later one is served, too, with one warning, if the probe finds in it what the device takes
/// from ggml (probe.h): the number alone says little. Older ones are not: what their attention
/// does, and not only how they are laid out, was never compared.
#pragma once

#include <string>

namespace ggml_folio {

struct GgmlVersion {
  int major = 0;
  int minor = 0;
  int patch = 0;
  auto operator<=>(const GgmlVersion&) const = default;
};

/// The first and the last version that the device is tested in: the first in a release of
/// llama-cpp-python (tools/llama_cpp.py: RELEASES), the last in one of llama-cpp-py-sync
/// (python/tests/llama_cpp/test_newer_ggml.py).
inline constexpr GgmlVersion oldest_ggml = {0, 15, 1};
inline constexpr GgmlVersion newest_ggml = {0, 27, 0};

/// "this is ggml 0.28.0", or that it does not say its version. `version`: as ggml_version() has it,
/// "0.25.3", perhaps with a suffix behind a '-' or a '+'; or null.
[[nodiscard]] std::string name_of_ggml(const char* version);

/// "0.15.1 to 0.27.0"
[[nodiscard]] std::string tested_range();

/// Why a ggml of this version is not served: it is older than the first. Empty otherwise, and where
/// no version can be read.
[[nodiscard]] std::string refuse_version(const char* version);

/// What is said where a ggml is served that the device is not tested in: it is later than the last,
/// or no version can be read. Empty otherwise.
[[nodiscard]] std::string warn_of_version(const char* version);

}  // namespace ggml_folio
