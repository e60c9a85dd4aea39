// SPDX-License-Identifier: Apache-2.0
/// pool/eviction/timing_wheel.cpp: the digits of deadlines, and the lists that they name.
#include "pool/eviction/timing_wheel.h"

#include <algorithm>
#include <bit>

namespace folio::inline v1::pool {
namespace {

constexpr uint32_t digit_bits = 6;
constexpr uint32_t digit(uint64_t time, uint32_t wheel) {
  return static_cast<uint32_t>(time >> (digit_bits * wheel)) % TimingWheel::num_lists;
}

}  // namespace

void TimingWheel::attach(PerPage<Entry> entries, Entry* heads, uint32_t num_pages) noexcept {
  entries_ = entries;
  heads_ = heads;
  num_pages_ = num_pages;
  for (uint32_t i = 0; i < num_pages + num_wheels * num_lists; ++i)
    at(i) = {.previous = i, .next = i};
}

uint32_t TimingWheel::list_of(uint32_t deadline) const noexcept {
  const auto differing = static_cast<uint32_t>(std::bit_width(deadline ^ now()));
  // a digit beyond the last wheel's says that it has gone round
  const uint32_t wheel =
      std::min(differing == 0 ? 0 : (differing - 1) / digit_bits, num_wheels - 1);
  return wheel * num_lists + digit(deadline, wheel);
}

void TimingWheel::link(uint32_t page) noexcept {
  Entry& entry = entries_[page];
  const uint32_t list = list_of(entry.deadline);
  present_[list / num_lists] |= uint64_t{1} << list % num_lists;
  Entry& head = heads_[list];
  entry.previous = head.previous;
  entry.next = num_pages_ + list;
  at(head.previous).next = page;
  head.previous = page;
}

void TimingWheel::insert(uint32_t page, uint32_t ticks) noexcept {
  entries_[page].deadline = now() + ticks;
  link(page);
}

void TimingWheel::remove(uint32_t page) noexcept {
  Entry& entry = entries_[page];
  at(entry.previous).next = entry.next;
  at(entry.next).previous = entry.previous;
  entry.previous = entry.next = page;
}

void TimingWheel::replace(uint32_t page, uint32_t other) noexcept {
  const Entry& entry = entries_[other] = entries_[page];
  at(entry.previous).next = at(entry.next).previous = other;
  entries_[page].previous = entries_[page].next = page;
}

uint32_t TimingWheel::lists_ahead(uint32_t wheel) const noexcept {
  const uint64_t from_now = std::rotr(present_[wheel], static_cast<int>(digit(now_, wheel)));
  return static_cast<uint32_t>(std::countr_zero(from_now));
}

uint32_t TimingWheel::next_list(uint64_t end) noexcept {
  for (uint32_t wheel = 0; wheel < num_wheels;) {
    const uint32_t ahead = lists_ahead(wheel);
    if (ahead == num_lists) {  // all pages of this wheel come before those of the next one
      ++wheel;
      continue;
    }
    const uint32_t place = (digit(now_, wheel) + ahead) % num_lists;
    const uint32_t list = wheel * num_lists + place;
    if (front(list) == none) {  // its pages have left
      present_[wheel] &= ~(uint64_t{1} << place);
      continue;
    }
    const uint32_t shift = digit_bits * wheel;
    const uint64_t time = ahead == 0 ? now_ : ((now_ >> shift) + ahead) << shift;
    if (time > end) return none;
    now_ = time;
    return list;
  }
  return none;
}

const char* TimingWheel::fault(uint32_t* count) const noexcept {
  *count = 0;
  for (uint32_t list = 0; list < num_wheels * num_lists; ++list) {
    uint32_t previous = num_pages_ + list;
    for (uint32_t page = heads_[list].next; page != num_pages_ + list; page = at(page).next) {
      if (page >= num_pages_ || entries_[page].previous != previous || ++*count > num_pages_)
        return "a list of the timing wheel is broken";
      if (remaining(page) == 0 || remaining(page) > longest ||
          list_of(entries_[page].deadline) != list)
        return "a page is in another list of the timing wheel than its deadline's";
      if ((present_[list / num_lists] >> list % num_lists & 1) == 0)
        return "a list of the timing wheel has pages and no bit";
      previous = page;
    }
    if (heads_[list].previous != previous) return "a list of the timing wheel is broken";
  }
  return nullptr;
}

}  // namespace folio::inline v1::pool
