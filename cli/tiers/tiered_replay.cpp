// SPDX-License-Identifier: Apache-2.0
/// cli/tiers/tiered_replay.cpp: what replays with tiers share.
#include <fmt/format.h>

#include "tiers/tiers.h"

namespace folio::cli {

Result<std::unique_ptr<TieredPages>> tiers_of(const TierChoice& choice, const ModelOptions& model,
                                              const PlainDemand& demand) {
  if (!choice.any()) return std::unique_ptr<TieredPages>();
  const ModelShape& m = model.sizes;
  const KVShape shape = kv_shape_of(m, demand.tokens, model.kv);
  const auto elements = page_bytes(shape);
  if (!elements) return elements.error();
  const auto scales = scale_page_bytes(shape);
  if (!scales) return scales.error();
  const std::string fingerprint =
      fmt::format("{} layers, {} heads of {}{}, {}, {} tokens a page of {}, payloads of {}",
                  m.layers, m.kv_heads, m.head_size, m.is_mla ? ", latent" : "", describe(model.kv),
                  demand.tokens, demand.page_size, choice.payload_bytes);
  return make_tiered_pages(choice, {.kinds = {{.page_bytes = *elements + *scales,
                                               .all_pages = demand.all_pages,
                                               .longest_pages = demand.longest_pages}},
                                    .page_size = demand.page_size,
                                    .max_batch = demand.max_batch,
                                    .fingerprint = fingerprint});
}

int64_t model_bytes(std::span<const PageKind> kinds, const PagesByKind& pages) {
  int64_t bytes = 0;
  for (size_t k = 0; k < pages.size(); ++k) bytes += pages[k] * kinds[k].page_bytes;
  return bytes;
}

void TokensBySource::add(const TokensBySource& more) {
  memory += more.memory;
  completed += more.completed;
  for (size_t t = 0; t < num_tiers; ++t) tiers[t] += more.tiers[t];
  computed += more.computed;
}

void SourceSample::merge(const SourceSample& later) {
  end = later.end;
  tokens.add(later.tokens);
}

void SourceRecorder::add(const TokensBySource& request) {
  tokens_.add(request);
  samples_.add({.end = ++requests_, .tokens = request});
}

void SourceRecorder::give(TieredFigures& figures) const {
  figures.tokens = tokens_;
  figures.samples = samples_.samples();
}

}  // namespace folio::cli
