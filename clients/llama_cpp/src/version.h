// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/version.h: the versions of ggml whose insides this device knows.
///
/// The device fills ggml's internal tables (ggml-backend-impl.h) and takes the place of one of its
/// nodes: layouts that ggml may change in any release. What is known of them stands in layouts.cpp,
/// which is compiled with the headers of several versions; a module that is loaded compares the
/// version (ggml_version()) with this range, and the numbers of operations with their names.
///
/// The tests run in the versions that the releases of llama-cpp-python carry which
/// tools/llama_cpp.py names: RELEASES. A version between two of them is taken at the word of both,
/// whose layouts are the same.
#pragma once

#include <string>

namespace ggml_folio {

struct GgmlVersion {
  int major = 0;
  int minor = 0;
  int patch = 0;
  auto operator<=>(const GgmlVersion&) const = default;
};

/// The first and the last version that the device is tested in; both belong to the range.
inline constexpr GgmlVersion oldest_ggml = {0, 15, 1};
inline constexpr GgmlVersion newest_ggml = {0, 25, 3};

/// Why a ggml of this version and API version may not load the device, or an empty text.
/// `version`: as ggml_version() has it, "0.25.3", perhaps with a suffix behind a '-' or a '+'; null
/// is refused.
[[nodiscard]] std::string refuse_version(const char* version, int api_version);

}  // namespace ggml_folio
