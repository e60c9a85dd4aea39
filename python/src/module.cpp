// SPDX-License-Identifier: Apache-2.0
/// python/src/module.cpp: folio_kv._core: folio's C++ face for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "batch.h"
#include "bindings.h"
#include "copying.h"
#include "errors.h"
#include "executor.h"
#include "folio/attention/plan.h"
#include "format.h"
#include "kind.h"
#include "pages.h"
#include "select_pages.h"
#include "step.h"

namespace folio::python {
namespace {

std::vector<std::pair<std::string, bool>> kernels() {
  std::vector<std::pair<std::string, bool>> out;
  for (int32_t i = 0; i < Attention::kernel_count(); ++i) {
    const Attention::KernelName kernel = Attention::kernel_name(i);
    out.emplace_back(kernel.name, kernel.runs_here);
  }
  return out;
}

void choose_executor(const std::string& executor) {
  if (executor != "auto" && executor != "thread_pool")
    refuse_argument("executor: expected \"auto\" or \"thread_pool\", got \"{}\"", executor);
  set_threads(executor == "auto" ? Threads::automatic : Threads::pool);
}

void bind_process(nb::module_& m) {
  m.def("kernels", &kernels,
        "(name, whether this machine runs it) of every attention kernel, best first.");
  m.def("set_num_threads", &set_num_threads, nb::arg("threads"),
        R"(How many threads folio's calls run on, in the whole process.

0: as many as the machine offers or, beside torch, as torch.set_num_threads says. Raises Error for
numbers outside 0 to 4096.)");
  m.def("get_num_threads", &num_threads, "Threads that a call runs on now.");
  m.def("get_executor", &executor_name,
        "Whose threads: \"thread_pool\" (folio's own), or the OpenMP runtime that torch brought.");
  m.def("set_executor", &choose_executor, nb::arg("executor"),
        R"(Whose threads folio's calls run on, in the whole process.

"auto": those of the OpenMP runtime that torch brought, as long as no other program is seen on their
cores; folio's own otherwise, and in a process without one.
"thread_pool": folio's own (the C++ thread_pool_executor), beside torch too: they sleep 0.2 ms after
a call and leave the caller's core, which is for machines whose cores others use as well. Raises
Error for another word.)");
}

}  // namespace
}  // namespace folio::python

// NOLINTNEXTLINE: nanobind's macro
NB_MODULE(_core, m) {
  using namespace folio::python;
  m.doc() = "folio's C++ face; folio_kv re-exports it.";
  m.attr("version") = FOLIO_KV_VERSION;
  // Arrays that are alive at exit keep their pool or cache, as they should; that is no leak.
  nb::set_leak_warnings(false);
  bind_errors();
  bind_process(m);
  bind_format(m);
  bind_pages(m);
  bind_kv_cache(m);
  bind_kind(m);
  bind_functions(m);
  bind_batch(m);
  bind_step(m);
  bind_summarise(m);
  bind_copies(m);
  bind_pool(m);
#if FOLIO_KV_TIERS
  bind_tiers(m);
#endif
  refuse_copies(m);
}
