// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/shared_view.h: shared memory of a block as a machine sees it: typed
/// addresses, and views of them.
///
/// A `Machine` is a thread of a kernel (folio/tma/barrier.h). Every access is one of its members,
/// so that the emulator sees it; on a GPU they are plain loads and stores of shared memory.
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"
#include "folio/core/tensor_view.h"

namespace folio::inline v1::kv_buffer {

/// The address of a T in shared memory.
template <class Machine, class T>
struct SharedPointer {
  using machine_type = Machine;
  Machine* machine = nullptr;
  uint32_t address = 0;

  FOLIO_DEVICE_FUNCTION SharedPointer operator+(int64_t elements) const {
    return {machine, address + static_cast<uint32_t>(elements * int64_t{sizeof(T)})};
  }
  FOLIO_DEVICE_FUNCTION T operator[](int64_t i) const {
    return machine->template load_shared<T>((*this + i).address);
  }
};

/// A TensorView of shared memory. Elements are read, not referred to.
template <class Machine, class T, class L>
struct SharedView {
  using value_type = T;
  using layout_type = L;
  static constexpr int rank = L::rank;

  SharedPointer<Machine, T> data = {};
  [[no_unique_address]] L layout = {};

  template <class... I>
  FOLIO_DEVICE_FUNCTION T operator()(I... indices) const {
    return data[layout(indices...)];
  }
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1::detail {

/// What a copy of 16 bytes moves, as elements.
template <class T>
struct alignas(16) SharedUnit {
  static constexpr int width = 16 / static_cast<int>(sizeof(T));
  T lane[width] = {};
};

}  // namespace folio::inline v1::detail

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::SharedPointer;
using kv_buffer::SharedView;
}  // namespace folio::inline v1
