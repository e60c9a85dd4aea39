// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/bundles.cpp: layers of two ends that meet, and pages that are to go between them.
#include <algorithm>

#include "tier/transfer/layout.h"

namespace folio::inline v1::tier {
namespace {

/// What states are made of.
Status check_states(const Geometry& s, const Geometry& r) {
  if (s.model != r.model) return fail(Errc::unsupported, "the models of the two ends differ");
  for (size_t part = 0; part < s.state_rows.size(); ++part)
    if (s.state_rows[part] != r.state_rows[part])
      return fail(Errc::unsupported,
                  "part {} of a state has {} bytes for a head, expected the receiver's {}", part,
                  s.state_rows[part], r.state_rows[part]);
  if (s.total_heads == r.total_heads) return {};
  return fail(Errc::unsupported, "total_heads is {}, expected the receiver's {}", s.total_heads,
              r.total_heads);
}

/// By number.
constexpr const char* rule_names[] = {"full", "window", "chunked", "state"};

/// Whether the two ends mean the same layer.
Status check_layer(const Layout& sender, const Layout& receiver, size_t layer) {
  const GroupLayout &s = sender.of(layer), &r = receiver.of(layer);
  if (s.rule != r.rule)
    return fail(Errc::unsupported, "rule is {}, expected the receiver's {}",
                rule_names[static_cast<size_t>(s.rule)], rule_names[static_cast<size_t>(r.rule)]);
  const struct {
    const char* name;
    int64_t sender, receiver;
  } equal[] = {
      {"window", s.window, r.window}, {"sinks", s.sinks, r.sinks}, {"chunk", s.chunk, r.chunk}};
  for (const auto& e : equal)
    if (e.sender != e.receiver)
      return fail(Errc::unsupported, "{} is {}, expected the receiver's {}", e.name, e.sender,
                  e.receiver);
  return s.is_state() ? check_states(s.pages, r.pages)
                      : check_alike(sender.at(layer), receiver.at(layer));
}

const char* fault_of(const GroupLayout& group, const TokenRun& run, int32_t tokens) {
  if (run.first < 0 || run.first >= run.end || run.end > tokens)
    return "tokens that the prompt has not";
  if (group.is_state())
    return run.first == tokens - 1 ? nullptr : "a state that is not behind the prompt";
  const int32_t size = group.page_tokens;
  if (run.first % size != 0 || (run.end % size != 0 && run.end != tokens))
    return "part of a page of its own";
  const int32_t kept = group.first_kept(tokens), sinks = group.sink_tokens(tokens);
  const bool is_kept = run.first >= kept || run.end <= sinks || kept <= sinks;
  return is_kept ? nullptr : "tokens that its rule gives up";
}

}  // namespace

bool Bundles::has(bool is_direct) const noexcept {
  return std::ranges::any_of(all,
                             [&](const Bundle& bundle) { return bundle.is_direct == is_direct; });
}

bool Bundles::is_direct_to(uint32_t group) const noexcept {
  return std::ranges::any_of(
      all, [&](const Bundle& bundle) { return bundle.to == group && bundle.is_direct; });
}

Result<Bundles> bundles_of(const Layout& sender, const Layout& receiver, bool may_be_direct) {
  if (sender.num_layers() != receiver.num_layers())
    return fail(Errc::unsupported, "num_layers is {}, expected the receiver's {}",
                sender.num_layers(), receiver.num_layers());
  Bundles bundles{.of = std::vector<int32_t>(sender.num_layers(), -1)};
  for (size_t layer = 0; layer < sender.num_layers(); ++layer) {
    const uint8_t from = sender.group_of[layer], to = receiver.group_of[layer];
    if (Status s = check_layer(sender, receiver, layer); !s.is_ok())
      return fail(Errc::unsupported, "layer {} (group {} of the sender, {} of the receiver): {}",
                  layer, from, to, s.message());
    const Geometry theirs = sender.at(layer), ours = receiver.at(layer);
    const HeadRange heads = common_heads(theirs, ours);
    if (heads.count == 0) continue;
    const bool direct = may_be_direct && is_direct(theirs, ours);
    auto bundle = std::ranges::find_if(bundles.all, [&](const Bundle& l) {
      return l.from == from && l.to == to && l.is_direct == direct;
    });
    if (bundle == bundles.all.end())
      bundle =
          bundles.all.insert(bundle, {.from = from, .to = to, .heads = heads, .is_direct = direct});
    ++bundle->layers;
    bundles.of[layer] = static_cast<int32_t>(bundle - bundles.all.begin());
  }
  if (!bundles.all.empty()) return bundles;
  return fail(Errc::unsupported, "the sender has no heads that the receiver has, in no layer");
}

const char* fault_of(const Layout& receiver, std::span<const TokenRun> runs,
                     int32_t tokens) noexcept {
  for (size_t i = 0; i < runs.size(); ++i) {
    const TokenRun& run = runs[i];
    if (run.group >= receiver.groups.size()) return "a group that it has not";
    if (i != 0 && (run.group < runs[i - 1].group ||
                   (run.group == runs[i - 1].group && run.first < runs[i - 1].end)))
      return "groups or tokens out of order, or twice";
    if (const char* const fault = fault_of(receiver.groups[run.group], run, tokens);
        fault != nullptr)
      return fault;
  }
  return nullptr;
}

std::vector<int32_t> entries_of(const Layout& sender, const Bundle& bundle,
                                std::span<const TokenRun> runs, int32_t tokens) {
  const GroupLayout& group = sender.groups[bundle.from];
  std::vector<int32_t> entries;
  for (const TokenRun& run : runs) {
    if (run.group != bundle.to) continue;
    const int32_t end = group.is_state() ? group.pages_for(tokens) : group.pages_for(run.end);
    int32_t entry = group.is_state() ? end - 1 : run.first / group.page_tokens;
    if (!entries.empty()) entry = std::max(entry, entries.back() + 1);
    for (; entry < end; ++entry) entries.push_back(entry);
  }
  return entries;
}

int32_t tokens_of(const GroupLayout& sender, int32_t entry, int32_t tokens) noexcept {
  if (sender.is_state()) return 1;
  return std::min(sender.page_tokens, tokens - entry * sender.page_tokens);
}

}  // namespace folio::inline v1::tier
