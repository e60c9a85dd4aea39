// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/peer_conformance_test.cpp: pages of a server keep what every medium keeps, over
/// every transport.
#include <gtest/gtest.h>

#include <memory>

#include "folio/testing/medium_conformance.h"
#include "tier/peer/page_server_helpers.h"
#include "tier/peer/peer_medium.h"

namespace folio::test {
namespace {

class PeerMediumOverEvery : public PageServerTest {};

INSTANTIATE_TEST_SUITE_P(Kinds, PeerMediumOverEvery, ::testing::ValuesIn(transport_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(PeerMediumOverEvery, keeps_what_every_medium_keeps) {
  Server server(GetParam(), server_options(32));
  const auto make = [&](const TierOptions& options) -> Result<std::unique_ptr<tier::Medium>> {
    auto medium = std::make_unique<tier::PeerMedium>(GetParam().make({}).value(), server.address(),
                                                     options, no_deadline_ms);
    if (Status s = medium->open({}); !s.is_ok()) return s;
    return std::unique_ptr<tier::Medium>(std::move(medium));
  };
  const tier::MediumReport report = tier::check_medium({.make = make,
                                                        .options = {.max_bytes = 1},
                                                        .page_bytes = page_bytes,
                                                        .keeps = true,
                                                        .too_many_pages = 50,
                                                        .patience_ms = no_deadline_ms});
  EXPECT_TRUE(report.is_ok()) << report.text();
}

}  // namespace
}  // namespace folio::test
