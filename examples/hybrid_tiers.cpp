// SPDX-License-Identifier: Apache-2.0
/// examples/hybrid_tiers.cpp: a hybrid model whose pages go on to the host's memory and to a
/// directory: four layers with a window of 64 tokens and two with full attention, in one arena.
///
/// Prompt A is served and released, others push it out of memory, and A comes back: its full
/// layers' pages are loaded, and of the windows what the next token sees. The "model" writes bytes
/// that its tokens tell, so that the end can be checked. One group alone: examples/tiers.cpp.
#include <folio/cache/planes.h>
#include <folio/core/buffer.h>
#include <folio/names/sha256_names.h>
#include <folio/tier/cache_manager.h>
#include <folio/tier/disk_tier.h>
#include <folio/tier/host_tier.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace folio;

namespace {

constexpr int32_t page_size = 16, window = 64;
/// Numbers of the layers of each group in the model.
constexpr std::array<int32_t, 2> full_layers = {2, 5};
constexpr std::array<int32_t, 4> window_layers = {0, 1, 3, 4};

constexpr KVShape shape_of(size_t layers) {
  return {.num_layers = static_cast<int32_t>(layers),
          .num_heads = 2,
          .head_size = 64,
          .page_size = page_size,
          .dtype = DType::bf16};
}

struct Group {
  std::vector<KVPlanes> planes;
  int32_t first_seen = 0;  ///< token from which on a query sees them
};
using Groups = std::array<Group, 2>;

/// Calls visit(bytes, token) for tokens first .. last - 1 of each layer's values and keys, where
/// the group has a page.
template <class Visit>
void for_bytes(const PagePool& pool, SequenceId id, const Groups& groups, size_t first, size_t last,
               Visit visit) {
  for (uint32_t g = 0; g < groups.size(); ++g) {
    const uint32_t* const row = pool.table(g).entries + pool.row_start(id, g).value();
    const auto begin = std::max(first, static_cast<size_t>(groups[g].first_seen));
    for (size_t t = begin; t < last; ++t)
      for (const KVPlanes& layer : groups[g].planes)
        for (const PagedKVView* view : {&layer.key, &layer.value})
          visit(std::span(static_cast<std::byte*>(view->data) +
                              row[t / page_size] * view->page_stride_bytes +
                              static_cast<int64_t>(t % page_size) * view->slot_stride_bytes,
                          static_cast<size_t>(view->slot_stride_bytes)),
                t);
  }
}

/// Serves a prompt; returns how many of its tokens were computed.
size_t serve(PagePool& pool, CacheManager& manager, Groups& groups,
             std::span<const TokenId> prompt) {
  const TieredAdmission a = manager.admit(prompt).value();
  while (manager.load_state(a.id) == LoadState::loading) manager.poll();  // an engine steps others
  const auto cached = static_cast<size_t>(pool.length(a.id).value());
  const auto value_of = [&](size_t t) { return static_cast<std::byte>(prompt[t] & 0xff); };
  groups[1].first_seen = std::max(0, static_cast<int32_t>(cached) - window + 1);
  for_bytes(pool, a.id, groups, 0, cached, [&](std::span<std::byte> bytes, size_t t) {
    if (bytes.front() != value_of(t) || bytes.back() != value_of(t)) std::terminate();
  });
  groups[1].first_seen = 0;
  for (size_t done = cached; done < prompt.size();) {  // in steps, as windows need no more room
    const size_t step = std::min<size_t>(prompt.size() - done, 2 * window);
    while (!pool.reserve(a.id, static_cast<int32_t>(step)).is_ok()) manager.poll();
    for_bytes(pool, a.id, groups, done, done + step, [&](std::span<std::byte> bytes, size_t t) {
      std::memset(bytes.data(), prompt[t] & 0xff, bytes.size());
    });
    manager.commit(a.id, prompt.subspan(done, step)).or_throw();
    done += step;
  }
  manager.release(a.id).or_throw();  // pages that no tier has are stored, in the background
  while (manager.figures().stores != 0) manager.poll();
  return prompt.size() - cached;
}

std::vector<TokenId> prompt_of(TokenId first, int32_t tokens) {
  std::vector<TokenId> prompt;
  for (TokenId t = 0; t < tokens; ++t) prompt.push_back(first + t);
  return prompt;
}

int run(const std::filesystem::path& folder) {
  const GroupOptions rules[] = {{.page_bytes = page_bytes(shape_of(full_layers.size())).value()},
                                {.rule = GroupRule::window,
                                 .page_bytes = page_bytes(shape_of(window_layers.size())).value(),
                                 .window = window}};
  Sha256Names names = Sha256Names::create().value();  // names pages of all groups
  const Buffer arena = Buffer::allocate(96 * rules[0].page_bytes).value();
  PagePool pool = PagePool::create({.page_size = page_size,
                                    .max_pages_per_sequence = 64,
                                    .name = names.function(),
                                    .groups = rules,
                                    .arena_bytes = arena.span().bytes,
                                    .max_io_pins = 256})
                      .value();
  Groups groups;
  for (uint32_t g = 0; g < groups.size(); ++g) {
    KVShape shape = shape_of(g == 0 ? full_layers.size() : window_layers.size());
    shape.page_stride_bytes = pool.group(g)->page_bytes;
    groups[g].planes = make_planes(shape, pool.group(g)->num_pages, arena.span()).value();
  }

  const std::unique_ptr<Tier> host = make_host_tier({.max_bytes = int64_t{1} << 20}).value();
  const std::unique_ptr<Tier> disk =
      make_disk_tier(folder.string(), {.max_bytes = int64_t{64} << 20},
                     {.segment_bytes = int64_t{1} << 20})
          .value();
  const TierOfCache tiers[] = {{.tier = host.get(), .promotes = true}, {.tier = disk.get()}};
  const tier::GroupOfCache of_groups[] = {{.planes = groups[0].planes, .layers = full_layers},
                                          {.planes = groups[1].planes, .layers = window_layers}};
  CacheManager manager =
      CacheManager::create(
          {.pool = &pool, .groups = of_groups, .tiers = tiers, .load_deadline_ms = 60'000})
          .value();

  const std::vector<TokenId> a = prompt_of(0, 400);
  std::printf("A, new: %zu tokens computed\n", serve(pool, manager, groups, a));
  for (TokenId other = 1; other <= 4; ++other)
    serve(pool, manager, groups, prompt_of(other * 1000, 400));
  const size_t computed = serve(pool, manager, groups, a);
  std::printf("A, again: %zu tokens computed\n", computed);
  for (size_t t = 0; t < std::size(tiers); ++t) {
    const TierCounters counters = manager.counters(t).value();
    std::printf("tier %zu: %lld pages stored, %lld loaded, %lld lost\n", t,
                static_cast<long long>(counters.stored_pages),
                static_cast<long long>(counters.loaded_pages),
                static_cast<long long>(counters.lost_pages));
  }
  return computed == static_cast<size_t>(page_size) ? 0 : 1;
}

}  // namespace

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "folio_tiers.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  int result = 1;
  try {
    result = run(folder);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  std::filesystem::remove_all(folder);
  return result;
}
