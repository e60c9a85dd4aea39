// SPDX-License-Identifier: Apache-2.0
/// tests/package/tier_stranger/main.cpp: a program on folio::tier: a page that memory has given up
/// comes back from the host's memory, in a pool of two pages.
#include <folio/core/buffer.h>
#include <folio/names/sha256_names.h>
#include <folio/tier/cache_manager.h>
#include <folio/tier/host_tier.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace {

constexpr int32_t page_size = 4;

/// A prompt of a page and a token, computed where it was not found. Returns how many were.
int32_t serve(folio::PagePool& pool, folio::CacheManager& manager,
              const std::vector<folio::TokenId>& prompt) {
  const folio::TieredAdmission a = manager.admit(prompt).value();
  while (manager.load_state(a.id) == folio::LoadState::loading) manager.poll();
  const int32_t found = pool.length(a.id).value();
  pool.reserve(a.id, static_cast<int32_t>(prompt.size()) - found).or_throw();
  manager.commit(a.id, std::span(prompt).subspan(static_cast<size_t>(found))).or_throw();
  manager.release(a.id).or_throw();
  while (manager.figures().stores != 0) manager.poll();
  return found;
}

}  // namespace

int main() {
  folio::Sha256Names names = folio::Sha256Names::create().value();
  folio::PagePool pool =
      folio::PagePool::create(
          {.num_pages = 2, .page_size = page_size, .name = names.function(), .max_io_pins = 2})
          .value();
  const folio::KVShape shape{.num_layers = 2,
                             .num_heads = 1,
                             .head_size = 8,
                             .page_size = page_size,
                             .dtype = folio::DType::f32};
  const int64_t bytes = folio::page_bytes(shape).value();
  folio::Buffer memory = folio::Buffer::allocate(2 * bytes).value();
  const std::span<std::byte> all(memory.data(), static_cast<size_t>(2 * bytes));
  const std::vector<folio::KVPlanes> planes = folio::make_planes(shape, 2, memory.span()).value();
  const std::unique_ptr<folio::Tier> host = folio::make_host_tier({.max_bytes = 1 << 20}).value();
  const folio::TierOfCache tiers[] = {{host.get(), folio::StorePolicy::write_back}};
  folio::CacheManager manager =
      folio::CacheManager::create(
          {.pool = &pool, .name = names.function(), .planes = planes, .tiers = tiers})
          .value();

  std::ranges::fill(all, std::byte{1});
  int32_t found = serve(pool, manager, {1, 2, 3, 4, 5});
  found += serve(pool, manager, {6, 7, 8, 9, 10});  // takes both pages
  std::ranges::fill(all, std::byte{2});
  found += serve(pool, manager, {1, 2, 3, 4, 5});
  const auto ones = std::ranges::count(all, std::byte{1});
  std::printf("%d tokens found, %td of %lld bytes came back\n", found, ones,
              static_cast<long long>(bytes));
  return found == page_size && ones == bytes ? 0 : 1;
}
