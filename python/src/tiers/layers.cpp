// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/layers.cpp: groups as dictionaries.
#include "layers.h"

#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "../array.h"
#include "../pages.h"
#include "page_arrays.h"

namespace folio::python {
namespace {

std::string in_group(size_t g, const std::string& what) {
  return "groups[" + std::to_string(g) + "]: " + what;
}

int32_t number_of(nb::handle given, const std::string& what) {
  int32_t number = 0;
  if (!nb::try_cast(given, number))
    refuse_argument("{}: expected an integer of 32 bits, got {}", what,
                    nb::cast<std::string>(nb::repr(given)));
  return number;
}

nb::sequence sequence_of(nb::handle given, const std::string& what) {
  if (!nb::isinstance<nb::sequence>(given)) refuse_argument("{}: expected a sequence", what);
  return nb::borrow<nb::sequence>(given);
}

/// A state of each page, dense behind its first axis.
tier::StatePages state_of(const Array& array) {
  if (array.ndim < 1) refuse_argument("{}: expected an axis of pages, got a scalar", array.name);
  int64_t dense = 1;
  for (int axis = array.ndim - 1; axis > 0; --axis) {
    if (array.extent[axis] > 1 && array.stride[axis] != dense)
      refuse_argument("{}: expected the bytes of a page without gaps, got strides", array.name);
    dense *= array.extent[axis];
  }
  return {static_cast<std::byte*>(array.data), array.stride[0] * array.item_bytes(),
          dense * array.item_bytes()};
}

}  // namespace

Layers::Layers(nb::handle planes, const nb::sequence& groups, const PagePool& pool, User user) {
  if (!planes.is_none()) {
    planes_ = planes_of(sequence_of(planes, "planes"), "planes", true);
    memory_.append(planes);
  }
  const size_t count = nb::len(groups);
  groups_.reserve(count);
  for (size_t g = 0; g < count; ++g) read_group(groups[g], g, pool, user);
  for (const Group& group : groups_) {
    of_cache_.push_back({group.planes, group.states, group.layers, group.hit_interval});
    of_transfer_.push_back({of_cache_.back(), group.first_head, group.total_heads,
                            group.state_parts, group.on_pages_of});
  }
}

void Layers::read_group(nb::handle given, size_t g, const PagePool& pool, User user) {
  nb::dict fields;
  if (!nb::try_cast(given, fields)) refuse_argument("{}", in_group(g, "expected a dictionary"));
  Group& group = groups_.emplace_back();
  for (const auto& [name, value] : fields) {
    std::string key;
    if (!nb::try_cast(name, key)) refuse_argument("{}", in_group(g, "expected keys of text"));
    const std::string what = in_group(g, key);
    if (key == "planes") {
      group.planes = planes_of(sequence_of(value, what), what.c_str(), true);
      memory_.append(value);
    } else if (key == "states") {
      read_states(value, group, g, pool);
    } else if (key == "layers") {
      group.layers = int32_of(value, what.c_str());
    } else if (key == "hit_interval" && user == User::cache) {
      group.hit_interval = number_of(value, what);
    } else if (key == "first_head" && user == User::transfer) {
      group.first_head = number_of(value, what);
    } else if (key == "total_heads" && user == User::transfer) {
      group.total_heads = number_of(value, what);
    } else if (key == "on_pages_of" && user == User::transfer) {
      group.on_pages_of = number_of(value, what);
    } else if (key == "state_parts" && user == User::transfer) {
      group.state_parts = int64_of(value, what.c_str());
    } else {
      refuse_argument("{}: expected planes, states, layers{}", what,
                      user == User::cache
                          ? " or hit_interval"
                          : ", first_head, total_heads, state_parts or on_pages_of");
    }
  }
}

void Layers::read_states(nb::handle given, Group& group, size_t g, const PagePool& pool) {
  const nb::sequence arrays = sequence_of(given, in_group(g, "states"));
  for (size_t i = 0; i < nb::len(arrays); ++i) {
    const std::string what = in_group(g, "states[" + std::to_string(i) + "]");
    const Array array = writable_array_of(arrays[i], what.c_str());
    group.states.push_back(state_of(array));
    const auto pool_group = pool.group(static_cast<uint32_t>(g));
    if (pool_group && array.extent[0] < pool_group->num_pages)
      refuse_argument("{}: expected {} pages or more, as the pool's group has, got {}", what,
                      pool_group->num_pages, array.extent[0]);
    keep_memory(memory_, array);
  }
}

}  // namespace folio::python
