// SPDX-License-Identifier: Apache-2.0
/// python/src/pool_groups.cpp: `PagePool`: groups of a hybrid model.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>

#include "errors.h"
#include "pool.h"

namespace folio::python {
namespace {

GroupRule rule_of(const std::string& text, size_t i) {
  if (text == "full") return GroupRule::full;
  if (text == "window") return GroupRule::window;
  if (text == "chunked") return GroupRule::chunked;
  if (text == "state") return GroupRule::state;
  refuse_argument(
      "groups[{}]: rule: expected \"full\", \"window\", \"chunked\" or \"state\", got \"{}\"", i,
      text);
}

template <class T>
T value_of(nb::handle value, const std::string& key, size_t i) {
  T given;
  if (!nb::try_cast(value, given)) refuse_argument("groups[{}]: {}: expected an integer", i, key);
  return given;
}

GroupOptions group_of(nb::handle given, size_t i) {
  nb::dict fields;
  if (!nb::try_cast(given, fields)) refuse_argument("groups[{}]: expected a dictionary", i);
  GroupOptions group;
  const std::pair<const char*, int32_t*> tokens[] = {{"window", &group.window},
                                                     {"sinks", &group.sinks},
                                                     {"chunk", &group.chunk},
                                                     {"checkpoint", &group.checkpoint}};
  for (const auto& [name, value] : fields) {
    std::string key, text;
    if (!nb::try_cast(name, key)) refuse_argument("groups[{}]: expected keys of text", i);
    if (key == "rule") {
      if (!nb::try_cast(value, text)) refuse_argument("groups[{}]: rule: expected text", i);
      group.rule = rule_of(text, i);
      continue;
    }
    if (key == "page_bytes") {
      group.page_bytes = value_of<int64_t>(value, key, i);
      continue;
    }
    bool known = false;
    for (const auto& [field, to] : tokens) {
      if (key != field) continue;
      *to = value_of<int32_t>(value, key, i);
      known = true;
    }
    if (!known)
      refuse_argument(
          "groups[{}]: {}: expected rule, page_bytes, window, sinks, chunk or checkpoint", i, key);
  }
  return group;
}

nb::dict figures_of(const Pool& self, uint32_t group) {
  const GroupFigures g = take(self.pool.group(group));
  nb::dict out;
  out["num_pages"] = g.num_pages;
  out["page_bytes"] = g.page_bytes;
  out["page_size"] = g.page_size;
  out["used_pages"] = g.used_pages;
  out["cached_pages"] = g.cached_pages;
  out["free_pages"] = g.free_pages;
  out["evicted_pages"] = g.evicted_pages;
  out["peak_used_pages"] = g.peak_used_pages;
  return out;
}

nb::dict options_of(const Pool& self, uint32_t group) {
  const GroupOptions g = take(self.pool.group_options(group));
  nb::dict out;
  out["rule"] = rule_name(g.rule);
  out["page_bytes"] = g.page_bytes;
  out["window"] = g.window;
  out["sinks"] = g.sinks;
  out["chunk"] = g.chunk;
  out["checkpoint"] = g.checkpoint;
  return out;
}

}  // namespace

const char* rule_name(GroupRule rule) {
  switch (rule) {
    case GroupRule::full: return "full";
    case GroupRule::window: return "window";
    case GroupRule::chunked: return "chunked";
    case GroupRule::state: return "state";
  }
  return "";
}

std::vector<GroupOptions> groups_of(const nb::sequence& groups) {
  std::vector<GroupOptions> out;
  for (const nb::handle group : groups) out.push_back(group_of(group, out.size()));
  return out;
}

void bind_pool_groups(nb::class_<Pool>& type) {
  const nb::lock_self locked;
  type.def("group", &figures_of, nb::arg("group"), locked,
           "Sizes of a group, and counts of its pages.")
      .def("group_options", &options_of, nb::arg("group"), locked,
           "As `groups` has it; what its rule has not is 0.")
      .def_prop_ro("num_groups", [](const Pool& p) { return p.pool.num_groups(); });
}

}  // namespace folio::python
