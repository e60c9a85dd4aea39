// SPDX-License-Identifier: Apache-2.0
/// cli/directory/cache.cpp: what `folio cache` does.
#include "directory/cache.h"

#include <fmt/format.h>

#include <ctime>

#include "folio/tier/disk_directory.h"
#include "parts/output_file.h"
#include "parts/output_place.h"
#include "parts/streams.h"

namespace folio::cli {
namespace {

Status report(const std::string& text, const std::string& json, OutputFile& file) {
  show(text);
  return file.write(json);
}

Status list(const CacheOptions& options, OutputFile& file) {
  const Result<DiskListing> listing = list_disk_directory(options.directory);
  if (!listing) return listing.error();
  return report(text_of(*listing, options, std::time(nullptr)), json_of(*listing), file);
}

Status check(const CacheOptions& options, OutputFile& file) {
  const Result<DiskCheck> checked = check_disk_directory(options.directory);
  if (!checked) return checked.error();
  Status verdict;
  if (!checked->is_sound())
    verdict = {Errc::internal, fmt::format("{} is damaged", options.directory)};
  return joined(verdict, report(text_of(*checked), json_of(*checked), file));
}

Status compact(const CacheOptions& options, OutputFile& file) {
  const Result<DiskCompaction> done =
      compact_disk_directory(options.directory, options.segment_mib << 20);
  return done ? report(text_of(*done), json_of(*done), file) : done.error();
}

}  // namespace

Status run_cache(const CacheOptions& options) {
  const NamedPath outputs[] = {{"--json", options.json}};
  const NamedPath directories[] = {{"the tier", options.directory}};
  if (Status s = check_outputs(outputs, {}, directories); !s.is_ok()) return s;
  OutputFile file("--json");
  if (Status s = file.open(options.json); !s.is_ok()) return s;
  switch (options.command) {
    case CacheOptions::Command::ls: return list(options, file);
    case CacheOptions::Command::check: return check(options, file);
    case CacheOptions::Command::compact: return compact(options, file);
  }
  return {Errc::invalid_argument, "no such command"};
}

}  // namespace folio::cli
