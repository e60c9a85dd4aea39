// SPDX-License-Identifier: Apache-2.0
/// examples/tiers.cpp: a pool whose pages go on to the host's memory and to a directory, and come
/// back from there when a prompt returns.
///
/// The pool has 64 pages. Prompt A is served and released, others push it out of memory, and A
/// comes back: its pages are loaded, not computed. The "model" writes bytes that its tokens tell,
/// so that the end can be checked.
#include <folio/cache/planes.h>
#include <folio/core/buffer.h>
#include <folio/names/sha256_names.h>
#include <folio/tier/cache_manager.h>
#include <folio/tier/disk_tier.h>
#include <folio/tier/host_tier.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace folio;

namespace {

constexpr uint32_t num_pages = 64;
constexpr int32_t page_size = 16;
constexpr KVShape shape = {
    .num_layers = 4, .num_heads = 2, .head_size = 64, .page_size = page_size, .dtype = DType::bf16};

/// What a model computes: the K and V of tokens `first` and those behind it.
void compute(const PagePool& pool, SequenceId id, std::span<const KVPlanes> planes,
             std::span<const TokenId> tokens, size_t first) {
  const uint32_t* const row = pool.table().entries + pool.row_start(id).value();
  for (size_t t = first; t < tokens.size(); ++t)
    for (const KVPlanes& layer : planes)
      for (const PagedKVView* view : {&layer.key, &layer.value})
        std::memset(static_cast<std::byte*>(view->data) +
                        row[t / page_size] * view->page_stride_bytes +
                        static_cast<int64_t>(t % page_size) * view->slot_stride_bytes,
                    tokens[t] & 0xff, static_cast<size_t>(view->slot_stride_bytes));
}

/// Whether the first `length` tokens have what the model would have computed.
bool is_right(const PagePool& pool, SequenceId id, std::span<const KVPlanes> planes,
              std::span<const TokenId> tokens, size_t length) {
  const uint32_t* const row = pool.table().entries + pool.row_start(id).value();
  for (size_t t = 0; t < length; ++t)
    for (const KVPlanes& layer : planes) {
      const auto* const at = static_cast<const std::byte*>(layer.value.data) +
                             row[t / page_size] * layer.value.page_stride_bytes +
                             static_cast<int64_t>(t % page_size) * layer.value.slot_stride_bytes;
      if (*at != static_cast<std::byte>(tokens[t] & 0xff)) return false;
    }
  return true;
}

/// Serves a prompt; returns how many of its tokens were computed.
size_t serve(PagePool& pool, CacheManager& manager, std::span<const KVPlanes> planes,
             std::span<const TokenId> prompt) {
  const TieredAdmission a = manager.admit(prompt).value();
  while (manager.load_state(a.id) == LoadState::loading) manager.poll();  // an engine steps others
  // Loaded, cut short, or nothing to load: what there is, is exact. The rest is computed.
  const auto length = static_cast<size_t>(pool.length(a.id).value());
  if (!is_right(pool, a.id, planes, prompt, length)) std::terminate();
  const auto rest = static_cast<int32_t>(prompt.size() - length);
  for (;;) {  // pages that are being stored are held: an engine steps others, or gives up stores
    const Status room = pool.reserve(a.id, rest);
    if (room.is_ok()) break;
    if (room.code() != Errc::out_of_pages) room.or_throw();
    manager.poll();
  }
  compute(pool, a.id, planes, prompt, length);
  manager.commit(a.id, prompt.subspan(length)).or_throw();
  manager.release(a.id).or_throw();  // pages that no tier has are stored, in the background
  manager.poll();
  return prompt.size() - length;
}

std::vector<TokenId> prompt_of(TokenId first, int32_t tokens) {
  std::vector<TokenId> prompt;
  for (TokenId t = 0; t < tokens; ++t) prompt.push_back(first + t);
  return prompt;
}

int run(const std::filesystem::path& folder) {
  Sha256Names names = Sha256Names::create().value();
  PagePool pool = PagePool::create({.num_pages = num_pages,
                                    .page_size = page_size,
                                    .name = names.function(),
                                    .max_io_pins = num_pages})
                      .value();
  const Buffer memory = Buffer::allocate(page_bytes(shape).value() * num_pages).value();
  const std::vector<KVPlanes> planes = make_planes(shape, num_pages, memory.span()).value();

  // Pages of another model, or of another shape, are to be misses: say what these are.
  const Digest256 fingerprint = {{'e', 'x', 'a', 'm', 'p', 'l', 'e', 1}};
  const std::unique_ptr<Tier> host =
      make_host_tier({.max_bytes = int64_t{1} << 20, .fingerprint = fingerprint}).value();
  const std::unique_ptr<Tier> disk =
      make_disk_tier(folder.string(), {.max_bytes = int64_t{64} << 20, .fingerprint = fingerprint},
                     {.segment_bytes = int64_t{1} << 20})
          .value();
  const TierOfCache tiers[] = {
      {.tier = host.get(), .policy = StorePolicy::write_back, .promotes = true},
      {.tier = disk.get(), .policy = StorePolicy::write_through},
  };
  CacheManager manager = CacheManager::create({.pool = &pool,
                                               .name = names.function(),
                                               .planes = planes,
                                               .tiers = tiers,
                                               .load_deadline_ms = 60'000})
                             .value();

  const std::vector<TokenId> a = prompt_of(0, 400);
  std::printf("A, new: %zu tokens computed\n", serve(pool, manager, planes, a));
  while (manager.figures().stores != 0) manager.poll();  // until then its pages are held
  for (TokenId other = 1; other <= 4; ++other)
    serve(pool, manager, planes, prompt_of(other * 1000, 400));
  while (manager.figures().stores != 0) manager.poll();
  const size_t computed = serve(pool, manager, planes, a);
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
