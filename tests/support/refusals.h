// SPDX-License-Identifier: Apache-2.0
/// tests/support/refusals.h: tables of broken calls: which argument is broken, how, and which words
/// the message must have.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "folio/core/status.h"
#include "support/test_plane.h"

namespace folio::test {

/// A plane with computed scales: the one with most to get wrong.
inline PlaneSpec scaled_spec() {
  PlaneSpec spec;
  spec.dtype = DType::f8_e4m3;
  spec.scales = {DType::f32, 8, true, true, true, true};
  return spec;
}

/// One mistake. `words` are parts of the message, beside the function's name and "expected".
template <class Call>
struct Broken {
  const char* argument;
  std::function<void(Call&)> breaks;
  std::vector<const char*> words;
  Errc code = Errc::invalid_argument;
};

/// Call is made of sound arguments, run() calls `function` with them, written() is what it may
/// write. The call succeeds unbroken, and a broken one writes nothing.
template <class Call>
void expect_refused(const char* function, const std::vector<Broken<Call>>& table) {
  Call sound;
  const Status unbroken = sound.run();
  ASSERT_TRUE(unbroken.is_ok()) << function << ": " << unbroken.message();
  for (const Broken<Call>& row : table) {
    SCOPED_TRACE(std::string(function).append(", broken: ").append(row.argument));
    Call call;
    row.breaks(call);
    const std::vector<std::byte> before = call.written();
    const Status status = call.run();
    const std::string message(status.message());
    EXPECT_EQ(status.code(), row.code) << message;
    EXPECT_EQ(message.rfind(function, 0), 0u) << message;
    EXPECT_NE(message.find("expected"), std::string::npos) << message;
    for (const char* word : row.words)
      EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
    EXPECT_EQ(call.written(), before) << "nothing is written";
  }
}

}  // namespace folio::test
