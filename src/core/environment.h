// SPDX-License-Identifier: Apache-2.0
/// src/core/environment.h: the one place that reads environment variables.
///
/// | variable | meaning |
/// | --- | --- |
/// | FOLIO_FORCE_KERNEL | the kernel that Attention::create uses unless its caller names one |
/// | FOLIO_FORCE_INDEX_KERNEL | the same of Index::create |
#pragma once

namespace folio::inline v1 {

/// Values when the process first asked; null when unset or empty. Thread safe.
[[nodiscard]] const char* forced_kernel() noexcept;
[[nodiscard]] const char* forced_index_kernel() noexcept;

}  // namespace folio::inline v1
