// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/geometry.h: what the pages of an end are like, whether another end can take them,
/// and where the bytes of a piece lie.
///
/// A *piece* is what one page has of one layer. It has up to four *sections*: the values of K and
/// of V, then the scales of K and of V, a zero point beside its scale going with it; each is rows
/// of `row_bytes` for a token and a head. Its bytes go in the order of sections, and within them in
/// the sender's storage order. A state is as a page of one token, whose sections are its parts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/cache/planes.h"
#include "folio/tier/transfer.h"

namespace folio::inline v1::tier {

inline constexpr int num_sections = 4;

enum class ScaleKind : uint8_t {
  none = 0,
  slots = 1,   ///< each slot has scales, which go with it
  shared = 2,  ///< all pages share them: they are the same on both ends, or written by the copy
};

/// What says how bytes of the rows of K, or of V, are read.
struct RowForm {
  DType dtype = DType::invalid;
  DType scale_dtype = DType::invalid;
  ScaleKind scale_kind = ScaleKind::none;
  Zeros zeros = Zeros::none;  ///< those beside the scales of slots stand as `make_planes` has them
  int32_t granularity = 0;
  Hadamard hadamard = {};
  uint8_t has_channel_scales = 0;

  void fields(auto& f) {
    f(dtype), f(scale_dtype), f(scale_kind), f(zeros), f(granularity);
    f(hadamard.block), f(hadamard.sign_seed), f(has_channel_scales);
  }
  bool operator==(const RowForm&) const = default;
  /// Of a scale of slots, and of the zero point beside it.
  [[nodiscard]] int64_t granule_bytes() const noexcept;
};

/// Of layers that are alike, as peers tell it to one another.
struct Geometry {
  Digest256 model;
  int32_t num_layers = 0, page_size = 0, head_size = 0;
  int32_t first_head = 0, num_heads = 0, total_heads = 0;
  RowForm key = {}, value = {};  ///< of MLA only K's
  StorageOrder order = StorageOrder::token_major;
  uint8_t is_mla = 0;
  uint8_t has_tensor_scales = 0;
  /// CRC32C of what the pages share: scales, tensor scales, channel scales
  uint32_t shared_crc = 0;
  /// of states: bytes of each part for a head; not among `fields`
  std::array<int64_t, num_sections> state_rows = {};

  void fields(auto& f) {
    f(model), f(num_layers), f(page_size), f(head_size), f(first_head), f(num_heads);
    f(total_heads), key.fields(f), value.fields(f), f(order), f(is_mla);
    f(has_tensor_scales), f(shared_crc);
  }

  [[nodiscard]] bool is_state() const noexcept { return state_rows[0] != 0; }
  /// For a token and a head; 0: there is no such section.
  [[nodiscard]] int64_t row_bytes_of(int section) const noexcept;
  /// Of its stored values and scales, the same bytes mean the same.
  [[nodiscard]] bool has_bytes_of(const Geometry& other) const noexcept;
  /// Whether pages have something in common that does not go with them.
  [[nodiscard]] bool shares() const noexcept;
};

/// Layers of an end that are alike, and which heads of the model they have.
struct AlikeLayers {
  std::span<const KVPlanes> planes = {};
  int32_t first_head = 0, total_heads = 0;  ///< 0: all are here
  int64_t num_pages = 0;                    ///< that the planes have at least
  int32_t page_size = 0;                    ///< of the pool
  const char* name = "";                    ///< of what has the planes, before "planes"
};
/// Errors, of `function`: invalid_argument naming what is wrong, unsupported for planes that no
/// handover can take; throws std::bad_alloc
[[nodiscard]] Result<Geometry> geometry_of(const char* function, const AlikeLayers& layers,
                                           const Digest256& model);
/// Of the planes of an end without groups. Errors: the same, also naming what of `end` is wrong
[[nodiscard]] Result<Geometry> geometry_of(const char* function, const TransferEnd& end) noexcept;
/// CRC32C of what the pages of a layer share.
[[nodiscard]] uint32_t shared_crc_of(const KVPlanes& planes, int32_t first_head) noexcept;
/// What is wrong with an end, its pages and groups apart.
[[nodiscard]] Status check_end(const char* function, const TransferEnd& end) noexcept;

/// Scales of a head.
[[nodiscard]] int64_t granules(int32_t head_size, int32_t granularity) noexcept;
/// What a peer says its pages are like: every number is in a range in which no size overflows.
[[nodiscard]] Status check_geometry(const Geometry& geometry) noexcept;

/// Heads of the model that both ends have; none: count is 0.
struct HeadRange {
  int32_t first = 0, count = 0;
};
[[nodiscard]] HeadRange common_heads(const Geometry& a, const Geometry& b) noexcept;

/// Whether the sender's pages can become the receiver's, as far as numbers tell, whatever heads
/// they have. Errors: unsupported with the reason
[[nodiscard]] Status check_alike(const Geometry& sender, const Geometry& receiver) noexcept;
/// The same, and whether they have heads in common.
[[nodiscard]] Status check_pair(const Geometry& sender, const Geometry& receiver) noexcept;
/// Whether the sender's bytes may land in the receiver's pages.
[[nodiscard]] bool is_direct(const Geometry& sender, const Geometry& receiver) noexcept;

/// Where a section of all pages of a layer lies in a region.
struct Place {
  uint32_t region = 0;
  uint32_t reserved = 0;
  int64_t base = 0, page_stride = 0, slot_stride = 0, head_stride = 0;
};

/// Appends those of a layer, num_sections; those that do not exist are zero. `layer` is the model's
/// number. Errors: invalid_argument for planes, or a state, that do not lie in `regions`; throws
/// std::bad_alloc
[[nodiscard]] Status add_places(const char* function, std::span<const TransferRegion> regions,
                                const Geometry& geometry, const KVPlanes& planes, size_t layer,
                                std::vector<Place>& places);
[[nodiscard]] Status add_places(const char* function, std::span<const TransferRegion> regions,
                                const Geometry& geometry, const StatePages& state,
                                int64_t num_pages, size_t layer, std::vector<Place>& places);

/// Where the sections of a piece lie in a slot, and how many bytes that takes.
struct SlotLayout {
  std::array<int64_t, num_sections> offset = {};
  int64_t bytes = 0;
};
[[nodiscard]] SlotLayout slot_layout(const Geometry& sender, int32_t heads) noexcept;
/// The places of a piece that is staged at `base` of `region`.
[[nodiscard]] std::array<Place, num_sections> places_in_slot(const Geometry& sender, int32_t heads,
                                                             uint32_t region,
                                                             int64_t base) noexcept;

/// The first `tokens` slots of a page, of the heads [head, head + heads) of where it lies.
struct PieceBox {
  int64_t page = 0;
  int32_t head = 0, heads = 0, tokens = 0;
};
/// Appends the runs of a piece, in the order in which its bytes go. `places` are num_sections.
void add_piece_runs(const Geometry& sender, std::span<const Place> places, const PieceBox& box,
                    std::vector<RegionRun>& runs);

/// Planes of one page over a slot's memory, as the sender has it. What the sender shares is taken
/// from `receiver`, planes of a layer with those heads.
[[nodiscard]] KVPlanes planes_in_slot(const Geometry& sender, int32_t heads, std::byte* slot,
                                      const KVPlanes& receiver, const Geometry& receiver_geometry);
/// The same planes, with the heads [head, head + heads) only.
[[nodiscard]] KVPlanes with_heads(const KVPlanes& planes, int32_t head, int32_t heads);

}  // namespace folio::inline v1::tier
