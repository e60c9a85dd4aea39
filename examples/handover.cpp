// SPDX-License-Identifier: Apache-2.0
/// examples/handover.cpp: a process that prefills hands a sequence, layer by layer, to one that
/// decodes, which runs attention over the first layers while the others still come.
///
///     handover [tokens=N] [layers=N] [heads=N] [head_size=N] [layer_ms=N] [push=layers|end]
///              [transport=shared-memory|ucx]
///
/// The decoding process computes the prompt's last token itself, whose attention needs K and V of
/// one layer at a time. With `push=end` the sender begins when its last layer is complete, for
/// comparison. The "model" is simulated: its K and V tell their layer, a layer takes `layer_ms`, of
/// which filling the cache is a part, and q is constant. Transfer and attention are real.
#include <folio/attention/attend.h>
#include <folio/cache/planes.h>
#include <folio/core/buffer.h>
#include <folio/core/element.h>
#include <folio/names/sha256_names.h>
#include <folio/tier/transfer.h>
#include <folio/tier/transports.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <numeric>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace folio;

namespace {

struct Options {
  int32_t tokens = 500, layers = 6, heads = 2, head_size = 64, layer_ms = 3;
  bool pushes_at_end = false, uses_ucx = false;
};
constexpr int32_t page_size = 16, queries_per_head = 4;
constexpr uint64_t request = 1;  // both sides have it from whoever routes requests

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// What both processes note: times in microseconds of a clock that they share.
struct Notes {
  std::atomic<int64_t> prefill_end, first_output, last_output;
  std::atomic<int64_t> layers_before;  ///< attended when prefill ended
  std::atomic<bool> is_over;           ///< the sender has its answer
};

/// Pool, planes and transport: what either side has.
struct Side {
  explicit Side(const Options& o)
      : shape{.num_layers = o.layers,
              .num_heads = o.heads,
              .head_size = o.head_size,
              .page_size = page_size,
              .dtype = DType::bf16},
        num_pages(static_cast<uint32_t>(o.tokens / page_size + 1)),
        memory(Buffer::allocate(page_bytes(shape).value() * num_pages).value()),
        transport((o.uses_ucx ? make_ucx_transport({}, {.transports = "tcp"})
                              : make_shared_memory_transport({}, {.access = ReadAccess::same_user}))
                      .value()),
        names(Sha256Names::create().value()),
        pool(PagePool::create({.num_pages = num_pages,
                               .page_size = page_size,
                               .name = names.function(),
                               .max_io_pins = num_pages})
                 .value()),
        planes(make_planes(shape, num_pages, memory.span()).value()) {
    const std::span<std::byte> bytes(memory.data(), static_cast<size_t>(memory.bytes()));
    std::memset(bytes.data(), 0, bytes.size());  // its pages are there before anything is measured
    regions.push_back({transport->add_region(bytes).value(), bytes});
  }
  TransferEnd end() {
    return {.transport = transport.get(),
            .pool = &pool,
            .planes = planes,
            .regions = regions,
            .model = {{'e', 'x', 'a', 'm', 'p', 'l', 'e'}},
            .name = names.function()};
  }
  KVShape shape;
  uint32_t num_pages;
  Buffer memory;  ///< outlives the transport, whose peers write to it
  std::unique_ptr<Transport> transport;
  Sha256Names names;
  PagePool pool;
  std::vector<KVPlanes> planes;
  std::vector<TransferRegion> regions;
};

/// All values of a layer: any mean of them is the same.
float value_of(int32_t layer) { return static_cast<float>(1 + layer % 8) / 8; }

/// The simulated model's K and V of a layer, for all tokens.
void compute(const Side& side, SequenceId id, int32_t layer, int32_t tokens) {
  const uint32_t* const row = side.pool.table().entries + side.pool.row_start(id).value();
  const auto elements = static_cast<size_t>(side.shape.num_heads * side.shape.head_size);
  const std::vector<bf16> k(elements, from_float<bf16>(0.125F));
  const std::vector<bf16> v(elements, from_float<bf16>(value_of(layer)));
  const KVPlanes& planes = side.planes[static_cast<size_t>(layer)];
  for (int32_t t = 0; t < tokens; ++t) {
    const auto put = [&](const PagedKVView& view, const std::vector<bf16>& from) {
      std::memcpy(static_cast<std::byte*>(view.data) + row[t / page_size] * view.page_stride_bytes +
                      t % page_size * view.slot_stride_bytes,
                  from.data(), elements * sizeof(bf16));
    };
    put(planes.key, k), put(planes.value, v);
  }
}

void prefill(const Options& o, std::span<const std::byte> address, Notes& notes) {
  Side side(o);
  HandoverSender sender = HandoverSender::create({.end = side.end()}).value();
  const PeerId peer = side.transport->connect(address).value();
  std::vector<TokenId> prompt(static_cast<size_t>(o.tokens));
  std::iota(prompt.begin(), prompt.end(), 0);
  const SequenceId id = side.pool.admit(prompt).value().id;
  side.pool.reserve(id, o.tokens).or_throw();
  const HandoverId handover = sender.begin(peer, request, id, prompt).value();
  const auto push_layer = [&](int32_t layer) { sender.push_layer(handover, layer).or_throw(); };
  int64_t due = now_us();
  for (int32_t layer = 0; layer < o.layers; ++layer) {
    compute(side, id, layer, o.tokens);
    due += int64_t{o.layer_ms} * 1000;
    while (now_us() < due) {  // the rest of the layer's time: a GPU works, and the host is free
      sender.poll(now_us() / 1000);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    if (!o.pushes_at_end) push_layer(layer);
  }
  notes.prefill_end = now_us();
  for (int32_t layer = 0; o.pushes_at_end && layer < o.layers; ++layer) push_layer(layer);
  side.pool.commit(id, prompt).or_throw();
  sender.finish(handover).or_throw();
  HandoverEnd end[1];
  while (sender.take_ends(end) == 0) sender.poll(now_us() / 1000);
  if (end[0].outcome != HandoverOutcome::done) end[0].reason.or_throw();
  side.pool.release(id).or_throw();
  notes.is_over = true;
}

/// Attention of the prompt's last token, over a layer at a time.
class LastToken {
 public:
  LastToken(const Side& side, SequenceId id, const Options& o)
      : side_(side),
        options_(o),
        attention_(Attention::create({.key = side.planes[0].key,
                                      .value = side.planes[0].value,
                                      .q_heads = o.heads * queries_per_head,
                                      .q_dtype = DType::f32,
                                      .out_dtype = DType::f32},
                                     {.batch = 1, .tokens = 1, .context = o.tokens})
                       .value()),
        plan_memory_(Buffer::allocate(attention_.plan_bytes()).value()),
        workspace_(Buffer::allocate(attention_.workspace_bytes()).value()),
        q_(static_cast<size_t>(o.heads * queries_per_head * o.head_size), 1.0F),
        out_(q_.size()) {
    int64_t row[1];
    side.pool.batch_rows({{id}}, row).or_throw();
    PageTable table = side.pool.table();
    table.row_starts = row;
    const int32_t offsets[] = {0, 1}, lengths[] = {o.tokens};
    plan_ = plan(attention_,
                 {.size = 1, .query_offsets = offsets, .context_lengths = lengths, .table = table},
                 plan_memory_.span())
                .value();
  }
  void attend_layer(int32_t layer) {
    const KVPlanes& kv = side_.planes[static_cast<size_t>(layer)];
    const int64_t sizes[] = {1, int64_t{options_.heads} * queries_per_head, options_.head_size};
    attend(attention_, plan_,
           {.q = dense_tensor<3>(q_.data(), DType::f32, sizes),
            .out = dense_tensor<3>(out_.data(), DType::f32, sizes),
            .key = kv.key,
            .value = kv.value},
           workspace_.span(), default_executor())
        .or_throw();
    for (const float x : out_)
      if (std::fabs(x - value_of(layer)) > 1e-3F)
        fail(Errc::internal, "layer {}: an output is {}", layer, double{x}).or_throw();
  }

 private:
  const Side& side_;
  const Options options_;
  Attention attention_;
  Buffer plan_memory_, workspace_;
  std::vector<float> q_, out_;
  AttentionPlan plan_;
};

void decode(const Options& o, int out, Notes& notes) {
  Side side(o);
  HandoverReceiver receiver = HandoverReceiver::create({.end = side.end()}).value();
  const std::vector<std::byte> address = side.transport->address().value();
  if (::write(out, address.data(), address.size()) != std::ssize(address))
    fail(Errc::io, "the address cannot be told").or_throw();
  ::close(out);
  std::unique_ptr<LastToken> token;
  int32_t attended = 0;
  ReceivedSequence sequence[1];
  for (bool is_whole = false; !is_whole || attended < o.layers;) {  // an engine steps others, too
    receiver.poll(now_us() / 1000);
    ArrivingSequence coming[1];
    const bool is_coming = receiver.arriving(coming) == 1;
    if (is_coming && token == nullptr) token = std::make_unique<LastToken>(side, coming[0].id, o);
    is_whole = is_whole || receiver.take(sequence) == 1;
    if (!is_whole && !receiver.last_fault().is_ok()) receiver.last_fault().or_throw();
    const int32_t ready = is_whole ? o.layers : is_coming ? coming[0].layers_ready : 0;
    if (attended == ready) std::this_thread::sleep_for(std::chrono::microseconds(50));
    for (; attended < ready; ++attended) {
      token->attend_layer(attended);
      if (attended == 0) notes.first_output = now_us();
      if (notes.prefill_end == 0) notes.layers_before = attended + 1;
    }
  }
  notes.last_output = now_us();
  side.pool.release(sequence[0].id).or_throw();
  // an engine lives on: an end that goes takes along what it has said last
  while (!notes.is_over) {
    receiver.poll(now_us() / 1000);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// `text` is name=value.
bool set(Options& o, std::string_view text) {
  if (text == "push=layers" || text == "push=end")
    return o.pushes_at_end = text == "push=end", true;
  if (text == "transport=shared-memory" || text == "transport=ucx")
    return o.uses_ucx = text == "transport=ucx", true;
  const std::pair<std::string_view, int32_t*> numbers[] = {{"tokens=", &o.tokens},
                                                           {"layers=", &o.layers},
                                                           {"heads=", &o.heads},
                                                           {"head_size=", &o.head_size},
                                                           {"layer_ms=", &o.layer_ms}};
  for (const auto& [name, number] : numbers) {
    if (!text.starts_with(name)) continue;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + name.size(), end, *number);
    return read.ec == std::errc() && read.ptr == end && *number > 0;
  }
  return false;
}

std::vector<std::byte> read_all(int in) {
  std::vector<std::byte> bytes(1 << 16);
  size_t size = 0;
  for (ssize_t got = 1; got > 0; size += static_cast<size_t>(got))
    if (got = ::read(in, bytes.data() + size, bytes.size() - size); got <= 0) break;
  bytes.resize(size);
  return bytes;
}

int run(const Options& o) {
  void* const shared =
      ::mmap(nullptr, sizeof(Notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int pipe[2];
  if (shared == MAP_FAILED || ::pipe(pipe) != 0) return 1;
  Notes& notes = *new (shared) Notes();
  const pid_t child = ::fork();  // before either has threads
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      decode(o, pipe[1], notes);
      ::_exit(0);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "decode: %s\n", e.what());
      ::_exit(1);
    }
  }
  ::close(pipe[1]);
  prefill(o, read_all(pipe[0]), notes);
  int status = 0;
  ::waitpid(child, &status, 0);
  const auto after_ms = [&](int64_t us) {
    return static_cast<double>(us - notes.prefill_end) / 1000;
  };
  std::printf(
      "%d tokens, %d layers of %d ms, pushed %s: %lld layers attended before prefill ended; after "
      "it, first layer %.1f ms, last layer %.1f ms\n",
      o.tokens, o.layers, o.layer_ms, o.pushes_at_end ? "at the end" : "layer by layer",
      static_cast<long long>(notes.layers_before), after_ms(notes.first_output),
      after_ms(notes.last_output));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (set(options, argv[i])) continue;
    std::fprintf(stderr, "handover: %s, expected name=value of examples/handover.cpp\n", argv[i]);
    return 2;
  }
  try {
    return run(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "prefill: %s\n", e.what());
    return 1;
  }
}
