// SPDX-License-Identifier: Apache-2.0
/// tier/record_bytes.cpp: what a page takes in each kind of tier.
#include "folio/tier/disk_tier.h"
#include "folio/tier/host_tier.h"
#include "folio/tier/redis_tier.h"
#include "tier/disk/record.h"

namespace folio::inline v1::tier {
namespace {

Status check(const char* call, int64_t page_bytes) noexcept {
  if (page_bytes >= 1 && page_bytes <= tier::most_page_bytes) return {};
  return fail(Errc::invalid_argument, "{}: page_bytes is {}, expected 1 .. {}", call, page_bytes,
              tier::most_page_bytes);
}

Result<int64_t> with_header(const char* call, int64_t page_bytes) noexcept {
  if (Status s = check(call, page_bytes); !s.is_ok()) return s;
  return page_bytes + static_cast<int64_t>(sizeof(tier::PayloadHeader));
}

}  // namespace

Result<int64_t> host_record_bytes(int64_t page_bytes) noexcept {
  return with_header("host_record_bytes", page_bytes);
}

Result<int64_t> redis_record_bytes(int64_t page_bytes) noexcept {
  return with_header("redis_record_bytes", page_bytes);
}

Result<int64_t> disk_record_bytes(int64_t page_bytes) noexcept {
  if (Status s = check("disk_record_bytes", page_bytes); !s.is_ok()) return s;
  return tier::record_bytes(page_bytes);
}

}  // namespace folio::inline v1::tier
