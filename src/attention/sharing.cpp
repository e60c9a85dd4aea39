// SPDX-License-Identifier: Apache-2.0
/// src/attention/sharing.cpp: the radix tree over table rows.
#include "attention/sharing.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace folio::inline v1 {
namespace {

constexpr uint32_t empty_bucket = UINT32_MAX;
constexpr int32_t no_node = -1;

/// Entries that both rows begin with, of `count`.
int64_t equal_entries(const uint32_t* a, const uint32_t* b, int64_t count) {
  if (a == b) return count;
  constexpr int64_t block = 64;
  int64_t i = 0;
  while (i + block <= count && std::memcmp(a + i, b + i, block * sizeof *a) == 0) i += block;
  while (i < count && a[i] == b[i]) ++i;
  return i;
}

class Tree {
 public:
  Tree(const PageTable& table, int64_t page_size, std::span<const Hull> hulls, int64_t cut,
       const SharingMemory& memory)
      : table_(table), page_size_(page_size), hulls_(hulls), cut_(cut), memory_(memory) {
    const auto batch = static_cast<int64_t>(hulls.size());
    const int64_t buckets = sharing_buckets(batch);
    std::fill_n(memory.buckets, buckets, empty_bucket);
    mask_ = static_cast<uint32_t>(buckets - 1);
  }

  void insert(int32_t sequence) {
    const int32_t end = end_of(sequence);
    int32_t node = no_node;
    for (int32_t key = 0; key < end;) {
      const Found found = find(node, sequence, key, end);
      if (found.node == no_node) {
        node = add({.key_end = end, .parent = node, .first_sequence = sequence, .hash = found.hash},
                   found.bucket);
      } else if (found.shared_end < memory_.nodes[found.node].key_end) {
        node = split(found);
      } else {
        node = found.node;
      }
      ++memory_.nodes[node].members;
      key = found.node == no_node ? end : found.shared_end;
    }
    memory_.last_nodes[sequence] = node;
  }

  /// After all sequences: `order` and the ranges. A node's lowest sequence is its first in `order`,
  /// so that places can be given in the order of sequences, and ranges in the order of places.
  int32_t number() {
    const auto batch = static_cast<int32_t>(hulls_.size());
    int32_t places = 0;
    for (int32_t b = 0; b < batch; ++b)
      if (memory_.last_nodes[b] != no_node) place(b, places);
    int32_t ranges = 0;
    for (int32_t i = 0; i < places; ++i) ranges = number_chain(memory_.order[i], i, ranges);
    return ranges;
  }

 private:
  struct Found {
    int32_t node = no_node;  // the child, or none
    uint32_t hash = 0;
    uint32_t bucket = 0;     // where it is, or would be
    int32_t shared_end = 0;  // of the keys that it has in common with the sequence
  };

  /// The last key that may be shared, rounded down to a step.
  [[nodiscard]] int32_t end_of(int32_t sequence) const {
    const Hull& hull = hulls_[static_cast<size_t>(sequence)];
    if (!hull.takes_part || hull.begin != 0 || hull.end <= 0) return 0;
    return static_cast<int32_t>(hull.end / cut_ * cut_);
  }
  [[nodiscard]] const uint32_t* row(int32_t sequence) const {
    return table_.entries + table_.row_start(sequence);
  }
  [[nodiscard]] int64_t pages_until(int64_t key) const {
    return (key + page_size_ - 1) / page_size_;
  }

  /// Of the entries of the step that begins at `key`.
  [[nodiscard]] uint32_t hash_of(int32_t node, int32_t sequence, int64_t key) const {
    const uint32_t* const entries = row(sequence);
    uint64_t hash = static_cast<uint32_t>(node) + 1u;
    for (int64_t p = key / page_size_; p < pages_until(key + cut_); ++p) {
      hash = (hash ^ entries[p]) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    }
    return static_cast<uint32_t>(hash);
  }

  /// Where the keys of two sequences part, which are the same up to `key`: a
  /// multiple of the step, at most `end`, and at most `key` where they part within its step.
  [[nodiscard]] int32_t shared_end(int32_t a, int32_t b, int64_t key, int32_t end) const {
    const int64_t first = key / page_size_, pages = pages_until(end) - first;
    const int64_t same = equal_entries(row(a) + first, row(b) + first, pages);
    if (same == pages) return end;
    return static_cast<int32_t>((first + same) * page_size_ / cut_ * cut_);
  }

  /// The child of `node` that begins as the sequence goes on at `key`.
  [[nodiscard]] Found find(int32_t node, int32_t sequence, int32_t key, int32_t end) const {
    const uint32_t hash = hash_of(node, sequence, key);
    for (uint32_t bucket = hash & mask_;; bucket = (bucket + 1) & mask_) {
      if (memory_.buckets[bucket] == empty_bucket) return {no_node, hash, bucket, key};
      const auto child = static_cast<int32_t>(memory_.buckets[bucket]);
      const SharingNode& candidate = memory_.nodes[child];
      if (candidate.parent != node || candidate.hash != hash) continue;
      const int32_t shared =
          shared_end(candidate.first_sequence, sequence, key, std::min(end, candidate.key_end));
      if (shared > key) return {child, hash, bucket, shared};
    }
  }

  /// A node in a bucket that is free, or that of the node it takes the place of.
  int32_t add(const SharingNode& node, uint32_t bucket) {
    memory_.nodes[size_] = node;
    memory_.buckets[bucket] = static_cast<uint32_t>(size_);
    return size_++;
  }

  /// A node for what the found one has in common with the sequence, in its place; the found one
  /// goes on behind it.
  int32_t split(const Found& found) {
    SharingNode& rest = memory_.nodes[found.node];
    SharingNode common = rest;
    common.key_end = found.shared_end;
    rest.parent = add(common, found.bucket);
    rest.hash = hash_of(rest.parent, rest.first_sequence, found.shared_end);
    uint32_t bucket = rest.hash & mask_;
    while (memory_.buckets[bucket] != empty_bucket) bucket = (bucket + 1) & mask_;
    memory_.buckets[bucket] = static_cast<uint32_t>(found.node);
    return rest.parent;
  }

  /// Gives a sequence its place in `order`: the next of the lowest node that an earlier one has
  /// been in, whose nodes below get the places from there.
  void place(int32_t sequence, int32_t& places) {
    int32_t node = memory_.last_nodes[sequence], own_members = 1;
    const int32_t last = node;
    while (node != no_node && memory_.nodes[node].first_sequence == sequence) {
      own_members = memory_.nodes[node].members;
      node = memory_.nodes[node].parent;
    }
    int32_t& next = node == no_node ? places : memory_.nodes[node].next;
    const int32_t at = next;
    next += own_members;
    memory_.order[at] = sequence;
    int32_t behind = at + 1;
    for (int32_t own = last; own != node; own = memory_.nodes[own].parent) {
      memory_.nodes[own].next = behind;
      behind = at + memory_.nodes[own].members;
    }
  }

  /// Writes the ranges whose lowest sequence is this one, `at` its place; returns their number with
  /// those before.
  int32_t number_chain(int32_t sequence, int32_t at, int32_t ranges) {
    const auto is_own = [&](int32_t node) {
      return node != no_node && memory_.nodes[node].first_sequence == sequence;
    };
    int32_t all = ranges;
    const int32_t last = memory_.last_nodes[sequence];
    for (int32_t node = last; is_own(node); node = memory_.nodes[node].parent)
      all += memory_.nodes[node].members > 1 ? 1 : 0;
    int32_t number = all;
    for (int32_t node = last; is_own(node); node = memory_.nodes[node].parent) {
      SharingNode& own = memory_.nodes[node];
      if (own.members > 1) own.number = --number;
    }
    for (int32_t node = last; is_own(node); node = memory_.nodes[node].parent)
      write_range(memory_.nodes[node], at);
    return all;
  }

  void write_range(const SharingNode& node, int32_t first_member) {
    if (node.members < 2) return;
    SharedRange range{
        .key_end = node.key_end, .first_member = first_member, .members = node.members};
    if (node.parent != no_node) {
      const SharingNode& parent = memory_.nodes[node.parent];
      range.key_begin = parent.key_end;
      range.parent = parent.number;
    }
    memory_.ranges[node.number] = range;
  }

  const PageTable& table_;
  const int64_t page_size_;
  const std::span<const Hull> hulls_;
  const int64_t cut_;
  const SharingMemory& memory_;
  uint32_t mask_ = 0;
  int32_t size_ = 0;
};

}  // namespace

int64_t sharing_buckets(int64_t batch) noexcept {
  return static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(batch, 1)) * 4));
}

SharingMemory take_sharing_memory(Carver& carver, int64_t batch) noexcept {
  SharingMemory memory;
  memory.nodes = carver.take<SharingNode>(CheckedSize(batch) * 2);
  memory.buckets = carver.take<uint32_t>(sharing_buckets(batch));
  memory.last_nodes = carver.take<int32_t>(batch);
  memory.ranges = carver.take<SharedRange>(batch);
  memory.order = carver.take<int32_t>(batch);
  return memory;
}

std::span<const SharedRange> find_shared(const PageTable& table, int32_t page_size,
                                         std::span<const Hull> hulls, int32_t cut,
                                         const SharingMemory& memory) noexcept {
  Tree tree(table, page_size, hulls, cut, memory);
  const auto batch = static_cast<int32_t>(hulls.size());
  for (int32_t b = 0; b < batch; ++b) tree.insert(b);
  const int32_t ranges = tree.number();
  return {memory.ranges, static_cast<size_t>(ranges)};
}

}  // namespace folio::inline v1
