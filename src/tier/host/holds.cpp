// SPDX-License-Identifier: Apache-2.0
/// tier/host/holds.cpp: pages of an arena that somebody reads where they lie.
///
/// `held_` keeps the page's block alive, whatever becomes of its name: it is neither dropped nor
/// taken anew until its last hold has come back. Checksums are looked at without the lock, as
/// others go on meanwhile; two threads that hold a page for the first time both look.
#include <new>

#include "tier/host/host_medium.h"
#include "tier/payload.h"

namespace folio::inline v1::tier {

bool HostMedium::is_sound(const Stored& page) const noexcept {
  Soundness soundness = page.soundness.load(std::memory_order_relaxed);
  if (soundness == Soundness::unknown) {
    const Extent whole{page.bytes.data(), page.header.bytes};
    const bool is_right =
        fault_of(page.header, page.name, options_.fingerprint, arena_->page_bytes()) == nullptr &&
        crc_of({&whole, 1}) == page.header.crc;
    soundness = is_right ? Soundness::sound : Soundness::corrupt;
    page.soundness.store(soundness, std::memory_order_relaxed);
  }
  return soundness == Soundness::sound;
}

int32_t HostMedium::hold_one(const PageName& name) {
  const Page there = pages_.use(name);
  if (there == nullptr) return -1;
  const int32_t page = arena_->page_of(there->bytes.data());
  Held& held = held_[page];
  if (held.holds++ == 0) held.page = pages_.hold(name);
  return page;
}

void HostMedium::give_back_one(int32_t page) noexcept {
  const auto at = held_.find(page);
  if (at == held_.end() || --at->second.holds != 0) return;
  pages_.give_back(at->second.page);
  held_.erase(at);
}

Status HostMedium::hold(std::span<const PageName> names, std::span<int32_t> pages) noexcept {
  size_t held = 0;
  try {
    const std::lock_guard lock(mutex_);
    for (; held < names.size(); ++held) pages[held] = hold_one(names[held]);
  } catch (const std::bad_alloc&) {
    give_back(pages.first(held));
    return fail(Errc::out_of_memory, "HostTier::hold: no memory for holds of {} pages",
                names.size());
  }
  for (int32_t& page : pages) {
    if (page < 0) continue;
    const Stored* stored = nullptr;
    {
      const std::lock_guard lock(mutex_);
      stored = held_.find(page)->second.page.get();  // stays, as it is held
    }
    if (is_sound(*stored)) continue;
    give_back({&page, 1});
    page = -1;
  }
  return {};
}

void HostMedium::give_back(std::span<const int32_t> pages) noexcept {
  const std::lock_guard lock(mutex_);
  for (const int32_t page : pages) give_back_one(page);
}

}  // namespace folio::inline v1::tier
