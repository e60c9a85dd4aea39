// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_kernels.cpp: every kernel on a GPU, through the public functions, compared with
/// the same reference in double as on the CPU and in the emulator. See tools/gpu_check.sh.
///
/// usage: gpu_kernels cases plain|tma RESULT.jsonl [SECONDS]
///            appends to the file; kernels without, with tensor maps; SECONDS for a case
///        gpu_kernels smallest
///            one case of each kernel, for the tools
/// Exit status: 0 all right, 1 something is wrong, 77 no GPU, or none that folio has kernels for.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "attention/device.h"
#include "attention/internals.h"
#include "attention/kernel_list.h"
#include "cuda/attention_kernel.h"
#include "cuda/gpu_append_cases.h"
#include "cuda/gpu_case_list.h"
#include "cuda/gpu_copy_cases.h"
#include "cuda/gpu_mirror.h"
#include "cuda/gpu_records.h"
#include "cuda/gpu_rotate_cases.h"
#include "cuda/gpu_supervise.h"
#include "support/cuda_device.h"
#include "support/cuda_launches.h"
#include "support/kernel_cases.h"
#include "support/run_case.h"
#include "support/test_device.h"

namespace folio::test {
namespace {

constexpr int no_gpu = 77;
constexpr int most_lost_cases = 6;

/// What a case came to: a line of the result, and of the console if it is wrong.
struct Outcome {
  const char* verdict = "right";  ///< right, wrong, refused
  std::string why;
  double worst = 0.0;  ///< share of the bound
};

Outcome outcome_of(const Status& status) {
  return {status.is_ok()                       ? "right"
          : status.code() == Errc::unsupported ? "refused"
                                               : "wrong",
          std::string(status.message()), 0.0};
}

Outcome run_on_device(AttentionCase& c, const Kernel& kernel, const CudaDevice& device) {
  c.poison_output();
  const Result<Attention> attention =
      Attention::create(c.problem(), c.limits(), device.device(), kernel.name);
  if (!attention) return outcome_of(attention.error());
  c.set_precision(precision_of(*kernel_entry(*attention), c.problem()));
  GpuMirror mirror(device);
  for (const PagedKVView* const view : {&c.args().key, &c.args().value})
    if (view->scales.tensor_scale != nullptr) mirror.add(view->scales.tensor_scale, 4);
  const CudaMemory plan_memory(device, attention->plan_bytes()),
      workspace(device, attention->workspace_bytes());
  const Stream stream;
  if (Status s = prepare_async(*attention, workspace.span(), stream); !s.is_ok())
    return outcome_of(s);
  const Result<AttentionPlan> plan =
      plan_async(*attention, mirror.translated(c.batch()), plan_memory.span(), stream);
  if (!plan) return outcome_of(plan.error());
  // twice: the first leaves the workspace as the second finds it
  for (int i = 0; i < 2; ++i) {
    if (Status s =
            attend_async(*attention, *plan, mirror.translated(c.args()), workspace.span(), stream);
        !s.is_ok())
      return outcome_of(s);
  }
  device.synchronise();
  mirror.download_all();
  Accuracy accuracy;
  const ::testing::AssertionResult is_right = matches_reference(c, {}, &accuracy);
  return {is_right ? "right" : "wrong", is_right.message(), accuracy.worst};
}

class Run {
 public:
  Run(const CudaDevice& device, GpuRecords* records, Cases& cases)
      : device_(device), records_(records), cases_(cases) {}

  void attention(const GpuKernelCase& listed, bool takes_tensor_maps) {
    for (const Kernel& kernel : kernels()) {
      if (kernel.device == nullptr || kernel.device->takes_tensor_maps != takes_tensor_maps)
        continue;
      // of 8 bits that this one does not read: it would do a case of its own once more
      const DType dtype = listed.options.key_dtype;
      if (bit_width(dtype) == 8 && !kernel.supports.key.has(dtype)) continue;
      const std::string name = std::string(kernel.name) + ": " + listed.name;
      if (!cases_.begin(name)) continue;
      take_launched_kernels();
      const std::unique_ptr<AttentionCase> c = accepted_case(kernel, listed.options);
      if (c == nullptr)
        note(name, {"refused", "no such case", 0.0});
      else
        note(name, run_on_device(*c, kernel, device_));
    }
  }
  /// Of what writes bytes that are the CPU's: `Made` has the case's arrays.
  template <class Made, class Case>
  void bytes(const char* what, const std::vector<Case>& cases) {
    for (const Case& listed : cases) {
      const std::string name = std::string(what) + ": " + listed.name;
      if (!cases_.begin(name)) continue;
      take_launched_kernels();
      note(name, outcome_of(Made(listed).run(device_)));
    }
  }
  [[nodiscard]] int finish() const {
    std::printf("%s: %d right, %d wrong, %d refused, %zu instances launched\n",
                device_.name().c_str(), right_, wrong_, refused_, launched_.size());
    return wrong_ == 0 ? 0 : 1;
  }

 private:
  void note(const std::string& name, const Outcome& outcome) {
    const std::string_view verdict = outcome.verdict;
    ++(verdict == "right" ? right_ : verdict == "wrong" ? wrong_ : refused_);
    if (verdict == "wrong") {
      std::printf("%s: %s\n", name.c_str(), outcome.why.substr(0, 300).c_str());
      std::fflush(stdout);
    }
    std::string instances;
    const std::set<std::string> launched = take_launched_kernels();
    launched_.insert(launched.begin(), launched.end());
    for (const std::string& instance : launched)
      instances += (instances.empty() ? "\"" : ", \"") + instance + "\"";
    if (records_ == nullptr) return;
    records_->facts("\"case\": \"" + GpuRecords::escaped(name) + "\", \"verdict\": \"" +
                    std::string(verdict) + "\", \"worst\": " + std::to_string(outcome.worst) +
                    ", \"instances\": [" + instances + "], \"why\": \"" +
                    GpuRecords::escaped(verdict == "right" ? "" : outcome.why.substr(0, 600)) +
                    "\"");
  }

  const CudaDevice& device_;
  GpuRecords* records_;
  Cases& cases_;
  int right_ = 0, wrong_ = 0, refused_ = 0;
  std::set<std::string> launched_;
};

/// In the child: `mode` is plain, tma or smallest.
int run_cases(const std::string& mode, GpuRecords* records, Cases& cases) {
  const CudaDevice* const device = CudaDevice::find();
  if (device == nullptr) {
    std::puts("gpu_kernels: no GPU on this machine");
    return no_gpu;
  }
  setenv("FOLIO_TEST_DEVICE", "cuda", 1);  // what cases are adapted to
  if (const Result<Capabilities> found = capabilities_of("gpu_kernels", test_device()); !found) {
    std::printf("gpu_kernels: %s\n", std::string(found.error().message()).c_str());
    return no_gpu;
  }
  if (records != nullptr)
    records->head({device->name(), device->major(), device->minor(), device->driver_version()},
                  "cases " + mode);
  if (const char* const commit = std::getenv("FOLIO_COMMIT");
      commit != nullptr && records != nullptr)
    records->facts(std::string("\"commit\": \"") + GpuRecords::escaped(commit) + "\"");
  guarded_blocks();
  Run run(*device, records, cases);
  try {
    const bool smallest = mode == "smallest";
    if (mode != "tma") {
      run.bytes<GpuAppend>("append", gpu_append_cases(smallest));
      run.bytes<GpuRotate>("rotate", gpu_rotate_cases(smallest));
      run.bytes<GpuCopy>("copy", gpu_copy_cases(smallest));
    }
    if (smallest) {
      for (const bool tiles : {false, true}) run.attention(smallest_gpu_case(), tiles);
    } else {
      for (const GpuKernelCase& c : gpu_kernel_cases()) run.attention(c, mode == "tma");
    }
  } catch (const std::exception& error) {
    if (records != nullptr) records->fail(cases.name(), error.what());
    std::printf("%s: %s\n", cases.name(), error.what());
    return spoiled;
  }
  return run.finish();
}

int main_of(const std::string& mode, const char* path, int seconds) {
  if (path == nullptr) {  // in this very process, as the tools want it
    Cases cases;
    return run_cases(mode, nullptr, cases);
  }
  GpuRecords records(path);
  if (!records.is_open()) return 2;
  return supervise(
      seconds, most_lost_cases, [&](Cases& cases) { return run_cases(mode, &records, cases); },
      [&](const std::string& name, const std::string& reason) { records.fail(name, reason); });
}

}  // namespace
}  // namespace folio::test

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "", mode = argc > 2 ? argv[2] : "";
  if ((argc == 4 || argc == 5) && what == "cases" && (mode == "plain" || mode == "tma"))
    return folio::test::main_of(std::string(mode), argv[3], argc == 5 ? std::atoi(argv[4]) : 20);
  if (argc == 2 && what == "smallest") return folio::test::main_of("smallest", nullptr, 0);
  std::fputs(
      "usage: gpu_kernels cases plain|tma RESULT.jsonl [SECONDS]\n       gpu_kernels smallest\n",
      stderr);
  return 2;
}
