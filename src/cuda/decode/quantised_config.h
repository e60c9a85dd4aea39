// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/quantised_config.h: sizes of an instance of the decode kernel over 8-bit K and
/// V, and where its shared memory lies: what DecodeConfig is for 16 bits.
///
///   ring      [warps][stages][K, V][16 keys][row], bytes as they are stored, units of 16 swizzled
///   states    [warps] where a warp's state lies while it is folded
///   factors   [warps][stages][K, V][16 keys] f32: what scores and weights are multiplied by
///   ratios    [warps][stages][K, V][16 dims][16 keys] f32: what elements are multiplied by on top
///             of that, where scales vary along a head
///   places    [warps][stages][K, V][16 keys] instead, where they vary within 16 dims: addresses of
///             rows' first scales. Ratios, [16 keys][row], then lie where states will
///   parked    [threads] folded columns, where registers do not hold them beside the loop
///   rows      [rows] what is known of them, likewise
///   walks     [1 + warps] which keys the block and its loaders walk, likewise
///   queries   [16 dims][lanes] A fragments, of heads of 256
#pragma once

#include <cstdint>

#include "cuda/decode/config.h"

namespace folio::cuda {

/// Which problems an instance is for, the later including the earlier.
enum class Options : uint8_t {
  plain,     ///< scales one per token and head or less; as of DecodeConfig
  general,   ///< and every mask and term
  granules,  ///< and scales that vary along a head, each of a multiple of 16 elements
  fine,      ///< and of any number of elements
};

template <DType Stored, int HeadSize, Options What>
struct QuantisedConfig {
  static_assert(Stored == DType::f8_e4m3 || Stored == DType::f8_e5m2 || Stored == DType::i8);
  static_assert(HeadSize == 64 || HeadSize == 128 || (HeadSize == 256 && What != Options::granules),
                "heads of 256: scales of any number of elements are fine ones");
  static constexpr DType stored = Stored;
  static constexpr int head_size = HeadSize;
  static constexpr bool is_general = What != Options::plain;
  static constexpr bool has_granules = What == Options::granules;
  static constexpr bool has_fine_granules = What == Options::fine;
  /// Whether elements are multiplied while they are converted.
  static constexpr bool has_ratios = has_granules || has_fine_granules;
  /// Whether registers hold a task's queries, and what else a block keeps during a task.
  static constexpr bool has_query_registers = HeadSize <= 128;
  static constexpr bool has_registers = !is_general && has_query_registers;
  static constexpr int rows = decode_rows;
  static constexpr int slab_keys = 16;
  static constexpr int warps = HeadSize == 256 ? 2 : 4;
  static constexpr int threads = 32 * warps;
  static constexpr int stages = HeadSize == 256                              ? 2
                                : HeadSize == 64 && What < Options::granules ? 8
                                : HeadSize == 64                             ? 6
                                : has_granules                               ? 2
                                : has_registers                              ? 4
                                                                             : 3;
  static constexpr int steps = HeadSize / 16;
  static constexpr int row_bytes = HeadSize;
  static constexpr int plane_bytes = slab_keys * row_bytes;
  static constexpr int slab_bytes = 2 * plane_bytes;
  static constexpr int slabs_of_round = 256;

  using Place = FoldPlace<rows, HeadSize, threads>;
  using State = FoldState<Place::columns>;

  static constexpr int state_bytes = rows * HeadSize * 4;
  static constexpr int factor_bytes = 2 * slab_keys * 4;
  static constexpr int ratio_bytes = has_granules ? steps * factor_bytes : 0;
  static constexpr int place_bytes = has_fine_granules ? 2 * slab_keys * 8 : 0;
  static constexpr int query_bytes = has_query_registers ? 0 : steps * 32 * 16;

  static constexpr int states_at = warps * stages * slab_bytes;
  static constexpr int factors_at = states_at + warps * state_bytes;
  static constexpr int ratios_at = factors_at + warps * stages * factor_bytes;
  static constexpr int places_at = ratios_at + warps * stages * ratio_bytes;
  static constexpr int alive_at = places_at + warps * stages * place_bytes;
  static constexpr int sums_at = alive_at + (warps * stages * 4 + 7) / 8 * 8;
  static constexpr int free_at = sums_at + warps * rows * 8;
  static constexpr int flag_at = free_at + warps * 4;
  static constexpr int parked_at = (flag_at + 4 + 15) / 16 * 16;
  static constexpr int rows_at = parked_at + threads * ((Place::columns + 4) * 4);
  static constexpr int walks_at = rows_at + rows * 48;
  static constexpr int queries_at = walks_at + (warps + 1) * 32;
  static constexpr int shared_bytes = has_registers ? parked_at : queries_at + query_bytes;
  static_assert(queries_at % 16 == 0 && places_at % 8 == 0);
  static_assert(shared_bytes <= 99 << 10, "more than every architecture has");
};

/// Whether a Config is one of those above.
template <class Config> concept Quantised = requires { Config::stored; };

/// A unit of 16 bytes of a key in a plane of a slab, and from it others: one word, one instruction
/// each. Eight keys' units of one number, or a row's eight, lie in different banks.
template <Quantised Config>
class ByteUnits {
 public:
  /// Unit `unit` of key `key` of the plane at `plane`, a multiple of 256.
  FOLIO_DEVICE ByteUnits(uint32_t plane, int key, int unit)
      : at_(plane + static_cast<uint32_t>(key * Config::row_bytes +
                                          ((unit ^ key / rows_of_line) % units << 4))) {}

  /// The unit with its number XORed with `k`.
  [[nodiscard]] FOLIO_DEVICE uint32_t at(int k = 0) const {
    return at_ ^ static_cast<uint32_t>(k << 4);
  }
  /// The same unit `keys` keys further, a multiple of the rows of 512 bytes.
  [[nodiscard]] FOLIO_DEVICE uint32_t further(int keys) const {
    return (at_ ^ static_cast<uint32_t>(keys / rows_of_line % units << 4)) +
           static_cast<uint32_t>(keys * Config::row_bytes);
  }

 private:
  static constexpr int units = Config::row_bytes / 16;  // of a row
  // of 128 bytes
  static constexpr int rows_of_line = Config::row_bytes < 128 ? 128 / Config::row_bytes : 1;
  uint32_t at_;
};

}  // namespace folio::cuda
