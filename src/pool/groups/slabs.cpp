// SPDX-License-Identifier: Apache-2.0
/// pool/groups/slabs.cpp: who has which slab, and what can still be had.
#include "pool/groups/slabs.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>

namespace folio::inline v1::pool {
namespace {

/// The least common multiple of the sizes, each rounded up to a multiple of `unit`; 0 if it is
/// longer than `most`.
int64_t common_bytes(std::span<const int64_t> page_bytes, int64_t unit, int64_t most) {
  int64_t common = 1;
  for (const int64_t bytes : page_bytes) {
    if (bytes == 0) continue;
    const int64_t padded = (bytes + unit - 1) / unit * unit;
    const int64_t times = padded / std::gcd(common, padded);
    if (times > most / common) return 0;
    common *= times;
  }
  return common;
}

}  // namespace

SlabLayout lay_out_slabs(std::span<const int64_t> page_bytes, int64_t arena_bytes) {
  SlabLayout layout;
  const int64_t longest = *std::max_element(page_bytes.begin(), page_bytes.end());
  if (longest == 0) return layout;
  int64_t unit = 1;
  // with a unit as long as the longest page, all are one unit
  while ((layout.slab_bytes = common_bytes(page_bytes, unit, std::max(max_slab_bytes, unit))) == 0)
    unit *= 2;
  const int64_t slabs = arena_bytes / layout.slab_bytes;
  layout.num_slabs = static_cast<uint32_t>(std::min(slabs, int64_t{1} << 31));
  for (size_t g = 0; g < page_bytes.size(); ++g) {
    if (page_bytes[g] == 0) continue;
    layout.page_bytes[g] = (page_bytes[g] + unit - 1) / unit * unit;
    layout.pages_per_slab[g] = static_cast<uint32_t>(
        std::min(layout.slab_bytes / layout.page_bytes[g], int64_t{0x7fffffff}));
  }
  return layout;
}

void Slabs::carve(Carver& carver, const SlabLayout& layout, uint32_t groups) noexcept {
  layout_ = layout;
  groups_ = groups;
  slabs_ = carver.take<Slab>(layout.num_slabs);
  for (uint32_t g = 0; g < groups; ++g)
    pages_[g] = carver.take<Page>(int64_t{layout.num_slabs} * layout.pages_per_slab[g]);
}

void Slabs::start() noexcept {
  std::uninitialized_default_construct_n(slabs_, layout_.num_slabs);
  for (uint32_t g = 0; g < groups_; ++g) {
    std::uninitialized_default_construct_n(pages_[g], num_pages(g));
    counts_[g][static_cast<int>(PageUse::outside)] = num_pages(g);
  }
  for (uint32_t slab = 0; slab < layout_.num_slabs; ++slab) {
    append(slabs_, empty_, slab);
    ++empty_.count;
  }
}

uint32_t* Slabs::count_of(Slab& slab, PageUse use) noexcept {
  switch (use) {
    case PageUse::used: return &slab.used;
    case PageUse::cached: return &slab.cached;
    case PageUse::kept: return &slab.kept;
    case PageUse::outside:
    case PageUse::free: return nullptr;
  }
  return nullptr;
}

Slabs::Place Slabs::place_of(const Slab& slab) const noexcept {
  if (slab.used == 0 && slab.kept != 0) return Place::keeping;
  if (slab.used == 0) return slab.cached == 0 ? Place::empty : Place::idle;
  return slab.used < layout_.pages_per_slab[slab.owner] ? Place::partial : Place::full;
}

Slabs::List* Slabs::list_of(const Slab& slab) noexcept {
  switch (slab.place) {
    case Place::empty: return &empty_;
    case Place::idle: return &idle_;
    case Place::keeping: return &keeping_;
    case Place::partial: return &partial_[slab.owner];
    case Place::full: return nullptr;
  }
  return nullptr;
}

void Slabs::move(uint32_t number, Place to) noexcept {
  Slab& slab = slabs_[number];
  if (slab.place == to) return;
  if (List* const from = list_of(slab); from != nullptr) {
    take_out(slabs_, *from, number);
    --from->count;
  }
  slab.place = to;
  if (List* const list = list_of(slab); list != nullptr) {
    append(slabs_, *list, number);
    ++list->count;
  }
}

void Slabs::change(uint32_t group, uint32_t page, PageUse use) noexcept {
  const uint32_t per = layout_.pages_per_slab[group];
  const uint32_t number = page / per;
  Slab& slab = slabs_[number];
  Page& p = pages_[group][page];
  if (slab.used != 0) bound_[group] -= per - slab.used;
  if (uint32_t* const was = count_of(slab, p.use); was != nullptr) --*was;
  if (uint32_t* const is = count_of(slab, use); is != nullptr) ++*is;
  if (slab.used != 0) bound_[group] += per - slab.used;
  if (p.use == PageUse::used) slab.since = p.since = ++clock_;
  --counts_[group][static_cast<int>(p.use)];
  ++counts_[group][static_cast<int>(use)];
  p.use = use;
  move(number, place_of(slab));
}

uint64_t Slabs::slabs_needed(const uint32_t (&needs)[max_groups],
                             const Revived& revived) const noexcept {
  uint64_t slabs = 0;
  for (uint32_t g = 0; g < groups_; ++g) {
    const uint64_t per = layout_.pages_per_slab[g];
    slabs += revived.slabs[g];
    const uint64_t bound = bound_[g] + per * revived.slabs[g] - revived.pages[g];
    if (per == 0 || needs[g] <= bound) continue;
    slabs += (needs[g] - bound + per - 1) / per;
  }
  return slabs;
}

void Slabs::revive(uint32_t group, uint32_t page, Revived& revived) noexcept {
  Slab& slab = slabs_[page / layout_.pages_per_slab[group]];
  ++revived.pages[group];
  if (slab.used != 0 || std::exchange(slab.is_counted, true)) return;
  ++revived.slabs[group];
}

bool Slabs::can_give(const uint32_t (&needs)[max_groups], const Revived& revived) const noexcept {
  return slabs_needed(needs, revived) <= spare();
}

const char* Slabs::fault() const noexcept {
  uint32_t counts[max_groups][num_page_uses] = {}, bound[max_groups] = {}, places[num_places] = {};
  for (uint32_t number = 0; number < layout_.num_slabs; ++number) {
    const Slab& slab = slabs_[number];
    Slab counted;
    for (uint32_t g = 0; g < groups_; ++g) {
      for (uint32_t i = 0; i < layout_.pages_per_slab[g]; ++i) {
        const PageUse use = pages_[g][first_page(g, number) + i].use;
        ++counts[g][static_cast<int>(use)];
        if ((use == PageUse::outside) == (g == slab.owner)) return "a page is another group's";
        if (uint32_t* const count = count_of(counted, use); count != nullptr) ++*count;
      }
    }
    if (counted.used != slab.used || counted.cached != slab.cached || counted.kept != slab.kept)
      return "a slab's pages are miscounted";
    if (place_of(slab) != slab.place) return "a slab is in the wrong list";
    ++places[static_cast<int>(slab.place)];
    if (slab.used != 0) bound[slab.owner] += layout_.pages_per_slab[slab.owner] - slab.used;
  }
  uint32_t partial = 0;
  for (uint32_t g = 0; g < groups_; ++g) {
    partial += partial_[g].count;
    if (bound[g] != bound_[g]) return "the pages of bound slabs are miscounted";
    if (!std::equal(counts[g], counts[g] + num_page_uses, counts_[g]))
      return "uses of pages are miscounted";
  }
  const uint32_t listed[] = {empty_.count, idle_.count, keeping_.count, partial};
  if (!std::equal(std::begin(listed), std::end(listed), places))
    return "lists of slabs are miscounted";
  return nullptr;
}

}  // namespace folio::inline v1::pool
