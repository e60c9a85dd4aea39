// SPDX-License-Identifier: Apache-2.0
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
  return kinds;
}

}  // namespace folio::test
