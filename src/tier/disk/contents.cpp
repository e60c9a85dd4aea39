// SPDX-License-Identifier: Apache-2.0
/// tier/disk/contents.cpp: an open directory with all records.
#include "tier/disk/contents.h"

#include <map>
#include <utility>

#include "tier/checks.h"

namespace folio::inline v1::tier {
namespace {

constexpr uint32_t depth = 32;
constexpr int64_t timeout_ms = 60'000;

}  // namespace

int64_t ContentSegment::live_bytes() const {
  int64_t live = 0;
  for (const ContentRecord& record : records)
    if (!record.is_shadowed) live += record_bytes(record.page.bytes);
  return live;
}

int64_t Contents::bytes() const {
  int64_t bytes = 0;
  for (const ContentSegment& segment : segments) bytes += segment.bytes;
  return bytes;
}

Result<Contents> Contents::open(std::string_view directory) {
  if (Status s = check_memory("disk tier", "directory", directory.data(), directory.size());
      !s.is_ok())
    return s;
  if (directory.empty() || directory.find('\0') != std::string_view::npos)
    return fail(Errc::invalid_argument,
                "disk tier: directory is \"{}\", expected a path without a null byte", directory);
  Result<Files> files = Files::open(std::string(directory), Files::If::there);
  if (!files) return files.error();
  Contents contents(std::move(*files));
  contents.io = make_file_io(depth, timeout_ms);
  if (Status s = contents.read(); !s.is_ok()) return s;
  return contents;
}

Status Contents::read() {
  Result<std::vector<SegmentFile>> listed = files.list();
  if (!listed) return listed.error();
  std::vector<SegmentScan> scans;
  for (const SegmentFile& listed_file : *listed) {
    Result<File> file = files.open_segment(listed_file.number, Files::Open::existing, *io);
    if (!file) {
      unopened.emplace_back(file.error().message());
      continue;
    }
    scans.push_back(
        {.file = file->get(), .number = listed_file.number, .bytes = listed_file.bytes});
    segments.push_back(
        {.file = std::move(*file), .scan = {}, .bytes = listed_file.bytes, .records = {}});
  }
  Status s =
      scan(scans, files.number(), *io, [&](size_t index, const DiskHeader& header, int64_t offset) {
        const DiskPage page{header.page.name, header.page.bytes, header.stored_at, header.segment,
                            offset};
        segments[index].records.push_back({page});
      });
  for (size_t i = 0; i < scans.size(); ++i) segments[i].scan = scans[i];
  return s.is_ok() ? settle() : s;
}

/// As a tier does: the last one, if it is whole or none is.
Status Contents::settle() {
  std::map<PageName, std::pair<ContentSegment*, ContentRecord*>> last;
  for (ContentSegment& segment : segments)
    for (ContentRecord& record : segment.records) {
      const auto [at, is_new] = last.try_emplace(record.page.name, std::pair(&segment, &record));
      if (is_new) continue;
      RecordAt later = this->at(segment, record.page);
      if (Status s = check_records({&later, 1}, *io); !s.is_ok()) return s;
      if (later.fault != RecordFault::none) {
        record.is_shadowed = true;
        continue;
      }
      at->second.second->is_shadowed = true;
      at->second = {&segment, &record};
    }
  return {};
}

}  // namespace folio::inline v1::tier
