// SPDX-License-Identifier: Apache-2.0
/// folio/core/export.h: marks what the shared library exports; every other symbol is hidden.
/// FOLIO_LOCAL hides a member of an
/// exported class.
#pragma once

#if defined(__GNUC__) || defined(__clang__)
#define FOLIO_EXPORT __attribute__((visibility("default")))
#define FOLIO_LOCAL __attribute__((visibility("hidden")))
#else
#define FOLIO_EXPORT
#define FOLIO_LOCAL
#endif
