// SPDX-License-Identifier: Apache-2.0
/// tier/peer/ucx/no_ucx.cpp: stands for the transport in a build without UCX's headers.
#include "folio/tier/transports.h"

namespace folio::inline v1::tier {

Result<std::unique_ptr<Transport>> make_ucx_transport(const TransportOptions&,
                                                      const UcxOptions&) noexcept {
  return fail(Errc::unsupported, "make_ucx_transport: this build has no UCX (Debian: libucx-dev)");
}

}  // namespace folio::inline v1::tier
