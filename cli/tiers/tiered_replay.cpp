// SPDX-License-Identifier: Apache-2.0
/// cli/tiers/tiered_replay.cpp: what replays with tiers share.
#include <fmt/format.h>

#include "tiers/tiers.h"

namespace folio::cli {

Result<std::unique_ptr<TieredPages>> tiers_of(const TierChoice& choice, const ModelOptions& model,
                                              int32_t tokens, TierDemand demand) {
  if (!choice.any()) return std::unique_ptr<TieredPages>();
  const ModelShape& m = model.sizes;
  const KVShape shape = kv_shape_of(m, tokens, model.kv_dtype);
  const auto elements = page_bytes(shape);
  if (!elements) return elements.error();
  const auto scales = scale_page_bytes(shape);
  if (!scales) return scales.error();
  demand.page_bytes = *elements + *scales;
  demand.fingerprint =
      fmt::format("{} layers, {} heads of {}{}, {}, {} tokens a page of {}, payloads of {}",
                  m.layers, m.kv_heads, m.head_size, m.is_mla ? ", latent" : "",
                  name(model.kv_dtype), tokens, demand.page_size, choice.payload_bytes);
  return make_tiered_pages(choice, demand);
}

void TokensBySource::add(const TokensBySource& more) {
  memory += more.memory;
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
