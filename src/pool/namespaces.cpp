// SPDX-License-Identifier: Apache-2.0
/// pool/namespaces.cpp: salts and adapters, compared byte by byte.
#include "pool/namespaces.h"

#include <bit>
#include <cstring>

namespace folio::inline v1::pool {

int64_t Namespaces::num_buckets(int64_t capacity) noexcept {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(capacity)));
}

void Namespaces::attach(Namespace* entries, uint32_t* buckets, uint32_t capacity) noexcept {
  entries_ = entries;
  buckets_ = buckets;
  capacity_ = capacity;
  const int64_t count = num_buckets(capacity);
  bucket_mask_ = static_cast<uint64_t>(count) - 1;
  for (int64_t i = 0; i < count; ++i) buckets_[i] = no_namespace;
  for (uint32_t i = 0; i < capacity; ++i) push_idle(i);
}

uint32_t Namespaces::find(std::string_view salt, uint64_t adapter) const noexcept {
  for (uint32_t i = bucket(namespace_hash(salt, adapter)); i != no_namespace;
       i = entries_[i].bucket_next) {
    const Namespace& entry = entries_[i];
    if (entry.adapter == adapter && std::string_view(entry.salt, entry.salt_bytes) == salt)
      return i;
  }
  return no_namespace;
}

uint32_t Namespaces::open(std::string_view salt, uint64_t adapter, PrefixIndex& names) noexcept {
  uint32_t i = find(salt, adapter);
  if (i == no_namespace) {
    i = idle_front_;
    Namespace& entry = entries_[i];
    if (entry.name != 0) forget(i);
    entry.name = names.new_name();
    entry.adapter = adapter;
    entry.hash = namespace_hash(salt, adapter);
    entry.salt_bytes = static_cast<uint32_t>(salt.size());
    if (!salt.empty()) std::memcpy(entry.salt, salt.data(), salt.size());
    entry.bucket_next = bucket(entry.hash);
    bucket(entry.hash) = i;
  }
  if (entries_[i].users++ == 0) take_idle(i);
  return i;
}

void Namespaces::close(uint32_t i) noexcept {
  if (--entries_[i].users == 0) push_idle(i);
}

void Namespaces::push_idle(uint32_t i) noexcept {
  entries_[i].previous = idle_back_;
  entries_[i].next = no_namespace;
  (idle_back_ == no_namespace ? idle_front_ : entries_[idle_back_].next) = i;
  idle_back_ = i;
}

void Namespaces::take_idle(uint32_t i) noexcept {
  const Namespace& entry = entries_[i];
  (entry.previous == no_namespace ? idle_front_ : entries_[entry.previous].next) = entry.next;
  (entry.next == no_namespace ? idle_back_ : entries_[entry.next].previous) = entry.previous;
}

void Namespaces::forget(uint32_t i) noexcept {
  uint32_t* at = &bucket(entries_[i].hash);
  while (*at != i) at = &entries_[*at].bucket_next;
  *at = entries_[i].bucket_next;
}

}  // namespace folio::inline v1::pool
