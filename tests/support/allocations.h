// SPDX-License-Identifier: Apache-2.0
/// tests/support/allocations.h: counts the allocations of a test program, and makes them fail on
/// request.
///
/// Add support/allocations.cpp to the SOURCES of the test: it replaces the global operator new.
#pragma once

#include <cstdint>

namespace folio::test {

/// Calls of any operator new on this thread so far.
int64_t allocations() noexcept;

/// From now on every operator new of this thread fails: the nothrow forms return null, the others
/// throw std::bad_alloc.
void fail_allocations(bool fail) noexcept;
/// One operator new of this thread fails so: the one behind `count` others. Negative: none.
void fail_allocation_after(int64_t count) noexcept;

}  // namespace folio::test
