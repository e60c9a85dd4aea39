// SPDX-License-Identifier: Apache-2.0
/// bench/disk_tier_bench.cpp: a disk tier beside the device that it lies on.
///
///     disk_tier_bench --directory=DIR [--mib=1024] [--rounds=3] [--json=FILE] [--commit=ID]
///
/// Roof D: bytes per second of reads and writes of whole pages, one behind the other, with io_uring
/// and O_DIRECT, as many in flight as the tier has, into a file of the same size whose blocks are
/// allocated beforehand; the faster one of one thread and of the tier's two. Roof and tier take
/// turns; medians of the rounds. Then a sequence of 8,192 tokens of Llama-3-8B (1 GiB) is loaded.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "folio/tier/disk_tier.h"
#include "report.h"
#include "roofs.h"
#include "tier/disk/file_io.h"

namespace folio::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr uint32_t depth = 32;
constexpr uint32_t tier_threads = 2;
constexpr int64_t mib = int64_t{1} << 20;
constexpr int64_t run_bytes = 32 << 10;  // K or V of 16 tokens, 8 heads of 128, bf16

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

[[noreturn]] void stop(const std::string& what) { throw std::runtime_error(what); }

struct Options {
  std::string directory;
  int64_t bytes = 1024 * mib;
  int rounds = 3;
};

// ---- The device

enum class Way { store, load };

/// One thread's part of the file.
void transfer(tier::FileIo& io, int file, int64_t first, int64_t end, int64_t page_bytes,
              const tier::IoMemory& memory, Way way) {
  std::vector<tier::FileOp> ops;
  const int64_t slots = memory->bytes() / page_bytes;
  for (int64_t at = first; at < end; at += page_bytes)
    ops.push_back({.file = file,
                   .memory = memory->data() + (at / page_bytes) % slots * page_bytes,
                   .bytes = page_bytes,
                   .offset = at,
                   .writes = way == Way::store});
  io.run(ops, memory);
  for (const tier::FileOp& op : ops)
    if (op.error != 0) stop(std::string("the device: ") + std::strerror(op.error));
}

double device_seconds(const Options& o, int64_t page_bytes, uint32_t threads, Way way) {
  const std::string path = o.directory + "/raw";
  if (way == Way::store) fs::remove(path);
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT, 0644);
  if (file < 0) stop("no file with O_DIRECT at " + path);
  if (way == Way::store && fallocate(file, 0, 0, o.bytes) != 0) stop("no room in " + path);
  const auto io = tier::make_uring_file_io(depth, 0);
  if (io == nullptr) stop("no io_uring here");
  std::vector<tier::IoMemory> memory;
  for (uint32_t i = 0; i < threads; ++i) {
    memory.push_back(tier::allocate_io_memory(64 * mib));
    std::memset(memory.back()->data(), 0x5a, static_cast<size_t>(64 * mib));
  }
  const double seconds = timed(static_cast<int>(threads), [&](int thread) {
    const int64_t part = o.bytes / threads;
    transfer(*io, file, thread * part, (thread + 1) * part, page_bytes,
             memory[static_cast<size_t>(thread)], way);
  });
  close(file);
  return seconds;
}

// ---- The tier

PageName name_of(int64_t number) {
  PageName name;
  std::memcpy(name.bytes.data(), &number, sizeof(number));
  return name;
}

/// Memory of `pages` pages, each of runs that lie apart as the layers of a cache do.
class Pages {
 public:
  Pages(int64_t pages, int64_t page_bytes) : memory_(pages * page_bytes) {
    const int64_t runs = page_bytes / run_bytes;
    for (int64_t p = 0; p < pages; ++p) {
      std::vector<Extent>& extents = extents_.emplace_back();
      for (int64_t r = 0; r < runs; ++r)
        extents.push_back({memory_.data() + (r * pages + p) * run_bytes, run_bytes});
    }
    for (int64_t i = 0; i < memory_.bytes(); i += 8) std::memcpy(memory_.data() + i, &i, 8);
  }
  [[nodiscard]] std::span<const Extent> extents(int64_t page) const {
    return extents_[static_cast<size_t>(page) % extents_.size()];
  }

 private:
  HugeMemory memory_;
  std::vector<std::vector<Extent>> extents_;
};

std::unique_ptr<Tier> open(const Options& o) {
  return make_disk_tier(
             o.directory + "/tier",
             {.max_queued_bytes = 2 * o.bytes, .threads = tier_threads, .max_bytes = 8 * o.bytes},
             {.depth = depth})
      .value();
}

void poll(Tier& tier, int64_t& in_flight) {
  TierCompletion ended[64];
  const size_t count = tier.poll(ended);
  for (size_t i = 0; i < count; ++i)
    if (ended[i].outcome != TierOutcome::done)
      stop(std::string("a page ended as ") + name(ended[i].outcome) + ": " +
           std::string(tier.last_fault().message()));
  in_flight -= static_cast<int64_t>(count);
  if (count == 0) usleep(50);
}

/// Each of `count` pages once, a few calls ahead of what has ended.
double tier_seconds(Tier& tier, const Pages& memory, int64_t count, int64_t page_bytes, Way way) {
  const int64_t at_once = std::max<int64_t>(1, 16 * mib / page_bytes);
  const Clock::time_point begin = Clock::now();
  int64_t in_flight = 0;
  for (int64_t first = 0; first < count; first += at_once) {
    std::vector<TierPage> pages;
    for (int64_t i = first; i < std::min(count, first + at_once); ++i)
      pages.push_back({name_of(i), memory.extents(i)});
    in_flight += std::ssize(pages);
    if (!(way == Way::store ? tier.store(pages) : tier.load(pages, 0))) stop("the tier is busy");
    while (in_flight > 4 * at_once) poll(tier, in_flight);
  }
  while (in_flight > 0) poll(tier, in_flight);
  return seconds_since(begin);
}

struct Times {
  std::vector<double> one, two, tier;
};

void report(Report& report, const Options& o, int64_t page_bytes, const char* way,
            const Times& times) {
  const double one = median(times.one), two = median(times.two);
  Row row;
  row.kernel = "disk tier";
  row.shape = std::string(way) + ", pages of " + std::to_string(page_bytes >> 10) + " KiB";
  row.threads = tier_threads;
  row.seconds = median(times.tier);
  row.bytes = static_cast<double>(o.bytes);
  row.roof = {.name = "D",
              .per_second = static_cast<double>(o.bytes) / std::min(one, two),
              .how = one < two ? "io_uring, one thread" : "io_uring, two threads"};
  report.set(row);
}

void measure(Report& out, const Options& o, int64_t page_bytes) {
  Times stores, loads;
  const int64_t count = o.bytes / page_bytes;
  // no page twice at once: 4 calls of 16 MiB, and one more, are in flight
  const Pages memory(256 * mib / page_bytes, page_bytes);
  for (int round = 0; round < o.rounds; ++round) {
    fs::remove_all(o.directory + "/tier");
    const auto tier = open(o);
    stores.one.push_back(device_seconds(o, page_bytes, 1, Way::store));
    stores.tier.push_back(tier_seconds(*tier, memory, count, page_bytes, Way::store));
    stores.two.push_back(device_seconds(o, page_bytes, 2, Way::store));
    loads.one.push_back(device_seconds(o, page_bytes, 1, Way::load));
    loads.tier.push_back(tier_seconds(*tier, memory, count, page_bytes, Way::load));
    loads.two.push_back(device_seconds(o, page_bytes, 2, Way::load));
  }
  report(out, o, page_bytes, "store", stores);
  report(out, o, page_bytes, "load", loads);
}

// ---- A sequence of Llama-3-8B

void load_sequence(const Options& o) {
  constexpr int64_t tokens = 8192, page_tokens = 16, layers = 32;
  constexpr int64_t page_bytes = layers * 2 * run_bytes, count = tokens / page_tokens;
  constexpr double flops = 2.0 * 8e9 * tokens;
  fs::remove_all(o.directory + "/tier");
  const auto tier = open(o);
  const Pages memory(count, page_bytes);
  tier_seconds(*tier, memory, count, page_bytes, Way::store);
  std::vector<double> all, first_layer, in_order;
  for (int round = 0; round < o.rounds; ++round) {
    all.push_back(tier_seconds(*tier, memory, count, page_bytes, Way::load));
    std::vector<TierPage> pages;
    for (int64_t i = 0; i < count; ++i) pages.push_back({name_of(i), memory.extents(i)});
    const Clock::time_point begin = Clock::now();
    const TierTicket ticket = tier->load(pages, 0, LoadOrder::extents).value();
    while (tier->landed(ticket) < 2) usleep(50);
    first_layer.push_back(seconds_since(begin));
    for (int64_t in_flight = count; in_flight > 0;) poll(*tier, in_flight);
    in_order.push_back(seconds_since(begin));
  }
  const double rate = median(arithmetic_rates(fastest_unit(2), 2, 0.5));
  std::printf(
      "\n8,192 tokens of Llama-3-8B, %.0f MiB in %d pages: loaded in %.3f s; by layers in %.3f s, "
      "the first one after %.3f s\nmeasured: %.2f TFLOP/s of %s on 2 threads; computed: %.1e flop "
      "at that rate take %.1f s\n",
      static_cast<double>(count * page_bytes) / mib, static_cast<int>(count), median(all),
      median(in_order), median(first_layer), rate * 1e-12, name(fastest_unit(2)), flops,
      flops / rate);
}

Options options_of(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string value(argument.substr(argument.find('=') + 1));
    if (argument.starts_with("--directory="))
      o.directory = value;
    else if (argument.starts_with("--mib="))
      o.bytes = std::max<int64_t>(64, std::atoll(value.c_str())) / 64 * 64 * mib;
    else if (argument.starts_with("--rounds="))
      o.rounds = std::max(1, std::atoi(value.c_str()));
    else
      stop("unknown option " + std::string(argument));
  }
  if (o.directory.empty()) stop("--directory=DIR is missing: a new one, on the device");
  return o;
}

int run(int argc, char** argv) {
  ReportOptions report_options = take_options(argc, argv);
  const Options o = options_of(argc, argv);
  if (!fs::create_directory(o.directory)) stop(o.directory + " is there already");
  Report out(std::move(report_options));
  for (const int64_t page_bytes : {64 << 10, 256 << 10, 1 << 20}) measure(out, o, page_bytes);
  out.finish();
  load_sequence(o);
  fs::remove_all(o.directory);
  return 0;
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  try {
    return folio::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "disk_tier_bench: %s\n", error.what());
    return 1;
  }
}
