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
#include "errors.h"
#include "executor.h"
#include "folio/attention/plan.h"
#include "kind.h"
#include "pages.h"
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

void bind_process(nb::module_& m) {
  m.def("kernels", &kernels,
        "(name, whether this machine runs it) of every attention kernel, best first.");
  m.def("set_num_threads", &set_num_threads, nb::arg("threads"),
        R"(How many threads folio's calls run on, in the whole process.

0: as many as the machine offers or, beside torch, as torch.set_num_threads says. Raises Error for
numbers outside 0 to 4096.)");
  m.def("get_num_threads", &num_threads, "Threads that a call runs on now.");
  m.def("get_executor", &executor_name,
        "Whose threads: \"std::thread\", or the OpenMP runtime that torch brought.");
}

}  // namespace
}  // namespace folio::python

// NOLINTNEXTLINE: nanobind's macro
NB_MODULE(_core, m) {
  using namespace folio::python;
  m.doc() = "folio's C++ face; folio_kv re-exports it.";
  // Arrays that are alive at exit keep their pool or cache, as they should; that is no leak.
  nb::set_leak_warnings(false);
  bind_errors();
  bind_process(m);
  bind_pages(m);
  bind_kv_cache(m);
  bind_kind(m);
  bind_functions(m);
  bind_batch(m);
  bind_step(m);
  bind_copies(m);
  bind_pool(m);
}
