// SPDX-License-Identifier: Apache-2.0
/// bench/gpu_bench.cpp: attention, append and the plan on a CUDA device, by replay of graphs,
/// against the rate at which the same device reads. See tools/gpu_check.sh.
///
///     gpu_bench RESULT.jsonl     appends rows; reads the roofs that gpu_check has put there
///     gpu_bench RESULT.jsonl small   the same rows at lengths of an emulated device
///     gpu_bench profile          two steps, for profilers
///
/// A graph holds a step: the plan where the row says so, then attention, its merge included. Cold:
/// the graph walks over so many sets of pages that none is in L2 when its turn comes again. Bytes
/// are those of K and V that the step must read (append: read and write). Data is random, since
/// zeros are faster. Medians. Exit status: 0 done, 1 a row failed, 77 no GPU.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "folio/attention/append.h"
#include "folio/attention/attend.h"
#include "folio/core/element.h"
#include "gpu_step.h"
#include "support/cuda_device.h"
#include "support/cuda_launches.h"
#include "support/test_device.h"

namespace folio::bench {
namespace {

using test::CudaDevice;
using test::CudaGraph;

constexpr int no_gpu = 77;

struct RowCase {
  const char* name;
  GpuStepShape shape;
  GpuStepPart part;
};

std::vector<RowCase> row_cases() {
  const GpuStepShape llama = {.sequences = 8, .context = 32768};
  std::vector<RowCase> rows;
  const auto add = [&](const char* name, GpuStepPart part, auto change) {
    GpuStepShape shape = llama;
    change(shape);
    rows.push_back({name, shape, part});
  };
  const auto with_latent = [](GpuStepShape& s) {
    s.context = 8192;
    s.q_heads = 16;
    s.kv_heads = 1;
    s.head_size = 576;
    s.v_head_size = 512;
    s.page_size = 64;
  };
  const auto with_fp8 = [](GpuStepShape& s) { s.dtype = DType::f8_e4m3; };
  const auto one_of = [](int32_t context) {
    return [context](GpuStepShape& s) {
      s.sequences = 1;
      s.context = context;
    };
  };
  add("decode 1 x 1k", GpuStepPart::step, one_of(1024));
  add("decode 1 x 8k 64/8", GpuStepPart::step, [&](GpuStepShape& s) {
    one_of(8192)(s);
    s.q_heads = 64;
  });
  add("decode 8 x 4k", GpuStepPart::step, [](GpuStepShape& s) { s.context = 4096; });
  add("decode 8 x 32k", GpuStepPart::step, [](GpuStepShape&) {});
  add("decode 8 x 32k, attend alone", GpuStepPart::attend, [](GpuStepShape&) {});
  add("decode 8 x 32k e4m3", GpuStepPart::step, with_fp8);
  add("latent 8 x 8k, 16 heads", GpuStepPart::step, with_latent);
  add("plan of 8 x 32k", GpuStepPart::plan, [](GpuStepShape&) {});
  add("append 16k tokens", GpuStepPart::append, [](GpuStepShape& s) {
    s.sequences = 16;
    s.context = s.new_tokens = 1024;
  });
  add("append 64 tokens", GpuStepPart::append, [](GpuStepShape& s) {
    s.sequences = 64;
    s.context = 1024;
  });
  add("prefill 4 x 2k", GpuStepPart::step, [](GpuStepShape& s) {
    s.sequences = 4;
    s.context = s.new_tokens = 2048;
  });
  return rows;
}

/// Bytes per second of reading, cold and hot, as gpu_check measured them in the same run; 0: not.
struct Roofs {
  double cold = 0, hot = 0;
};

Roofs roofs_in(const char* path) {
  Roofs roofs;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_discarded() || !record.contains("roof") || record.at("roof") != "read") continue;
    (record.at("cache") == "hot" ? roofs.hot : roofs.cold) = record.at("bytes_per_s");
  }
  return roofs;
}

class Results {
 public:
  explicit Results(const char* path) : roofs_(roofs_in(path)), file_(path, std::ios::app) {
    if (!file_) throw std::runtime_error(std::string("cannot write ") + path);
  }
  void put(const nlohmann::json& record) { file_ << record.dump() << std::endl; }

  void head(const CudaDevice& device) {
    char now[32];
    const std::time_t time = std::time(nullptr);
    std::tm parts = {};
    gmtime_r(&time, &parts);
    std::strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &parts);
    const char* const commit = std::getenv("FOLIO_COMMIT");
    put({{"gpu", device.name()},
         {"compute_capability",
          std::to_string(device.major()) + "." + std::to_string(device.minor())},
         {"driver_version", device.driver_version()},
         {"stage", "bench"},
         {"commit", commit != nullptr ? commit : "unknown"},
         {"compiler", __VERSION__},
         {"flags", FOLIO_BENCH_FLAGS},
         {"began", now}});
  }
  void row(const RowCase& c, const GpuStep& step, bool is_hot, double seconds) {
    const double per_second = static_cast<double>(step.bytes(c.part)) / seconds;
    const double roof = is_hot ? roofs_.hot : roofs_.cold;
    nlohmann::json record = {{"row", c.name},
                             {"kernel", step.kernel()},
                             {"instances", test::take_launched_kernels()},
                             {"cache", is_hot ? "hot" : "cold"},
                             {"us", seconds * 1e6},
                             {"bytes", step.bytes(c.part)},
                             {"bytes_per_s", per_second},
                             {"percent_of_read", nullptr}};
    if (c.part == GpuStepPart::step || c.part == GpuStepPart::attend)
      record["flop_per_s"] = step.flops() / seconds;
    if (roof > 0 && step.bytes(c.part) > 0) record["percent_of_read"] = 100 * per_second / roof;
    put(record);
    std::printf("%-32s %-4s %10.1f us %7.3f TB/s %s\n", c.name, is_hot ? "hot" : "cold",
                seconds * 1e6, per_second * 1e-12,
                roof > 0 ? (std::to_string(100 * per_second / roof) + " % of read").c_str() : "");
    std::fflush(stdout);
  }

 private:
  Roofs roofs_;
  std::ofstream file_;
};

double median_seconds(const CudaDevice& device, const std::vector<GpuStep*>& steps,
                      GpuStepPart part, int runs) {
  for (GpuStep* const step : steps) step->put(part, Stream());  // loads kernels, fills plans
  device.synchronise();
  CudaGraph graph(device, [&](Stream stream) {
    for (GpuStep* const step : steps) step->put(part, stream);
  });
  const int warm_ups = runs / 7;
  std::vector<double> seconds;
  for (int i = 0; i < warm_ups + runs; ++i) {
    const double took = graph.run();
    if (i >= warm_ups) seconds.push_back(took / static_cast<double>(steps.size()));
  }
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return seconds[static_cast<size_t>(runs / 2)];
}

void measure(const CudaDevice& device, const RowCase& c, Results& results, int runs) {
  // cold: four times the cache lies between two uses of a page
  const int64_t bytes = std::max<int64_t>(GpuStep(device, c.shape).bytes(c.part), 1);
  const int64_t sets = std::clamp<int64_t>(4 * device.l2_bytes() / bytes + 1, 1, 64);
  std::vector<std::unique_ptr<GpuStep>> steps;
  std::vector<GpuStep*> all;
  for (int64_t i = 0; i < sets; ++i) {
    steps.push_back(std::make_unique<GpuStep>(device, c.shape));
    all.push_back(steps.back().get());
  }
  results.row(c, *all[0], false, median_seconds(device, all, c.part, runs));
  all[0]->check_output(c.part);
  if (bytes < device.l2_bytes() / 2)
    results.row(c, *all[0], true,
                median_seconds(device, {all[0], all[0], all[0], all[0]}, c.part, runs));
}

/// The same code on little data.
RowCase small(RowCase c) {
  c.shape.sequences = std::min(c.shape.sequences, 2);
  c.shape.context = std::min(c.shape.context, 96);
  c.shape.new_tokens = std::min(c.shape.new_tokens, 24);
  c.shape.q_heads = std::min(c.shape.q_heads, 4 * c.shape.kv_heads);
  return c;
}

int measure_all(const CudaDevice& device, const char* path, bool is_small) {
  Results results(path);
  results.head(device);
  int failed = 0;
  for (const RowCase& given : row_cases()) {
    const RowCase c = is_small ? small(given) : given;
    try {
      test::take_launched_kernels();
      measure(device, c, results, is_small ? 1 : 21);
    } catch (const Unsupported& refusal) {
      std::printf("%s: %s\n", c.name, refusal.what());
      results.put({{"row", c.name}, {"refused", refusal.what()}});
    } catch (const std::exception& error) {
      ++failed;
      std::printf("%s: %s\n", c.name, error.what());
      results.put({{"row", c.name}, {"failed", error.what()}});
    }
  }
  return failed == 0 ? 0 : 1;
}

/// Two rows' kernels once: long decode, of both kinds of cache.
int profile(const CudaDevice& device) {
  for (const RowCase& c : row_cases()) {
    if (c.name != std::string("decode 8 x 32k") && c.shape.head_size <= 256) continue;
    try {
      GpuStep step(device, c.shape);
      step.put(c.part, Stream());
      device.synchronise();
    } catch (const std::exception& error) {
      std::printf("%s: %s\n", c.name, error.what());
    }
  }
  return 0;
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  const bool is_small = argc == 3 && std::string(argv[2]) == "small";
  if (argc != 2 && !is_small) {
    std::fputs("usage: gpu_bench RESULT.jsonl [small] | profile\n", stderr);
    return 2;
  }
  const folio::test::CudaDevice* const device = folio::test::CudaDevice::find();
  if (device == nullptr) {
    std::puts("gpu_bench: no GPU on this machine, nothing measured");
    return folio::bench::no_gpu;
  }
  setenv("FOLIO_TEST_DEVICE", "cuda", 1);
  if (folio::test::test_device() != device->device()) return 1;
  try {
    return std::string(argv[1]) == "profile"
               ? folio::bench::profile(*device)
               : folio::bench::measure_all(*device, argv[1], is_small);
  } catch (const std::exception& error) {
    std::printf("gpu_bench: %s\n", error.what());
    return 1;
  }
}
