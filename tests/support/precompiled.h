// SPDX-License-Identifier: Apache-2.0
/// tests/support/precompiled.h: what nearly every test includes and nobody edits, compiled once. A
/// test includes what it uses all the same: preset `coverage` builds without this.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
