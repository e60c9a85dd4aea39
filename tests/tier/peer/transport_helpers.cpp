// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/transport_helpers.cpp: ends of each kind of transport, for tests.
#include "tier/peer/transport_helpers.h"

namespace folio::test {

std::vector<TransportKind> transport_kinds() {
  std::vector<TransportKind> kinds;
  const auto network = std::make_shared<InProcessNetwork>();
  kinds.push_back({"in_process", [network](const TransportOptions& options) {
                     return network->make_end(options);
                   }});
  kinds.push_back({"shared_memory", [](const TransportOptions& options) {
                     return make_shared_memory_transport(options);
                   }});
#ifdef __SANITIZE_THREAD__
  std::printf("[  absent  ] ucx_tcp: UCX ends by a signal under ThreadSanitizer\n");
  return kinds;
#endif
  const auto make_ucx = [](const TransportOptions& options) {
    return make_ucx_transport(options, {.transports = "tcp"});
  };
  if (const auto there = make_ucx({})) {
    kinds.push_back({"ucx_tcp", make_ucx});
  } else {
    std::printf("[  absent  ] ucx_tcp: %s\n", std::string(there.error().message()).c_str());
  }
  return kinds;
}

}  // namespace folio::test
