// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/cpu_backend.cpp: the CPU backend's object in an object of ours.
#include "cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "ggml-cpu.h"
#include "ggml_functions.h"
#include "graph_run.h"
#include "trace.h"

namespace ggml_folio {
namespace {

/// The first members of the CPU backend's context, which no header declares. Only read, and only
/// after `reads_threads` has seen a number change there.
struct CpuContext {
  int threads;
  ggml_threadpool_t threadpool;
};

/// `base` is what ggml sees: it shares the context of `cpu`, so that whatever sets something in one
/// sets it in both.
struct Backend {
  ggml_backend base = {};
  ggml_backend_t cpu = nullptr;
  bool reads_threads = false;
  GraphRun run;
  ggml_threadpool_t threadpool = nullptr;  ///< ours, where ggml would start threads for each graph
  int threadpool_threads = 0;
};

Backend& of(ggml_backend_t backend) { return *reinterpret_cast<Backend*>(backend); }

const CpuContext& context_of(const Backend& backend) {
  return *static_cast<const CpuContext*>(backend.cpu->context);
}

/// Whether the number that ggml's function sets is the one that CpuContext reads.
bool sees_threads(const Backend& backend) {
  const auto set = cpu_function<ggml_backend_set_n_threads_t>("ggml_backend_set_n_threads");
  if (set == nullptr || backend.cpu->context == nullptr) return false;
  int before = 0;
  std::memcpy(&before, backend.cpu->context, sizeof(before));
  if (before < 1 || before > 512) return false;
  bool follows = true;
  for (const int threads : {3, 7, before}) {
    set(backend.cpu, threads);
    int after = 0;
    std::memcpy(&after, backend.cpu->context, sizeof(after));
    follows = follows && after == threads;
  }
  return follows;
}

bool has_openmp() {
  const auto features = cpu_function<ggml_backend_get_features_t>("ggml_backend_get_features");
  if (features == nullptr) return true;
  const ggml_backend_reg_t registry = ggml().backend_dev_backend_reg(cpu_device());
  for (const ggml_backend_feature* f = features(registry); f->name != nullptr; ++f)
    if (std::strcmp(f->name, "OPENMP") == 0) return true;
  return false;
}

void free_threadpool(Backend& backend) {
  if (backend.threadpool == nullptr) return;
  const auto free = cpu_function<decltype(&ggml_threadpool_free)>("ggml_threadpool_free");
  if (free != nullptr) free(backend.threadpool);
  backend.threadpool = nullptr;
}

/// A ggml without OpenMP starts threads for each graph of a backend that was given no thread pool,
/// and llama.cpp gives one to its own CPU backend alone: so ours gets one of its own.
void provide_threads(Backend& backend, int threads) {
  if (threads <= 1 || backend.threadpool_threads == threads) return;
  static const bool is_needed = !has_openmp();
  if (!is_needed) return;
  const bool is_ours = context_of(backend).threadpool == backend.threadpool;
  const auto make = cpu_function<decltype(&ggml_threadpool_new)>("ggml_threadpool_new");
  const auto set =
      cpu_function<decltype(&ggml_backend_cpu_set_threadpool)>("ggml_backend_cpu_set_threadpool");
  if (!is_ours || make == nullptr || set == nullptr) return;
  ggml_threadpool_params params = {};  // as ggml_threadpool_params_default has it
  params.n_threads = threads;
  params.prio = GGML_SCHED_PRIO_NORMAL;
  params.poll = 50;
  set(backend.cpu, nullptr);
  free_threadpool(backend);
  backend.threadpool = make(&params);
  backend.threadpool_threads = threads;
  set(backend.cpu, backend.threadpool);
}

ggml_status compute(ggml_backend_t base, ggml_cgraph* graph) {
  Backend& backend = of(base);
  const int threads = backend.reads_threads
                          ? context_of(backend).threads
                          : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (backend.reads_threads) provide_threads(backend, threads);
  return backend.run.compute(graph, threads, [&](ggml_cgraph* g) {
    return ggml().backend_graph_compute_async(backend.cpu, g);
  });
}

const char* name_of(ggml_backend_t) { return "folio"; }

void free_backend(ggml_backend_t base) {
  const std::unique_ptr<Backend> backend(&of(base));
  report_trace();
  free_threadpool(*backend);
  ggml().backend_free(backend->cpu);
}

}  // namespace

ggml_backend_t make_backend(ggml_backend_dev_t device) {
  const ggml_backend_dev_t cpu = cpu_device();
  if (cpu == nullptr) return nullptr;
  auto backend = std::make_unique<Backend>();
  backend->cpu = ggml().backend_dev_init(cpu, nullptr);
  if (backend->cpu == nullptr) return nullptr;
  backend->reads_threads = sees_threads(*backend);
  backend->base = *backend->cpu;
  backend->base.device = device;
  backend->base.iface.get_name = name_of;
  backend->base.iface.free = free_backend;
  backend->base.iface.graph_compute = compute;
  // Plans of graphs would run past `compute`; nobody needs them ("not used currently").
  backend->base.iface.graph_plan_create = nullptr;
  backend->base.iface.graph_plan_free = nullptr;
  backend->base.iface.graph_plan_compute = nullptr;
  return &backend.release()->base;
}

}  // namespace ggml_folio
