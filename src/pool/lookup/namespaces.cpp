// SPDX-License-Identifier: Apache-2.0
/// pool/lookup/namespaces.cpp: salts and adapters, compared byte by byte.
#include "pool/lookup/namespaces.h"

#include <bit>
#include <cstring>

#include "pool/outside/shared_chain.h"
#include "pool/outside/shared_word.h"

namespace folio::inline v1::pool {

int64_t Namespaces::num_buckets(int64_t capacity) noexcept {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(capacity)));
}

void Namespaces::attach(Namespace* entries, uint32_t* buckets, uint32_t capacity,
                        PrefixIndex* index) noexcept {
  entries_ = entries;
  buckets_ = buckets;
  index_ = index;
  capacity_ = capacity;
  const int64_t count = num_buckets(capacity);
  bucket_mask_ = static_cast<uint64_t>(count) - 1;
  for (int64_t i = 0; i < count; ++i) buckets_[i] = no_namespace;
  for (uint32_t i = 0; i < capacity; ++i) append(entries_, idle_, i);
}

uint32_t Namespaces::find(std::string_view salt, uint64_t adapter) const noexcept {
  return find(index_->hash(salt, adapter), salt, adapter);
}

uint32_t Namespaces::find(uint32_t hash, std::string_view salt, uint64_t adapter) const noexcept {
  for (uint32_t i = bucket(hash); i != no_namespace; i = entries_[i].bucket_next) {
    const Namespace& entry = entries_[i];
    if (entry.adapter == adapter && std::string_view(entry.salt, entry.salt_bytes) == salt)
      return i;
  }
  return no_namespace;
}

Namespaces::Observed Namespaces::observe_content(std::string_view salt,
                                                 uint64_t adapter) const noexcept {
  // By its hash alone: 32 bits of a seeded function, which no answer of the scheduler relies on.
  const uint32_t hash = index_->hash(salt, adapter);
  const SharedChain<Namespace> chain{.entries = entries_,
                                     .mark = &Namespace::content,
                                     .end = no_namespace,
                                     .steps = 2 * bucket_mask_ + 1000};
  const uint64_t content =
      chain.find(bucket(hash), [&](const Namespace& entry) { return observe(entry.hash) == hash; });
  return {content, hash};
}

uint32_t Namespaces::open(std::string_view salt, uint64_t adapter) noexcept {
  const uint32_t hash = index_->hash(salt, adapter);
  uint32_t i = find(hash, salt, adapter);
  if (i == no_namespace) {
    i = idle_.front;
    Namespace& entry = entries_[i];
    if (entry.content != 0) forget(i);
    publish(entry.content, index_->new_content());
    entry.adapter = adapter;
    publish(entry.hash, hash);
    entry.salt_bytes = static_cast<uint32_t>(salt.size());
    if (!salt.empty()) std::memcpy(entry.salt, salt.data(), salt.size());
    publish(entry.bucket_next, bucket(hash));
    publish(bucket(hash), i);
  }
  if (entries_[i].users++ == 0) take_out(entries_, idle_, i);
  return i;
}

void Namespaces::close(uint32_t i) noexcept {
  if (--entries_[i].users == 0) append(entries_, idle_, i);
}

void Namespaces::forget(uint32_t i) noexcept {
  uint32_t* at = &bucket(entries_[i].hash);
  while (*at != i) at = &entries_[*at].bucket_next;
  publish(*at, entries_[i].bucket_next);
}

uint32_t Namespaces::longest_chain() const noexcept {
  return pool::longest_chain(entries_, &Namespace::bucket_next, {buckets_, bucket_mask_ + 1});
}

}  // namespace folio::inline v1::pool
