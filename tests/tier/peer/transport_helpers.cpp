// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/transport_helpers.cpp: ends of each kind of transport, for tests.
#include "tier/peer/transport_helpers.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "support/sanitized.h"

namespace folio::test {

namespace {

struct Candidate {
  TransportKind kind;
  std::string why_absent;  ///< empty: it is there
};

std::string why_absent(const TransportKind& kind) {
#ifdef __SANITIZE_THREAD__
  if (kind.name == "ucx_tcp") return "UCX ends by a signal under ThreadSanitizer";
#endif
  if (is_sanitized && kind.name == "nixl_tcp")
    return "sanitizers end by a signal, now and then, beside NIXL's threads";
  const Result<std::unique_ptr<Transport>> made = kind.make({});
  return made ? "" : std::string(made.error().message());
}

/// Without the deadline, if the test has not set it itself.
TransportOptions patient(TransportOptions options) {
  if (options.timeout_ms == TransportOptions().timeout_ms) options.timeout_ms = no_deadline_ms;
  return options;
}

const std::vector<Candidate>& candidates() {
  static const std::vector<Candidate> all = [] {
    std::vector<Candidate> found;
    for (const char* const name : {"in_process", "shared_memory", "ucx_tcp", "nixl_tcp"}) {
      TransportKind kind = transport_kind(name);
      std::string why = why_absent(kind);
      found.push_back({std::move(kind), std::move(why)});
    }
    return found;
  }();
  return all;
}

}  // namespace

std::string nixl_library() {
  const char* const path = std::getenv("FOLIO_TEST_NIXL");
  return path != nullptr && ::access(path, R_OK) == 0 ? path : "";
}

TransportKind transport_kind(const std::string& name) {
  if (name == "shared_memory")
    return {name,
            [](const TransportOptions& o) { return make_shared_memory_transport(patient(o)); }};
  if (name == "ucx_tcp")
    return {name, [](const TransportOptions& o) {
              return make_ucx_transport(patient(o), {.transports = "tcp"});
            }};
  if (name == "nixl_tcp")
    return {name, [](const TransportOptions& o) {
              const std::string library = nixl_library();
              return make_nixl_transport(patient(o), {.library = library, .transports = "tcp"});
            }};
  const auto network = std::make_shared<InProcessNetwork>();
  return {"in_process",
          [network](const TransportOptions& o) { return network->make_end(patient(o)); }};
}

std::vector<TransportKind> transport_kinds() {
  std::vector<TransportKind> kinds;
  for (const Candidate& candidate : candidates())
    if (candidate.why_absent.empty()) kinds.push_back(candidate.kind);
  return kinds;
}

std::string absent_transports() {
  std::string all;
  for (const Candidate& candidate : candidates())
    if (!candidate.why_absent.empty())
      all += candidate.kind.name + ": " + candidate.why_absent + "\n";
  return all;
}

}  // namespace folio::test
