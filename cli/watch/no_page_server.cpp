// SPDX-License-Identifier: Apache-2.0
/// cli/watch/no_page_server.cpp: in a build without CivetWeb.
#include "watch/page_server.h"

namespace folio::cli {

// Nobody has an object of this class.
struct PageServer::State {
  std::string address;
};

// NOLINTNEXTLINE(performance-unnecessary-value-param): of the server that there is
Result<PageServer> PageServer::start(int64_t, std::string, std::string) {
  return Status(Errc::unsupported, "--page: this build has no CivetWeb (Debian: libcivetweb-dev)");
}
void PageServer::show(std::string) {}  // NOLINT(performance-unnecessary-value-param)
PageServer::PageServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
PageServer::PageServer(PageServer&&) noexcept = default;
PageServer& PageServer::operator=(PageServer&&) noexcept = default;
PageServer::~PageServer() = default;
const std::string& PageServer::address() const { return state_->address; }

}  // namespace folio::cli
