// SPDX-License-Identifier: Apache-2.0
/// pool/eviction/eviction.cpp: least recently used, S3-FIFO, and LFU with dynamic ageing.
#include "pool/eviction/eviction.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace folio::inline v1::pool {
namespace {

bool has_pages_from(const PageLists& lists, int first_queue) {
  for (int q = first_queue; q < num_queues; ++q) {
    if (lists.count(queue(q)) != 0) return true;
  }
  return false;
}

}  // namespace

void EvictionPolicy::given_up(uint32_t, uint32_t) noexcept {}

const char* Lru::fault() const noexcept {
  return has_pages_from(*lists_, 1) ? "a page is in a queue that LRU has not" : nullptr;
}

// ---- S3-FIFO

int64_t Ghosts::num_buckets(uint32_t capacity) noexcept {
  return static_cast<int64_t>(std::bit_ceil(uint64_t{capacity}));
}

void Ghosts::attach(Ghost* ring, uint32_t* buckets, uint32_t capacity) noexcept {
  ring_ = ring;
  buckets_ = buckets;
  capacity_ = capacity;
  bucket_mask_ = static_cast<uint32_t>(num_buckets(capacity) - 1);
  std::fill_n(buckets, num_buckets(capacity), none);
  std::fill_n(ring, capacity, Ghost());
}

void Ghosts::remember(uint32_t mark) noexcept {
  ring_[next_] = {mark, std::exchange(buckets_[mark & bucket_mask_], next_)};
  next_ = next_ + 1 == capacity_ ? 0 : next_ + 1;
}

bool Ghosts::remembers(uint32_t mark) const noexcept {
  uint32_t age = 0;
  for (uint32_t at = buckets_[mark & bucket_mask_]; at != none; at = ring_[at].older) {
    // a place that was overwritten holds another bucket's mark, or a younger one
    if (age_of(at) <= age || ((ring_[at].mark ^ mark) & bucket_mask_) != 0) return false;
    if (ring_[at].mark == mark) return true;
    age = age_of(at);
  }
  return false;
}

void S3Fifo::created(uint32_t page) noexcept {
  PageRecord& record = records_[page];
  if (ghosts_.remembers(record.hash)) record.use |= is_main;
}

void S3Fifo::add(uint32_t page) noexcept {
  lists_->push_back((records_[page].use & is_main) != 0 ? main : small, page);
}

void S3Fifo::found(uint32_t page) noexcept {
  uint8_t& use = records_[page].use;
  if ((use & times) != times) ++use;
}

void S3Fifo::to_main(uint32_t page) noexcept {
  lists_->unlink(page);
  lists_->push_back(main, page);
}

uint32_t S3Fifo::take() noexcept {
  for (;;) {
    const bool from_small = lists_->count(small) > lists_->count(main);
    const uint32_t page = lists_->front(from_small ? small : main);
    PageRecord& record = records_[page];
    if ((record.use & times) == 0) {
      if (!from_small) return page;
      ghosts_.remember(record.hash);
      return page;
    }
    record.use = from_small ? is_main : static_cast<uint8_t>(record.use - 1);
    to_main(page);
  }
}

const char* S3Fifo::fault() const noexcept {
  if (has_pages_from(*lists_, 2)) return "a page is in a queue that S3-FIFO has not";
  for (const PageList list : {small, main}) {
    for (uint32_t page = lists_->front(list); page != no_page; page = records_[page].next) {
      const bool belongs_to_main = (records_[page].use & is_main) != 0;
      if (belongs_to_main != (list == main)) return "a page is in the other queue of S3-FIFO";
    }
  }
  return nullptr;
}

// ---- Dynamic ageing

void AgedQueues::add(uint32_t page, uint8_t worth) noexcept {
  const uint64_t key = age_ + 1 + worth;
  const auto q = static_cast<int>(key % num_queues);
  present_ |= uint64_t{1} << q;
  lists_->push_back(queue(q), page);
}

void AgedLfu::found(uint32_t page) noexcept {
  uint8_t& use = records_[page].use;
  if (use != AgedQueues::most) ++use;
}

uint32_t AgedQueues::take() noexcept {
  static_assert(num_queues == 64, "a bit for each queue");
  for (;;) {
    const int shift = static_cast<int>(age_ % num_queues);
    age_ += static_cast<uint64_t>(std::countr_zero(std::rotr(present_, shift)));
    const auto q = static_cast<int>(age_ % num_queues);
    if (lists_->count(queue(q)) != 0) return lists_->front(queue(q));
    present_ &= ~(uint64_t{1} << q);  // its pages were found, or are gone
  }
}

const char* AgedQueues::fault() const noexcept {
  for (int q = 0; q < num_queues; ++q) {
    if (lists_->count(queue(q)) != 0 && (present_ >> q & 1) == 0)
      return "a queue of a key has pages and no bit";
  }
  return nullptr;
}

}  // namespace folio::inline v1::pool
