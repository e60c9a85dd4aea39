// SPDX-License-Identifier: Apache-2.0
/// tier/disk/disk_directory.cpp: lists and checks.
#include "folio/tier/disk_directory.h"

#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "tier/disk/contents.h"

namespace folio::inline v1::tier {
namespace {

constexpr size_t most_faults = 100;
constexpr size_t records_at_once = 1024;

Status no_memory(const char* call) {
  return fail(Errc::out_of_memory, "{}: no memory for what the directory has", call);
}

void add_fault(DiskCheck& check, std::string fault) {
  if (check.faults.size() < most_faults) check.faults.push_back(std::move(fault));
}

void take(DiskCheck& check, const tier::RecordAt& record, const std::string& path) {
  const auto fault = [&](const char* what) {
    add_fault(check, path + ": the page at " + std::to_string(record.place.offset) + " " + what);
  };
  switch (record.fault) {
    case tier::RecordFault::none:
      ++check.pages;
      check.bytes += record.page_bytes;
      return;
    case tier::RecordFault::unfinished: ++check.unfinished; return;
    case tier::RecordFault::corrupt: ++check.corrupt; return fault("is corrupt");
    case tier::RecordFault::unreadable:
      ++check.unreadable;
      return fault(std::strerror(record.error));
  }
}

Status check_segment(DiskCheck& check, const tier::Contents& contents,
                     const tier::ContentSegment& segment) {
  const std::string path = contents.files.path_of(segment.scan.number);
  check.damaged += segment.scan.damaged;
  check.dropped += segment.scan.dropped;
  check.unfinished += segment.scan.unfinished;
  if (segment.scan.damaged > 0)
    add_fault(check, path + ": " + std::to_string(segment.scan.damaged) + " damaged places");
  if (segment.scan.error != 0) {
    ++check.unreadable;
    add_fault(check, path + ": " + std::strerror(segment.scan.error));
  }
  std::vector<tier::RecordAt> records;
  for (size_t i = 0; i < segment.records.size(); ++i) {
    if (segment.records[i].is_shadowed) continue;
    records.push_back(contents.at(segment, segment.records[i].page));
    if (records.size() < records_at_once && i + 1 < segment.records.size()) continue;
    if (Status s = tier::check_records(records, *contents.io); !s.is_ok()) return s;
    for (const tier::RecordAt& record : records) take(check, record, path);
    records.clear();
  }
  if (Status s = tier::check_records(records, *contents.io); !s.is_ok()) return s;
  for (const tier::RecordAt& record : records) take(check, record, path);
  return {};
}

}  // namespace

Result<DiskListing> list_disk_directory(std::string_view directory) noexcept {
  try {
    Result<tier::Contents> contents = tier::Contents::open(directory);
    if (!contents) return contents.error();
    DiskListing listing;
    for (const tier::ContentSegment& segment : contents->segments) {
      const size_t before = listing.pages.size();
      for (const tier::ContentRecord& record : segment.records)
        if (!record.is_shadowed) listing.pages.push_back(record.page);
      listing.segments.push_back({.number = segment.scan.number,
                                  .bytes = segment.bytes,
                                  .live_bytes = segment.live_bytes(),
                                  .pages = static_cast<int64_t>(listing.pages.size() - before)});
    }
    listing.bytes = contents->bytes();
    return listing;
  } catch (const std::bad_alloc&) {
    return no_memory("list_disk_directory");
  }
}

Result<DiskCheck> check_disk_directory(std::string_view directory) noexcept {
  try {
    Result<tier::Contents> contents = tier::Contents::open(directory);
    if (!contents) return contents.error();
    DiskCheck check;
    check.unreadable = std::ssize(contents->unopened);
    for (const std::string& fault : contents->unopened) add_fault(check, fault);
    for (const tier::ContentSegment& segment : contents->segments)
      if (Status s = check_segment(check, *contents, segment); !s.is_ok()) return s;
    return check;
  } catch (const std::bad_alloc&) {
    return no_memory("check_disk_directory");
  }
}

}  // namespace folio::inline v1::tier
