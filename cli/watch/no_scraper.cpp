// SPDX-License-Identifier: Apache-2.0
/// cli/watch/no_scraper.cpp: in a build without libcurl.
#include "watch/scraper.h"

namespace folio::cli {

// Nobody has an object of this class.
struct Scraper::State {
  MetricsReading reading;
  std::string fault;
};

Result<Scraper> Scraper::create(const std::string&, int64_t) {
  return Status(Errc::unsupported,
                "--metrics: this build has no libcurl (Debian: libcurl4-openssl-dev)");
}
bool Scraper::poll() { return false; }
Scraper::Scraper(std::unique_ptr<State> state) : state_(std::move(state)) {}
Scraper::Scraper(Scraper&&) noexcept = default;
Scraper& Scraper::operator=(Scraper&&) noexcept = default;
Scraper::~Scraper() = default;
const MetricsReading& Scraper::reading() const { return state_->reading; }
const std::string& Scraper::fault() const { return state_->fault; }

}  // namespace folio::cli
