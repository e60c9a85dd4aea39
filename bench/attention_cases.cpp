// SPDX-License-Identifier: Apache-2.0
/// bench/attention_cases.cpp: shapes of decode, prefill and latent attention.
#include "attention_cases.h"

#include "cpu/features.h"

namespace folio::bench {
namespace {

constexpr int32_t k = 1024;
constexpr StorageOrder orders[] = {StorageOrder::token_major, StorageOrder::head_major};

const char* name(StorageOrder order) {
  return order == StorageOrder::token_major ? "token_major" : "head_major";
}

std::string decode_name(DType dtype, int32_t group, const std::string& context, int32_t page_size,
                        StorageOrder order) {
  return "decode/" + std::string(folio::name(dtype)) + "/d128/group" + std::to_string(group) + "/" +
         context + "/page" + std::to_string(page_size) + "/" + name(order);
}

/// 8 KV heads of 128. As many sequences as make a run of some 20 ms, at least one.
Case decode(DType dtype, int32_t group, int32_t context, int32_t page_size, StorageOrder order) {
  Case c;
  c.shape = decode_name(dtype, group, std::to_string(context / k) + "k", page_size, order);
  c.workload = {.sequences = std::max(1, 64 * k / context),
                .context = context,
                .q_heads = 8 * group,
                .kv_heads = 8,
                .page_size = page_size,
                .order = order,
                .dtype = dtype,
                .cold = true};
  // Sixteen rows per key are arithmetic's on machines without AMX.
  if (group >= 16 && !machine_has(Capability::amx_bf16)) c.roof = RoofKind::arithmetic;
  return c;
}

std::string latent_name(DType dtype, int32_t heads) {
  return "mla_decode/" + std::string(folio::name(dtype)) + "/576_512/" + std::to_string(heads) +
         "_heads";
}

Case latent_decode(DType dtype, int32_t heads) {
  Case c;
  c.workload = {.sequences = 4,
                .context = 8 * k,
                .q_heads = heads,
                .kv_heads = 1,
                .head_size = 576,
                .v_head_size = 512,
                .value_in_key = true,
                .page_size = 64,
                .dtype = dtype,
                .cold = true};
  return c;
}

/// The same with each head's K and V of a token side by side.
Case paired(Case c) {
  c.shape += "/paired";
  c.workload.is_paired = true;
  return c;
}

/// The same with rotated keys and values.
Case rotated(Case c) {
  c.shape += "/rotated";
  c.workload.hadamard = {.block = 128};
  return c;
}

/// The same with q and weights rounded to 8 bits.
Case rounded(Case c) {
  c.shape += "/int8_operands";
  c.workload.int8_operands = true;
  return c;
}

/// The same with other scales than one per token and head.
void add_scale_forms(const Case& c, bool with_rounded, std::vector<Case>& cases) {
  const struct {
    const char* name;
    ScaleForm form;
  } forms[] = {{"/scale_of_tensor", ScaleForm::tensor},
               {"/scale_of_head", ScaleForm::head},
               {"/scale_behind_row", ScaleForm::behind_row},
               {"/scales_of_32", ScaleForm::granule_of_32}};
  for (const auto& [name, form] : forms) {
    cases.push_back(c);
    cases.back().shape += name;
    cases.back().workload.scales = form;
    if (with_rounded && form != ScaleForm::granule_of_32) cases.push_back(rounded(cases.back()));
  }
}

/// Cases that are compared with one another follow one another: machines drift.
void add_decode(std::vector<Case>& cases) {
  for (const int32_t group : {1, 2, 4, 8, 16}) {
    for (const int32_t context : {8 * k, 32 * k, 128 * k}) {
      for (const StorageOrder order : orders) {
        cases.push_back(decode(DType::bf16, group, context, 64, order));
        cases.back().two_cores =
            (group == 8 && order == StorageOrder::token_major) || (group == 4 && context == 8 * k);
        if ((group != 1 && group != 4 && group != 8) || context != 8 * k) continue;
        cases.push_back(paired(cases.back()));
        cases.back().two_cores = false;
        for (const DType dtype : {DType::i8, DType::f8_e4m3, DType::f8_e5m2}) {
          const Case c = decode(dtype, group, context, 64, order);
          cases.push_back(c);
          cases.back().two_cores = group == 8 && order == StorageOrder::token_major;
          if (dtype == DType::i8) cases.push_back(rounded(c));
          if (dtype != DType::f8_e5m2) add_scale_forms(c, dtype == DType::i8, cases);
        }
      }
    }
  }
  for (const int32_t group : {4, 8}) {
    for (const StorageOrder order : orders)
      cases.push_back(decode(DType::bf16, group, 8 * k, 16, order));
    for (const StorageOrder order : orders) {
      Case c = decode(DType::bf16, group, k, 64, order);
      c.workload.sequences = 16;
      c.shape = decode_name(DType::bf16, group, "1k_batch16", 64, order);
      cases.push_back(c);
    }
  }
}

/// 8 bits with all forms of scales, four bits rotated and not, and bf16 beside them, for one
/// sequence and for 16.
void add_bytes_of_batches(std::vector<Case>& cases) {
  for (const int32_t sequences : {1, 16}) {
    for (const int32_t group : {1, 4, 8}) {
      for (const StorageOrder order : orders) {
        for (const DType dtype :
             {DType::bf16, DType::i8, DType::f8_e4m3, DType::i4, DType::f4_e2m1}) {
          Case c = decode(dtype, group, 8 * k, 64, order);
          c.workload.sequences = sequences;
          c.shape = decode_name(dtype, group, "8k_batch" + std::to_string(sequences), 64, order);
          cases.push_back(c);
          if (folio::detail::is_packed(dtype)) {
            cases.push_back(rounded(c));
            cases.push_back(rotated(c));
            cases.push_back(rounded(rotated(c)));
          } else if (dtype != DType::bf16) {
            if (dtype == DType::i8) cases.push_back(rounded(c));
            add_scale_forms(c, false, cases);
          }
        }
      }
    }
  }
}

/// llama.cpp's caches: f16 as it is and where it may be rounded, and blocks.
void add_foreign(std::vector<Case>& cases) {
  for (const int32_t group : {1, 4, 8}) {
    for (const StorageOrder order : orders) {
      cases.push_back(decode(DType::f16, group, 8 * k, 64, order));
      cases.push_back(cases.back());
      cases.back().shape += "/bf16_operands";
      cases.back().workload.bf16_operands = true;
      if (group == 1) continue;
      for (const DType dtype : {DType::q8_0, DType::q4_0})
        cases.push_back(decode(dtype, group, 8 * k, 64, order));
    }
  }
}

/// Each query over 2,048 keys of its own choice, in no order; beside it as many keys of a table.
void add_lists(std::vector<Case>& cases) {
  for (const StorageOrder order : orders) {
    cases.push_back(decode(DType::bf16, 8, 2 * k, 64, order));
    cases.back().workload.sequences = 8;
    cases.back().shape = decode_name(DType::bf16, 8, "2k_batch8", 64, order);
    cases.push_back(cases.back());
    cases.back().workload.context = 8 * k;
    cases.back().workload.selected = 2 * k;
    cases.back().shape = decode_name(DType::bf16, 8, "2k_listed_batch8", 64, order);
  }
}

/// One sequence: planning has heads and spans to divide, and no other sequences to fill in with.
void add_single(std::vector<Case>& cases) {
  const struct {
    const char* name;
    int32_t context;
  } lengths[] = {{"32_b1", 32}, {"1k_b1", k}, {"8k_b1", 8 * k}};
  for (const auto& length : lengths) {
    for (const int32_t group : {4, 8}) {
      for (const StorageOrder order : orders) {
        Case c = decode(DType::bf16, group, length.context, 64, order);
        c.workload.sequences = 1;
        c.workload.kv_heads = group == 8 ? 2 : 8;
        c.workload.q_heads = group * c.workload.kv_heads;
        c.shape = decode_name(DType::bf16, group, length.name, 64, order);
        c.two_cores = true;
        cases.push_back(c);
        if (length.context != 8 * k || group != 4) continue;
        c.workload.dtype = DType::i8;
        c.shape = decode_name(DType::i8, group, length.name, 64, order);
        cases.push_back(c);
        cases.push_back(rounded(c));
      }
    }
  }
  // a head of keys to each q head: as many runs in a token as heads
  for (const StorageOrder order : orders) {
    Case c = decode(DType::bf16, 1, 4 * k, 64, order);
    c.workload.sequences = 1;
    c.workload.q_heads = c.workload.kv_heads = 32;
    c.shape = decode_name(DType::bf16, 1, "4k_b1_32_heads", 64, order);
    c.two_cores = true;
    cases.push_back(c);
  }
}

constexpr int32_t shared_keys = 8 * k, branch_keys = 8 * k + 512;

std::string branches_name(DType dtype, int32_t group, int32_t sequences, bool is_shared) {
  return decode_name(
      dtype, group,
      (is_shared ? "8k5_share8k_batch" : "8k5_unshared_batch") + std::to_string(sequences), 64,
      StorageOrder::token_major);
}

/// Sequences with a prompt in common, which they share or each has for itself.
void add_branches(std::vector<Case>& cases) {
  const auto add_both = [&cases](Case c, auto name) {
    c.roof = RoofKind::nearer;
    c.two_cores = true;
    c.workload.context = branch_keys;
    for (const bool is_shared : {true, false}) {
      c.workload.shared = is_shared ? shared_keys : 0;
      c.shape = name(is_shared);
      cases.push_back(c);
    }
  };
  for (const int32_t sequences : {16, 64}) {
    const auto add_heads = [&](DType dtype, int32_t group, bool is_rounded) {
      Case c = decode(dtype, group, branch_keys, 64, StorageOrder::token_major);
      c.workload.sequences = sequences;
      c.workload.int8_operands = is_rounded;
      add_both(c, [&](bool is_shared) {
        return branches_name(dtype, group, sequences, is_shared) +
               (is_rounded ? "/int8_operands" : "");
      });
    };
    for (const int32_t group : {1, 4}) add_heads(DType::bf16, group, false);
    add_heads(DType::i8, 4, false);
    add_heads(DType::i8, 4, true);
    add_heads(DType::i4, 4, true);
    Case latent = latent_decode(DType::bf16, 16);
    latent.workload.sequences = sequences;
    add_both(latent, [&](bool is_shared) {
      return latent_name(DType::bf16, 16) +
             (is_shared ? "/8k5_share8k_batch" : "/8k5_unshared_batch") +
             std::to_string(sequences) + "/page64";
    });
  }
}

void add_small_heads(std::vector<Case>& cases) {
  for (const int32_t group : {1, 8}) {
    for (const StorageOrder order : orders) {
      cases.push_back(decode(DType::bf16, group, 8 * k, 64, order));
      cases.back().workload.head_size = 64;
      cases.back().shape =
          "decode/bf16/d64/group" + std::to_string(group) + "/8k/page64/" + name(order);
    }
  }
}

Case prefill(const std::string& shape, int32_t new_tokens, int32_t context, Mask mask) {
  Case c;
  c.shape = "prefill/" + shape;
  c.workload = {
      .new_tokens = new_tokens, .context = context, .q_heads = 32, .kv_heads = 8, .mask = mask};
  c.roof = RoofKind::arithmetic;
  c.two_cores = true;
  return c;
}

void add_prefill(std::vector<Case>& cases) {
  cases.push_back(prefill("bf16/d128/512_over_4k", 512, 4 * k, Mask::full()));
  cases.push_back(prefill("bf16/d128/causal_4k", 4 * k, 4 * k, Mask::causal()));
  cases.push_back(paired(cases.back()));
  cases.push_back(prefill("bf16/d128/causal_512", 512, 512, Mask::causal()));
  for (const int32_t head_size : {64, 256}) {
    cases.push_back(
        prefill("bf16/d" + std::to_string(head_size) + "/512_over_4k", 512, 4 * k, Mask::full()));
    cases.back().workload.head_size = head_size;
  }
  for (const bool is_rounded : {false, true}) {
    cases.push_back(prefill("f16/d128/512_over_4k", 512, 4 * k, Mask::full()));
    cases.back().workload.dtype = DType::f16;
    cases.back().workload.bf16_operands = is_rounded;
    cases.back().roof = is_rounded ? RoofKind::arithmetic : RoofKind::fma;
    if (is_rounded) cases.back().shape += "/bf16_operands";
  }
  cases.push_back(prefill("f32/d128/512_over_4k", 512, 4 * k, Mask::full()));
  cases.back().workload.dtype = DType::f32;
  cases.back().roof = RoofKind::fma;
}

void add_latent(std::vector<Case>& cases) {
  for (const int32_t heads : {128, 64, 32, 16}) {
    for (const DType dtype : {DType::bf16, DType::f8_e4m3}) {
      if (dtype != DType::bf16 && heads != 128 && heads != 16) continue;
      Case c = latent_decode(dtype, heads);
      c.shape = latent_name(dtype, heads) + "/8k/page64";
      const bool is_memory_bound = heads == 16 && machine_has(Capability::amx_bf16);
      if (heads == 16) c.workload.sequences = 16;
      c.roof = is_memory_bound ? RoofKind::read : RoofKind::arithmetic;
      c.two_cores = heads == 128 || heads == 16;
      cases.push_back(c);
    }
  }
  cases.push_back(cases.back());
  cases.back().shape = "mla_decode/bf16/576_512/128_heads/2k_listed/page64";
  cases.back().workload.dtype = DType::bf16;
  cases.back().workload.sequences = 16;
  cases.back().workload.q_heads = 128;
  cases.back().workload.selected = 2 * k;
  cases.back().two_cores = false;
  cases.push_back(cases.back());
  cases.back().shape = "mla_decode/bf16/576_512/16_heads/2k_listed/page64";
  cases.back().workload.q_heads = 16;
  Case c = prefill("mla/bf16/192_128/causal_2k", 2 * k, 2 * k, Mask::causal());
  c.workload.q_heads = c.workload.kv_heads = 16;
  c.workload.head_size = 192;
  c.workload.v_head_size = 128;
  cases.push_back(c);
}

/// One long sequence among short ones: what matters is that no core waits for another.
void add_skewed(std::vector<Case>& cases) {
  Case c = decode(DType::bf16, 8, 512, 64, StorageOrder::token_major);
  c.shape = "skewed/bf16/d128/group8/128k_and_63_of_512/page64/token_major";
  c.workload.sequences = 64;
  c.workload.first_context = 128 * k;
  c.roof = RoofKind::read;
  c.one_core = false;
  c.two_cores = true;
  cases.push_back(c);
}

}  // namespace

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  add_decode(cases);
  add_bytes_of_batches(cases);
  add_foreign(cases);
  add_lists(cases);
  add_branches(cases);
  add_small_heads(cases);
  add_single(cases);
  add_prefill(cases);
  add_latent(cases);
  add_skewed(cases);
  return cases;
}

std::vector<Comparison> comparisons() {
  std::vector<Comparison> all;
  for (const int32_t group : {1, 4, 8}) {
    for (const StorageOrder order : orders) {
      for (const DType dtype : {DType::i8, DType::f8_e4m3})
        all.push_back({std::string(folio::name(dtype)) + " against bf16 tokens/s, group " +
                           std::to_string(group) + ", " + name(order),
                       decode_name(DType::bf16, group, "8k", 64, order),
                       decode_name(dtype, group, "8k", 64, order)});
      for (const DType dtype : {DType::i4, DType::f4_e2m1})
        all.push_back(
            {"rotated " + std::string(folio::name(dtype)) + " against bf16 tokens/s, group " +
                 std::to_string(group) + ", " + name(order),
             decode_name(DType::bf16, group, "8k_batch1", 64, order),
             decode_name(dtype, group, "8k_batch1", 64, order) + "/rotated/int8_operands"});
    }
  }
  for (const int32_t sequences : {16, 64})
    for (const int32_t group : {1, 4})
      all.push_back({"a shared prompt against one for each, group " + std::to_string(group) + ", " +
                         std::to_string(sequences) + " sequences",
                     branches_name(DType::bf16, group, sequences, false),
                     branches_name(DType::bf16, group, sequences, true)});
  for (const int32_t group : {1, 2, 4, 8, 16})
    for (const int32_t page_size : {64, 16}) {
      if (page_size == 16 && group != 4 && group != 8) continue;
      all.push_back({"token-major against head-major, group " + std::to_string(group) +
                         ", pages of " + std::to_string(page_size),
                     decode_name(DType::bf16, group, "8k", page_size, StorageOrder::head_major),
                     decode_name(DType::bf16, group, "8k", page_size, StorageOrder::token_major)});
    }
  return all;
}

}  // namespace folio::bench
