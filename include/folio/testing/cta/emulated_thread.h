// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/emulated_thread.h: the machine that kernels are written against, on the host:
/// the members of cuda::Thread (src/cuda/primitives/), each checked.
///
/// Every call may be the last of its thread: after a fault nobody goes on. The place of the call is
/// part of the fault's text.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>

#include "folio/testing/cta/barriers.h"
#include "folio/testing/cta/bulk_copies.h"
#include "folio/testing/cta/collectives.h"
#include "folio/testing/cta/group_multiplies.h"
#include "folio/testing/cta/numbers.h"
#include "folio/testing/cta/order.h"
#include "folio/testing/cta/tile_map.h"

namespace folio::inline v1::emulator {

namespace cta {

/// The parts of the machine, one of each for a grid.
struct Machine {
  explicit Machine(const GridShape& shape) : world(shape) {
    world.land_loads = [this](bool must) { return copies.land_loads(must); };
    world.check_end = [this](ThreadState& s) {
      copies.check_end(s);
      groups.check_end(s);
      if (s.block->live == 1) collectives.count_conflicts(*s.block);
    };
  }

  World world;
  Order order{world};
  Collectives collectives{world, order};
  BarrierSet barriers{world, order};
  BulkCopies copies{world, order, barriers};
  GroupMultiplies groups{world, order, collectives};
};

}  // namespace cta

class EmulatedThread {
 public:
  using TileMap = tma::EncodedTensorMap;
  using Where = std::source_location;

  EmulatedThread(cta::Machine& machine, cta::ThreadState& state) noexcept
      : m_(machine), s_(state) {}

  [[nodiscard]] int thread() const noexcept { return s_.index; }
  [[nodiscard]] int lane() const noexcept { return s_.index % 32; }
  [[nodiscard]] int warp() const noexcept { return s_.index / 32; }
  [[nodiscard]] int threads() const noexcept { return m_.world.shape.threads; }
  [[nodiscard]] int block() const noexcept { return s_.block->index; }
  [[nodiscard]] int blocks() const noexcept { return m_.world.shape.blocks; }

  // ---- memory
  [[nodiscard]] uint32_t shared_base() const noexcept { return cta::shared_begin; }
  template <class T>
  T load_shared(uint32_t at, const Where& where = Where::current()) {
    s_.where = where;
    const int64_t offset = shared<T>(at, "reads");
    m_.order.shared_read(s_, offset, sizeof(T), s_.clock.epoch(), "");
    T value;
    std::memcpy(static_cast<void*>(&value), s_.block->shared.at(offset), sizeof(T));
    return value;
  }
  template <class T>
  void store_shared(uint32_t at, const T& value, const Where& where = Where::current()) {
    s_.where = where;
    const int64_t offset = shared<T>(at, "writes");
    m_.order.shared_write(s_, offset, sizeof(T), s_.clock.epoch(), "");
    std::memcpy(s_.block->shared.at(offset), &value, sizeof(T));
  }
  template <class T>
  T read(const T* p, const Where& where = Where::current()) {
    s_.where = where;
    m_.order.need_alignment(s_, p, cta::access_alignment<T>(), "reads");
    m_.order.global_read(s_, p, sizeof(T), "reads");
    m_.world.counts.read_bytes += sizeof(T);
    return value_at(p);
  }
  template <class T>
  T load(const T* p, const Where& where = Where::current()) {
    s_.where = where;
    m_.order.need_alignment(s_, p, cta::access_alignment<T>(), "loads");
    m_.order.global_access(s_, p, sizeof(T), s_.clock.epoch(), false, "loads");
    m_.world.counts.load_bytes += sizeof(T);
    return value_at(p);
  }
  template <class T>
  void store(T* p, const T& value, const Where& where = Where::current()) {
    static_assert(std::is_trivially_copyable_v<T>);
    s_.where = where;
    m_.order.need_alignment(s_, p, cta::access_alignment<T>(), "stores to");
    m_.order.global_access(s_, p, sizeof(T), s_.clock.epoch(), true, "stores");
    m_.world.counts.store_bytes += sizeof(T);
    std::memcpy(static_cast<void*>(p), &value, sizeof(T));
  }
  uint32_t add_acq_rel(uint32_t* at, uint32_t n, const Where& where = Where::current()) {
    s_.where = where;
    ++m_.world.counts.atomics;
    m_.order.need_alignment(s_, at, 4, "counts at");
    if (m_.world.checks()) acquire(at);
    m_.order.global_atomic(s_, at, 4);
    if (m_.world.checks()) release(at);
    const uint32_t old = *at;
    *at = old + n;
    m_.world.yield(s_);
    return old;
  }
  void fail(const char* why, const Where& where = Where::current()) {
    s_.where = where;
    m_.world.fail(s_, std::string("fails: ") + why);
  }

  // ---- cp.async
  template <int Bytes = 16>
  void copy_async(uint32_t to, const void* from, bool valid,
                  const Where& where = Where::current()) {
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
    s_.where = where;
    m_.copies.copy_async(s_, to, from, valid, Bytes);
  }
  void commit_copies() { s_.copies.close(); }
  template <int Pending>
  void wait_copies() {
    m_.copies.wait_copies(s_, Pending);
  }

  // ---- mbarriers
  void init_barrier(uint32_t at, uint32_t arrivals, const Where& where = Where::current()) {
    s_.where = where;
    m_.barriers.make(s_, at, arrivals);
  }
  void fence_barriers() { m_.barriers.fence(s_); }
  void fence_async() {
    s_.fences.push_back({s_.clock.now, s_.clock.copies});
    ++s_.clock.now;
  }
  void arrive(uint32_t at, const Where& where = Where::current()) {
    s_.where = where;
    m_.barriers.arrive(s_, at);
  }
  void arrive_expecting(uint32_t at, uint32_t bytes, const Where& where = Where::current()) {
    s_.where = where;
    m_.barriers.expect(s_, at, bytes);
    m_.barriers.arrive(s_, at);
  }
  void wait(uint32_t at, uint32_t parity, const Where& where = Where::current()) {
    s_.where = where;
    m_.barriers.wait(s_, at, parity);
  }

  // ---- TMA. Maps as a kernel has them, or their descriptions.
  template <int Rank, class Map>
  void copy_tile(const Map& map, const tma::Coordinates<Rank>& c, uint32_t to, uint32_t barrier,
                 const Where& where = Where::current()) {
    s_.where = where;
    m_.copies.load(s_, tile<Rank>(map, c), to, barrier);
  }
  template <int Rank, class Map>
  void store_tile(const Map& map, const tma::Coordinates<Rank>& c, uint32_t from,
                  const Where& where = Where::current()) {
    s_.where = where;
    m_.copies.store(s_, tile<Rank>(map, c), from);
  }
  template <class Map>
  void copy_gather4(const Map& map, const tma::Coordinates<5>& c, uint32_t to, uint32_t barrier,
                    const Where& where = Where::current()) {
    s_.where = where;
    cta::Bulk bulk = bulk_of(map, c);
    bulk.kind = cta::Bulk::Kind::gather4;
    bulk.map.use = tma::Use::gather4;  // the driver's maps do not tell
    m_.copies.load(s_, bulk, to, barrier);
  }
  template <int Rank, class Map>
  void prefetch_tile(const Map& map, const tma::Coordinates<Rank>& c,
                     const Where& where = Where::current()) {
    s_.where = where;
    (void)tile<Rank>(map, c);
    ++m_.world.counts.prefetches;
  }
  template <class Map>
  void prefetch_map(const Map& map, const Where& where = Where::current()) {
    s_.where = where;
    (void)map_of(map);
  }
  void copy_bulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier,
                 const Where& where = Where::current()) {
    s_.where = where;
    m_.copies.load(s_, plain(const_cast<void*>(from), bytes), to, barrier);
  }
  void store_bulk(void* to, uint32_t from, uint32_t bytes, const Where& where = Where::current()) {
    s_.where = where;
    m_.copies.store(s_, plain(to, bytes), from);
  }
  void commit_stores() { s_.stores.close(); }
  template <int Pending>
  void wait_stores() {
    m_.copies.wait_stores(s_, Pending, false);
  }
  template <int Pending>
  void wait_store_reads() {
    m_.copies.wait_stores(s_, Pending, true);
  }

  // ---- together with others
  void sync_warp(const Where& where = Where::current()) { together(cta::Op::sync_warp, where); }
  void sync_block(const Where& where = Where::current()) {
    s_.where = where;
    m_.collectives.sync(s_, 0, threads());
  }
  void sync_threads(int barrier, int count, const Where& where = Where::current()) {
    s_.where = where;
    if (barrier == 0) m_.world.fail(s_, "names barrier 0, which sync_block uses");
    m_.collectives.sync(s_, barrier, count);
  }
  uint32_t shuffle(uint32_t value, int from, const Where& where = Where::current()) {
    s_.offer.value = value;
    s_.offer.from = from;
    together(cta::Op::shuffle, where);
    return s_.offer.out[0];
  }
  float shuffle(float value, int from, const Where& where = Where::current()) {
    return __builtin_bit_cast(float, shuffle(__builtin_bit_cast(uint32_t, value), from, where));
  }
  uint32_t shuffle_xor(uint32_t value, int mask, const Where& where = Where::current()) {
    return shuffle(value, lane() ^ mask, where);
  }
  float shuffle_xor(float value, int mask, const Where& where = Where::current()) {
    return shuffle(value, lane() ^ mask, where);
  }
  uint32_t ballot(bool value, const Where& where = Where::current()) {
    s_.offer.value = value ? 1 : 0;
    together(cta::Op::ballot, where);
    return s_.offer.out[0];
  }

  // ---- matrices
  template <bool Transposed>
  void load_matrices(uint32_t (&out)[4], uint32_t row, const Where& where = Where::current()) {
    s_.offer.value = row;
    together(Transposed ? cta::Op::load_matrices_transposed : cta::Op::load_matrices, where);
    std::memcpy(out, s_.offer.out, sizeof out);
  }
  template <DType Type>
  void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                const Where& where = Where::current()) {
    static_assert(Type == DType::bf16 || Type == DType::f16);
    s_.offer.c = c;
    s_.offer.a = a;
    s_.offer.b[0] = b0;
    s_.offer.b[1] = b1;
    s_.offer.dtype = Type;
    together(cta::Op::multiply, where);
  }
  void warpgroup_arrive(const Where& where = Where::current()) {
    s_.where = where;
    m_.groups.arrive(s_);
  }
  template <int N, DType Type, bool TransposedA = false, bool TransposedB = false>
  void multiply_group(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate,
                      const Where& where = Where::current()) {
    s_.offer.a = nullptr;
    s_.offer.descriptors = {a, b};
    multiply_group<N, Type>(d, operand(a, TransposedA), operand(b, TransposedB), accumulate, where);
  }
  template <int N, DType Type, bool TransposedB = false>
  void multiply_group(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate,
                      const Where& where = Where::current()) {
    s_.offer.a = a;
    s_.offer.descriptors = {0, b};
    multiply_group<N, Type>(d, WgmmaOperand{}, operand(b, TransposedB), accumulate, where);
  }
  void commit_multiplies(const Where& where = Where::current()) {
    s_.where = where;
    m_.groups.commit(s_);
  }
  template <int Pending>
  void wait_multiplies(const Where& where = Where::current()) {
    s_.where = where;
    m_.groups.wait(s_, Pending);
  }

  // ---- numbers
  float exp2(float x) const noexcept { return machine_exp2(x); }
  float log2(float x) const noexcept { return std::log2(x); }
  float tanh(float x) const noexcept { return std::tanh(x); }
  float fma(float x, float y, float z) const noexcept { return std::fma(x, y, z); }
  template <DType Type>
  uint32_t pack(float low, float high) const noexcept {
    return machine_pack<Type>(low, high);
  }
  template <DType Type>
  float unpack(uint32_t pair, int part) const noexcept {
    return machine_unpack<Type>(pair, part);
  }
  uint32_t half_pair_of_e4m3(uint16_t pair) const noexcept {
    return machine_half_pair<f8_e4m3>(pair);
  }
  uint32_t half_pair_of_e5m2(uint16_t pair) const noexcept {
    return machine_half_pair<f8_e5m2>(pair);
  }
  uint16_t to_e4m3(float low, float high) const noexcept {
    return machine_fp8_pair<f8_e4m3>(low, high);
  }
  uint16_t to_e5m2(float low, float high) const noexcept {
    return machine_fp8_pair<f8_e5m2>(low, high);
  }

 private:
  template <class T>
  int64_t shared(uint32_t at, const char* verb) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (m_.world.checks() && s_.bank_accesses.size() < cta::most_bank_accesses)
      s_.bank_accesses.push_back({s_.where.file_name(), s_.where.line(), s_.where.column(), at,
                                  static_cast<uint8_t>(cta::access_alignment<T>())});
    return m_.order.shared_offset(s_, at, sizeof(T), cta::access_alignment<T>(), verb);
  }
  template <class T>
  static T value_at(const T* p) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(static_cast<void*>(&value), p, sizeof(T));
    return value;
  }
  void together(cta::Op op, const Where& where) {
    s_.where = where;
    m_.collectives.warp(s_, op);
  }
  /// Learns what was published at a counter.
  void acquire(const uint32_t* at) {
    const cta::ForeignPtr& published = m_.world.published[at];
    if (!published) return;
    cta::Knowledge& mine = s_.clock.own(m_.world.knowledge);
    mine.foreign = cta::join_foreign(mine.foreign, published);
    if (const auto& here = (*published)[static_cast<size_t>(block())]) cta::join(mine.seen, *here);
  }
  /// Publishes what this thread knows.
  void release(const uint32_t* at) {
    cta::ForeignPtr& published = m_.world.published[at];
    auto times = std::make_shared<cta::Times>(s_.clock.shared->seen);
    s_.clock.publish(*times);
    auto own = std::make_shared<cta::Foreign>(static_cast<size_t>(blocks()));
    (*own)[static_cast<size_t>(block())] = std::move(times);
    const cta::ForeignPtr mine = cta::join_foreign(s_.clock.shared->foreign, std::move(own));
    published = cta::join_foreign(published, mine);
    ++s_.clock.now;
  }

  tma::TensorMap map_of(const tma::TensorMap& map) { return map; }
  tma::TensorMap map_of(const tma::EncodedTensorMap& encoded) {
    const std::optional<tma::TensorMap> map = decode_tile_map(encoded);
    if (!map) m_.world.fail(s_, "is given a tensor map that the emulator has not encoded");
    return *map;
  }
  template <int Rank, class Map>
  cta::Bulk bulk_of(const Map& map, const tma::Coordinates<Rank>& c) {
    cta::Bulk bulk;
    bulk.map = map_of(map);
    std::memcpy(bulk.coordinates, c.at, sizeof c.at);
    return bulk;
  }
  template <int Rank, class Map>
  cta::Bulk tile(const Map& map, const tma::Coordinates<Rank>& c) {
    cta::Bulk bulk = bulk_of(map, c);
    bulk.kind = cta::Bulk::Kind::tile;
    if (bulk.map.rank != Rank)
      m_.world.fail(s_, "gives " + std::to_string(Rank) + " coordinates for a map of rank " +
                            std::to_string(bulk.map.rank));
    return bulk;
  }
  static cta::Bulk plain(void* global, uint32_t bytes) {
    cta::Bulk bulk;
    bulk.global = static_cast<std::byte*>(global);
    bulk.bytes = bytes;
    return bulk;
  }
  /// With addresses as they lie in the block's memory.
  static WgmmaOperand operand(uint64_t descriptor, bool transposed) {
    WgmmaOperand operand{decode_wgmma_descriptor(descriptor), transposed ? Major::mn : Major::k};
    operand.descriptor.start_address -= cta::shared_begin;
    return operand;
  }
  template <int N, DType Type>
  void multiply_group(float (&d)[N / 2], const WgmmaOperand& a, const WgmmaOperand& b,
                      bool accumulate, const Where& where) {
    s_.where = where;
    s_.offer.c = d;
    s_.offer.value = accumulate ? 1 : 0;
    s_.offer.dtype = Type;
    m_.groups.issue(s_, {Type, N, a, b, {}}, accumulate);
  }

  cta::Machine& m_;
  cta::ThreadState& s_;
};

}  // namespace folio::inline v1::emulator
