// SPDX-License-Identifier: Apache-2.0
/// src/attention/check_append.cpp: shapes first, then, where they can be read, what arrays hold:
/// nothing may be left to find out once writing has begun.
#include "attention/check_append.h"

#include <algorithm>

#include "attention/check_summaries.h"
#include "attention/positions.h"
#include "cache/check_alignment.h"
#include "cache/check_reach.h"
#include "cache/check_tensor.h"
#include "cache/check_view.h"

namespace folio::inline v1 {
namespace {

/// One call of append: its name, and where its arrays lie.
struct Border {
  const char* function;
  Memory memory;
};

Status check_source(const Border& at, const char* name, const ConstTensor<3>& source,
                    const char* from, const PagedKVView& view, int64_t tokens) {
  return check_tensor(at.function, name, source, {{tokens, view.num_heads, view.head_size}, from});
}

/// A plane, and rows for it. Channel scales are read, so that it is known first how many there are.
Status check_target(const Border& at, const char* plane, const PagedKVView& view, const char* name,
                    const ConstTensor<3>& source, const char* from, int64_t tokens) {
  if (view.has_channel_scales) {
    if (Status s = check_source(at, name, source, from, view, tokens); !s.is_ok()) return s;
  }
  if (Status s = check_writable(at.function, plane, view, at.memory); !s.is_ok()) return s;
  return check_source(at, name, source, from, view, tokens);
}

Status check_slots(const Border& at, const AppendArgs& args, int64_t tokens) {
  if (at.memory != Memory::cpu) return {};
  const int64_t slots = slots_of(args), page_size = slots_per_page(args.key);
  for (int64_t token = 0; token < tokens; ++token) {
    if (args.slots[token] < slots) continue;
    return fail(Errc::invalid_argument,
                "{}: slots[{}] is {}, expected less than {} ({} pages of {})", at.function, token,
                args.slots[token], slots, slots / page_size, page_size);
  }
  return {};
}

/// The places of tokens without slots.
Status check_sequences(const Border& at, const Batch& batch, int64_t tokens) {
  const char* function = at.function;
  const bool reads = at.memory == Memory::cpu;
  if (Status s = reads ? check_offsets(function, batch, tokens, "k") : check_size(function, batch);
      !s.is_ok())
    return s;
  if (batch.context_lengths == nullptr || batch.table.entries == nullptr) {
    return fail(Errc::invalid_argument, "{}: batch.{} is null, expected an array (slots are null)",
                function, batch.context_lengths == nullptr ? "context_lengths" : "table.entries");
  }
  if (!reads) return check_row_stride(function, batch);
  for (int32_t b = 0; b < batch.size; ++b) {
    const int64_t count = int64_t{batch.query_offsets[b + 1]} - batch.query_offsets[b];
    if (batch.context_lengths[b] >= count) continue;
    return fail(Errc::invalid_argument,
                "{}: batch.context_lengths[{}] is {}, expected at least its {} new tokens",
                function, b, batch.context_lengths[b], count);
  }
  return check_rows(function, batch);
}

Status check_value(const Border& at, const AppendArgs& args, int64_t tokens) {
  if (args.v.data == nullptr && args.value.data == nullptr) return {};
  if (Status s = check_target(at, "value", args.value, "v", args.v, "k and value", tokens);
      !s.is_ok())
    return s;
  if (args.value.page_size == args.key.page_size) return {};
  return fail(Errc::invalid_argument, "{}: value.page_size is {}, expected {} (from key)",
              at.function, args.value.page_size, args.key.page_size);
}

/// The norm of a call, and what its weights are called there.
struct NamedNorm {
  const char* name;
  const float* weights;
  const float* shifts;
  float eps;
};

Status check_norm(const Border& at, const NamedNorm& norm) {
  constexpr Alignment floats = natural_alignment(DType::f32);
  if (norm.shifts != nullptr && norm.weights == nullptr)
    return fail(Errc::invalid_argument,
                "{}: {}_shift is given, expected none without {}, the weights of the norm",
                at.function, norm.name, norm.name);
  if (norm.weights == nullptr) return {};
  if (norm.shifts != nullptr && at.memory != Memory::cpu)
    return fail(Errc::unsupported, "{}: {}_shift is given, expected none: only CPUs have LayerNorm",
                at.function, norm.name);
  if (Status s = check_aligned(at.function, norm.name, "", norm.weights, floats); !s.is_ok())
    return s;
  if (Status s = check_aligned(at.function, norm.name, "_shift", norm.shifts, floats); !s.is_ok())
    return s;
  if (norm.eps >= 0.0f && norm.eps <= 0x1.fffffep127f) return {};
  return fail(Errc::invalid_argument, "{}: norm_eps is {}, expected a finite number of at least 0",
              at.function, static_cast<double>(norm.eps));
}

/// The table, and that every token has a row of it.
Status check_rotation(const Border& at, const Batch& batch, const Rope& rope, int32_t head_size,
                      const char* of, int64_t tokens, const char* tokens_of,
                      const int64_t* skipped) {
  if (Status s = check_rope(at.function, rope, head_size, of); !s.is_ok()) return s;
  if (at.memory != Memory::cpu) return check_position_arrays(at.function, batch, rope);
  return check_positions(at.function, batch, rope, tokens, tokens_of, skipped);
}

/// What happens to K on its way.
Status check_transform(const Border& at, const Batch& batch, const AppendArgs& args,
                       int64_t tokens) {
  if (args.rope == nullptr && args.k_norm == nullptr && args.k_norm_shift == nullptr) return {};
  const int32_t head_size = args.key.head_size;
  if (Status s = check_head_size(at.function, "key", head_size, "K is normalised or rotated");
      !s.is_ok())
    return s;
  if (Status s = check_norm(at, {"k_norm", args.k_norm, args.k_norm_shift, args.norm_eps});
      !s.is_ok())
    return s;
  if (args.rope == nullptr) return {};
  return check_rotation(at, batch, *args.rope, head_size, "key", tokens, "k", args.slots);
}

Status check_out(const Border& at, const RotateArgs& args) {
  const auto& extent = args.q.extent;
  const ExpectedTensor expected{{extent[0], extent[1], extent[2]}, "q"};
  if (Status s = check_tensor(at.function, "out", args.out, expected); !s.is_ok()) return s;
  if (Status s = check_places(at.function, "out", args.out); !s.is_ok()) return s;
  return check_apart(at.function, "out", args.out, "q", args.q);
}

Status check_q(const Border& at, const ConstTensor<3>& q) {
  constexpr int64_t most = 0x7fffffff;
  if (q.extent[1] < 1 || q.extent[1] > most || q.extent[2] < 1 || q.extent[2] > most) {
    return fail(Errc::invalid_argument,
                "{}: q has shape [{}, {}, {}], expected at least 1 head of at least 1 element",
                at.function, q.extent[0], q.extent[1], q.extent[2]);
  }
  const auto head_size = static_cast<int32_t>(q.extent[2]);
  if (Status s =
          check_head_size(at.function, "q", head_size, "a row of a head is worked on as a whole");
      !s.is_ok())
    return s;
  return check_tensor(at.function, "q", q, {{q.extent[0], q.extent[1], q.extent[2]}, "q"});
}

/// The keys that q is turned for.
Status check_key(const Border& at, const RotateArgs& args) {
  const PagedKVView& key = *args.key;
  const auto& extent = args.q.extent;
  if (key.head_size != extent[2])
    return fail(Errc::invalid_argument, "{}: key.head_size is {}, expected {} (from q)",
                at.function, key.head_size, extent[2]);
  if (key.num_heads < 1 || extent[1] % key.num_heads != 0)
    return fail(Errc::invalid_argument, "{}: key.num_heads is {}, expected a divisor of q's {}",
                at.function, key.num_heads, extent[1]);
  return check_turn(at.function, "key", key, at.memory);
}

Status check_summaries(const Border& at, const AppendArgs& args) {
  if (args.summaries == nullptr) return {};
  if (at.memory != Memory::cpu)
    return fail(Errc::unsupported, "{}: summaries are given, expected none: only CPUs make them",
                at.function);
  return folio::check_summaries(at.function, args.key, *args.summaries);
}

}  // namespace

int64_t slots_of(const AppendArgs& args) noexcept {
  int64_t pages = args.key.num_pages;
  if (args.v.data != nullptr) pages = std::min(pages, args.value.num_pages);
  return pages * slots_per_page(args.key);
}

Status check_append(const char* function, const Batch& batch, const AppendArgs& args,
                    Memory memory) noexcept {
  const Border at{function, memory};
  const int64_t tokens = args.k.extent[0];
  if (tokens < 0)
    return fail(Errc::invalid_argument, "{}: k has {} tokens, expected at least 0", function,
                tokens);
  if (tokens == 0)
    return args.slots != nullptr || batch.size == 0 ? Status() : check_sequences(at, batch, tokens);
  if (Status s = check_target(at, "key", args.key, "k", args.k, "k and key", tokens); !s.is_ok())
    return s;
  if (Status s = check_value(at, args, tokens); !s.is_ok()) return s;
  if (Status s = args.slots != nullptr ? check_slots(at, args, tokens)
                                       : check_sequences(at, batch, tokens);
      !s.is_ok())
    return s;
  if (Status s = check_summaries(at, args); !s.is_ok()) return s;
  return check_transform(at, batch, args, tokens);
}

Status check_rotate(const char* function, const Batch& batch, const RotateArgs& args,
                    Memory memory) noexcept {
  const Border at{function, memory};
  const int64_t tokens = args.q.extent[0];
  if (tokens < 0)
    return fail(Errc::invalid_argument, "{}: q has {} tokens, expected at least 0", function,
                tokens);
  if (tokens == 0) return {};
  if (Status s = check_q(at, args.q); !s.is_ok()) return s;
  if (Status s = check_out(at, args); !s.is_ok()) return s;
  if (Status s = check_norm(at, {"q_norm", args.q_norm, args.q_norm_shift, args.norm_eps});
      !s.is_ok())
    return s;
  if (args.key != nullptr) {
    if (Status s = check_key(at, args); !s.is_ok()) return s;
  }
  if (args.rope == nullptr) return {};
  return check_rotation(at, batch, *args.rope, static_cast<int32_t>(args.q.extent[2]), "q", tokens,
                        "q", nullptr);
}

}  // namespace folio::inline v1
