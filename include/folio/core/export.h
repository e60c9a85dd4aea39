// SPDX-License-Identifier: Apache-2.0
/// folio/core/export.h: marks what the shared library exports; every other symbol is hidden.
#pragma once

#if defined(__GNUC__) || defined(__clang__)
#define FOLIO_EXPORT __attribute__((visibility("default")))
#else
#define FOLIO_EXPORT
#endif
