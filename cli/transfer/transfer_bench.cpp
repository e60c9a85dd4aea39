// SPDX-License-Identifier: Apache-2.0
/// cli/transfer/transfer_bench.cpp: two processes; this one writes pages to the other's memory and
/// reads them from there, in another order each time; all bytes are checked, outside of what is
/// measured.
#include "transfer/transfer_bench.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "folio/tier/transports.h"
#include "parts/output_file.h"
#include "parts/output_place.h"
#include "parts/streams.h"

namespace folio::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t word_bytes = 8;

Result<std::unique_ptr<Transport>> make(const TransferBenchOptions& options) {
  const TransportOptions limits{.max_runs = 1 << 20};
  if (options.transport == "shared-memory")
    return make_shared_memory_transport(limits, {.access = ReadAccess::same_user});
  if (options.transport == "ucx")
    return make_ucx_transport(limits, {.transports = options.ucx_transports});
  if (options.transport == "nixl")
    return make_nixl_transport(
        limits, {.library = options.nixl_library, .transports = options.ucx_transports});
  return fail(Errc::invalid_argument, "--transport is {}, expected shared-memory, ucx or nixl",
              std::string_view(options.transport));
}

/// The page that lies at place `i` in round `round`.
int64_t page_at(int64_t i, int64_t round, int64_t pages) {
  int64_t step = pages / 2 + 1;
  while (std::gcd(step, pages) != 1) ++step;
  return (i * step + round) % pages;
}

uint64_t word(int64_t page, int64_t at) {
  return static_cast<uint64_t>(page + 1) * 0x9e3779b97f4a7c15U + static_cast<uint64_t>(at);
}

void fill(std::span<std::byte> memory, int64_t round, const TransferBenchOptions& o) {
  for (int64_t i = 0; i < o.pages; ++i) {
    std::byte* const page = memory.data() + i * o.page_bytes;
    for (int64_t at = 0; at + word_bytes <= o.page_bytes; at += word_bytes) {
      const uint64_t w = word(page_at(i, round, o.pages), at);
      std::memcpy(page + at, &w, sizeof(w));
    }
  }
}

bool is_right(std::span<const std::byte> memory, int64_t round, const TransferBenchOptions& o) {
  for (int64_t i = 0; i < o.pages; ++i) {
    const std::byte* const page = memory.data() + i * o.page_bytes;
    for (int64_t at = 0; at + word_bytes <= o.page_bytes; at += word_bytes) {
      const uint64_t w = word(page_at(i, round, o.pages), at);
      if (std::memcmp(page + at, &w, sizeof(w)) != 0) return false;
    }
  }
  return true;
}

struct Order {
  int64_t round = 0;       ///< that the memory is to have the pages of
  int32_t is_to_fill = 0;  ///< else: to be checked
  int32_t is_right = 0;    ///< the answer
};

PeerMessage next_message(Transport& transport) {
  PeerMessage message[1];
  while (transport.receive(message) == 0) std::this_thread::yield();
  return std::move(message[0]);
}

/// The other process, until it is killed.
[[noreturn]] void serve(const TransferBenchOptions& options, int out) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto transport = make(options);
  if (!transport) ::_exit(1);
  std::vector<std::byte> memory(static_cast<size_t>(options.pages * options.page_bytes));
  if (!(*transport)->add_region(memory)) ::_exit(1);
  const auto address = (*transport)->address();
  if (!address) ::_exit(1);
  const uint64_t bytes = address->size();
  (void)!::write(out, &bytes, sizeof(bytes));
  (void)!::write(out, address->data(), bytes);
  for (;;) {
    // waits without a core of its own: what is measured needs it
    PeerMessage message[1];
    if ((*transport)->receive(message) == 0) {
      ::usleep(200);
      continue;
    }
    Order order;
    std::memcpy(&order, message[0].bytes.data(), sizeof(order));
    if (order.is_to_fill != 0) fill(memory, order.round, options);
    order.is_right = is_right(memory, order.round, options) ? 1 : 0;
    (void)(*transport)->send(message[0].peer, std::as_bytes(std::span(&order, 1)));
  }
}

/// The child's address; nothing where it said none.
std::vector<std::byte> read_address(int in) {
  uint64_t bytes = 0;
  if (::read(in, &bytes, sizeof(bytes)) != sizeof(bytes)) return {};
  std::vector<std::byte> address(bytes);
  size_t got = 0;
  while (got < bytes) {
    const ssize_t part = ::read(in, address.data() + got, bytes - got);
    if (part <= 0) return {};
    got += static_cast<size_t>(part);
  }
  return address;
}

class Bench {
 public:
  Bench(const TransferBenchOptions& options, std::unique_ptr<Transport> transport)
      : options_(options),
        memory_(static_cast<size_t>(options.pages * options.page_bytes)),
        transport_(std::move(transport)) {}

  Status open(std::span<const std::byte> address) {
    const auto region = transport_->add_region(memory_);
    if (!region) return region.error();
    region_ = *region;
    const auto peer = transport_->connect(address);
    if (!peer) return peer.error();
    peer_ = *peer;
    return {};
  }

  /// Prints a line, and adds to `figures`.
  Status measure(TransferDirection direction, const char* name, nlohmann::ordered_json& figures) {
    const bool is_write = direction == TransferDirection::write;
    if (is_write) {
      fill(memory_, 0, options_);
    } else if (Status s = order({.is_to_fill = 1}); !s.is_ok()) {
      return s;
    }
    if (!is_write) std::fill(memory_.begin(), memory_.end(), std::byte{});
    if (Status s = move(direction, 0); !s.is_ok()) return s;  // pages are there, ways are open
    const auto begun = Clock::now();
    for (int64_t round = 0; round < options_.rounds; ++round)
      if (Status s = move(direction, round); !s.is_ok()) return s;
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    const int64_t last = options_.rounds - 1;
    if (is_write) {
      if (Status s = order({.round = last}); !s.is_ok()) return s;
    } else if (!is_right(memory_, last, options_)) {
      return fail(Errc::internal, "a byte that was read is wrong");
    }
    const double bytes = static_cast<double>(memory_.size()) * static_cast<double>(options_.rounds);
    show(fmt::format("{:6} {:8} pages of {:9} bytes, {} transfers: {:7.3f} GB/s, bytes are right\n",
                     name, options_.pages, options_.page_bytes, options_.rounds,
                     bytes / seconds * 1e-9));
    figures[name] = {{"seconds", seconds}, {"bytes_per_second", bytes / seconds}};
    return {};
  }

 private:
  /// Pages to where round `round` has them, or from there.
  Status move(TransferDirection direction, int64_t round) {
    std::vector<RegionRun> local, remote;
    for (int64_t i = 0; i < options_.pages; ++i) {
      // the side that is written has page `page_at(i, round)` at place i, the other one at its own
      const int64_t page = page_at(i, round, options_.pages);
      const int64_t from = places_[static_cast<size_t>(page)];
      const bool is_write = direction == TransferDirection::write;
      local.push_back({region_, (is_write ? from : i) * options_.page_bytes, options_.page_bytes});
      remote.push_back(
          {RegionId{1}, (is_write ? i : from) * options_.page_bytes, options_.page_bytes});
    }
    const auto id =
        transport_->post({.direction = direction, .peer = peer_, .local = local, .remote = remote});
    if (!id) return id.error();
    TransferState state = TransferState::pending;
    while ((state = transport_->poll(*id).value()) == TransferState::pending) ::usleep(20);
    (void)transport_->release(*id);
    return state == TransferState::done ? Status() : transport_->last_fault();
  }

  Status order(const Order& what) {
    if (Status s = transport_->send(peer_, std::as_bytes(std::span(&what, 1))); !s.is_ok())
      return s;
    Order answer;
    const PeerMessage message = next_message(*transport_);
    std::memcpy(&answer, message.bytes.data(), sizeof(answer));
    return answer.is_right != 0 ? Status()
                                : fail(Errc::internal, "a byte that was written is wrong");
  }

  std::vector<int64_t> make_places() const {
    std::vector<int64_t> places(static_cast<size_t>(options_.pages));
    for (int64_t i = 0; i < options_.pages; ++i)
      places[static_cast<size_t>(page_at(i, 0, options_.pages))] = i;
    return places;
  }

  const TransferBenchOptions options_;
  std::vector<std::byte> memory_;
  const std::vector<int64_t> places_ = make_places();  ///< of pages, in round 0
  std::unique_ptr<Transport> transport_;
  RegionId region_;
  PeerId peer_;
};

Status run(const TransferBenchOptions& options, int in, nlohmann::ordered_json& figures) {
  const std::vector<std::byte> address = read_address(in);
  auto transport = make(options);
  if (!transport) return transport.error();
  if (address.empty()) return fail(Errc::io, "the other process has ended");
  Bench bench(options, std::move(*transport));
  if (Status s = bench.open(address); !s.is_ok()) return s;
  figures = {{"transport", options.transport},
             {"page_bytes", options.page_bytes},
             {"pages", options.pages},
             {"transfers", options.rounds}};
  if (Status s = bench.measure(TransferDirection::write, "write", figures); !s.is_ok()) return s;
  return bench.measure(TransferDirection::read, "read", figures);
}

}  // namespace

Status transfer_bench(const TransferBenchOptions& options) {
  const NamedPath outputs[] = {{"--json", options.json}};
  const NamedPath inputs[] = {{"the library of --nixl-library", options.nixl_library}};
  if (Status s = check_outputs(outputs, inputs, {}); !s.is_ok()) return s;
  OutputFile file("--json");
  if (Status s = file.open(options.json); !s.is_ok()) return s;
  int pipe[2];
  if (::pipe(pipe) != 0) return fail(Errc::io, "the system gives no pipe");
  const pid_t child = ::fork();  // before there are threads
  if (child == 0) serve(options, pipe[1]);
  ::close(pipe[1]);
  nlohmann::ordered_json figures;
  Status status = run(options, pipe[0], figures);
  ::close(pipe[0]);
  if (child > 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  if (status.is_ok() && file.is_open()) status = file.write(figures.dump(1) + "\n");
  return status;
}

}  // namespace folio::cli
