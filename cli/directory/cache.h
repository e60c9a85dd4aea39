// SPDX-License-Identifier: Apache-2.0
/// cli/directory/cache.h: `folio cache`: what lies in a disk tier's directory.
#pragma once

#include <cstdint>
#include <string>

#include "folio/core/status.h"

namespace CLI {  // NOLINT(readability-identifier-naming): of the library that reads options
class App;
}

namespace folio::inline v1::tier {
struct DiskListing;
struct DiskCheck;
struct DiskCompaction;
}  // namespace folio::inline v1::tier

namespace folio::cli {

struct CacheOptions {
  enum class Command : uint8_t { ls, check, compact };
  Command command = Command::ls;
  std::string directory;
  std::string json;    ///< a file; empty: none
  bool names = false;  ///< a line for each page
  int64_t segment_mib = 256;
};

void add_cache_options(CLI::App& app, CacheOptions& options);

/// Prints what it found or did. Errors: internal where pages have been damaged; those of
/// folio/tier/disk_directory.h; unsupported where the tool has no tiers; io for `--json`
Status run_cache(const CacheOptions& options);

/// For people and as JSON; `now` in seconds since 1970.
std::string text_of(const tier::DiskListing& listing, const CacheOptions& options, int64_t now);
std::string json_of(const tier::DiskListing& listing);
std::string text_of(const tier::DiskCheck& check);
std::string json_of(const tier::DiskCheck& check);
std::string text_of(const tier::DiskCompaction& done);
std::string json_of(const tier::DiskCompaction& done);

}  // namespace folio::cli
