// SPDX-License-Identifier: Apache-2.0
/// pool/lookup/namespaces.h: the (salt, adapter) pairs that keep tenants apart; each is where
/// chains of page contents begin.
///
/// A namespace is in use while one of its sequences lives; otherwise it is idle and may be
/// forgotten, least recently used first, to make room for another. Its content is never used again,
/// so that its cached pages can only age out, not be found by someone else.
#pragma once

#include <cstdint>
#include <string_view>

#include "pool/lookup/prefix_index.h"
#include "pool/pages/links.h"

namespace folio::inline v1::pool {

inline constexpr uint32_t no_namespace = no_entry;

struct Namespace {
  uint64_t content = 0;  ///< parent of its first pages; 0: never used
  uint64_t adapter = 0;
  uint32_t hash = 0;
  uint32_t users = 0;                                     ///< living sequences
  uint32_t previous = no_namespace, next = no_namespace;  ///< among the idle ones
  uint32_t bucket_next = no_namespace;
  uint32_t salt_bytes = 0;
  char salt[PagePool::max_salt_bytes] = {};
};

class Namespaces {
 public:
  [[nodiscard]] static int64_t num_buckets(int64_t capacity) noexcept;

  /// `index` gives hashes and contents.
  void attach(Namespace* entries, uint32_t* buckets, uint32_t capacity,
              PrefixIndex* index) noexcept;

  [[nodiscard]] uint32_t find(std::string_view salt, uint64_t adapter) const noexcept;
  /// Content (0 without one) and hash of the namespace. Any thread, as
  /// `PrefixIndex::observe_content`.
  struct Observed {
    uint64_t content = 0;
    uint32_t hash = 0;
  };
  [[nodiscard]] Observed observe_content(std::string_view salt, uint64_t adapter) const noexcept;
  /// The namespace, new if need be, with one user more. Needs an idle or unused entry.
  [[nodiscard]] uint32_t open(std::string_view salt, uint64_t adapter) noexcept;
  void retain(uint32_t i) noexcept { ++entries_[i].users; }
  void close(uint32_t i) noexcept;

  [[nodiscard]] const Namespace& operator[](uint32_t i) const noexcept { return entries_[i]; }
  [[nodiscard]] uint32_t capacity() const noexcept { return capacity_; }
  /// Namespaces in the fullest bucket. For tests.
  [[nodiscard]] uint32_t longest_chain() const noexcept;

 private:
  void forget(uint32_t i) noexcept;
  [[nodiscard]] uint32_t find(uint32_t hash, std::string_view salt,
                              uint64_t adapter) const noexcept;
  [[nodiscard]] uint32_t& bucket(uint32_t hash) const noexcept {
    return buckets_[hash & bucket_mask_];
  }

  Namespace* entries_ = nullptr;
  uint32_t* buckets_ = nullptr;
  PrefixIndex* index_ = nullptr;
  uint64_t bucket_mask_ = 0;
  uint32_t capacity_ = 0;
  ListEnds idle_;  ///< the front one is forgotten next
};

}  // namespace folio::inline v1::pool
