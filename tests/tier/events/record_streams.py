# SPDX-License-Identifier: Apache-2.0
"""tests/tier/events/record_streams.py vllm|sglang FOLDER: what engines tell of their caches, and what they find in them, recorded anew.

Writes FOLDER/streams_NAME.jsonl. A line is one of
    {"engine": ..., "what": ..., "block_size": tokens of a name}    the first
    {"batch": [event, ...]}      as the engine's encoder makes it, decoded; of token ids their number
    {"find": [name, ...], "tokens": n}    of a prompt whose blocks have these names it finds n tokens now
The names of a prompt leave out its last token, which engines compute anew.

`vllm` needs vLLM (tools/engines.py run vllm tests/tier/events/record_streams.py vllm FOLDER); `sglang` needs SGLang's sources on the
module path, and what its `radix_cache` imports. No weights are needed: vLLM makes up those of tiny models.
"""

import importlib.metadata
import json
import os
import pathlib
import random
import sys
import tempfile

SEED = 40
BLOCK = 32
WINDOW = 64


class Recording:
    def __init__(self, folder, name, **head):
        self.file = (pathlib.Path(folder) / f"streams_{name}.jsonl").open("w")
        self.write(head)

    def write(self, line):
        self.file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def batch(self, payload):
        import msgspec

        events = msgspec.msgpack.decode(payload)[1]
        for event in events:
            if "token_ids" in event:
                event["token_ids"] = len(event["token_ids"])
        if events:
            self.write({"batch": events})

    def find(self, names, tokens):
        self.write({"find": names, "tokens": tokens})


def prompt_of(draw, length, beginning=()):
    """Small ids: a byte each on the wire."""
    return [*beginning, *(draw.randrange(3, 120) for _ in range(length - len(beginning)))]


# ---- vLLM


def ask_vllm(manager, hasher, prompt):
    """The names of a prompt and the tokens that would be found; nothing changes by that."""
    from vllm import SamplingParams
    from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash
    from vllm.v1.request import Request

    request = Request("asks", list(prompt), SamplingParams(max_tokens=1), None, block_hasher=hasher)
    _, tokens, _ = manager.coordinator.find_longest_cache_hit(request.block_hashes, len(prompt) - 1)
    whole = (len(prompt) - 1) // manager.block_pool.hash_block_size
    return [maybe_convert_block_hash(h) for h in request.block_hashes[:whole]], tokens


class Engine:
    """vLLM itself, over a tiny model whose weights it makes up."""

    def __init__(self, recording, config, **options):
        from vllm import LLM

        self.recording = recording
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
            self.llm = LLM(
                model=folder, load_format="dummy", skip_tokenizer_init=True, dtype="float32", enforce_eager=True, seed=0,
                max_model_len=512, max_num_seqs=4, block_size=BLOCK, enable_prefix_caching=True,
                kv_events_config={"enable_kv_cache_events": True, "publisher": "null"}, **options,
            )
        self.core = self.llm.llm_engine.engine_core.engine_core
        self.core.scheduler.kv_event_publisher = self
        self.prompts = []

    def publish(self, batch):
        import msgspec

        self.recording.batch(msgspec.msgpack.encode(batch))

    def shutdown(self):
        pass

    def ask(self, prompt):
        names, tokens = ask_vllm(self.core.scheduler.kv_cache_manager, self.core.request_block_hasher, prompt)
        self.recording.find(names, tokens)
        return tokens

    def generate(self, *prompts, tokens=1, asks=True, **extra):
        """What the first one had of the cache is what was to be found before."""
        from vllm import SamplingParams

        found = self.ask(prompts[0]) if asks else 0
        outputs = self.llm.generate(
            [{"prompt_token_ids": list(p)} for p in prompts],
            SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True, detokenize=False, **extra), use_tqdm=False,
        )
        assert outputs[0].num_cached_tokens == found, (outputs[0].num_cached_tokens, found)
        self.prompts += [p for p in prompts if p not in self.prompts]
        for prompt in self.prompts[-6:]:
            self.ask(prompt)


def vllm_models():
    decoder = dict(
        hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
        vocab_size=128, max_position_embeddings=1024, bos_token_id=0, eos_token_id=1, torch_dtype="float32",
    )
    layers = ["sliding_attention", "full_attention"]
    return {
        "plain": dict(decoder, architectures=["LlamaForCausalLM"], model_type="llama"),
        "gemma2": dict(
            decoder, architectures=["Gemma2ForCausalLM"], model_type="gemma2", sliding_window=WINDOW, query_pre_attn_scalar=32,
            attn_logit_softcapping=5.0, final_logit_softcapping=30.0, layer_types=layers, hidden_activation="gelu_pytorch_tanh",
        ),
        "window": dict(decoder, architectures=["MistralForCausalLM"], model_type="mistral", sliding_window=WINDOW),
    }


def record_engine(folder, name, version):
    head = dict(engine=f"vLLM {version}", what=f"vllm.LLM over a tiny {name} model", block_size=BLOCK)
    draw = random.Random(SEED)
    engine = Engine(Recording(folder, f"vllm_{name}", **head), vllm_models()[name], num_gpu_blocks_override=24, max_num_batched_tokens=96)
    first = prompt_of(draw, 4 * BLOCK)
    engine.generate(first, first)  # twice at once
    engine.generate(prompt_of(draw, 8 * BLOCK, first))
    engine.generate(prompt_of(draw, 7 * BLOCK + 5), tokens=2 * BLOCK)
    engine.generate(first)
    for _ in range(4):
        beginning = draw.choice(engine.prompts)
        engine.generate(prompt_of(draw, draw.randrange(40, 300), beginning[: draw.randrange(0, len(beginning), BLOCK)]), tokens=draw.choice((1, 40)))
    engine.generate(*[prompt_of(draw, 100)] * 2)
    assert engine.llm.reset_prefix_cache()
    engine.generate(first, asks=False)  # vLLM tells of the reset with its next step
    engine.generate(first)


def vllm_groups():
    """Name -> groups' rules, the tokens of a name, and more for the manager. What vLLM cannot run on a CPU runs in its manager of
    blocks alone, which neither knows models nor memory."""
    import torch
    from vllm.v1 import kv_cache_interface as specs

    def attention(kind, **more):
        return kind(**{**dict(block_size=16, num_kv_heads=1, head_size=16, dtype=torch.float32), **more})

    full = attention(specs.FullAttentionSpec)
    state = dict(shapes=((16, 16),), dtypes=(torch.float32,), mamba_cache_mode="align")
    return {
        "gemma3": ([full, *[attention(specs.SlidingWindowSpec, sliding_window=40)] * 2], 16),
        "llama4": ([full, attention(specs.ChunkedLocalAttentionSpec, attention_chunk_size=64)], 16),
        "mamba": ([full, specs.MambaSpec(block_size=16, **state)], 16),
        "sizes": ([attention(specs.FullAttentionSpec, block_size=32), attention(specs.SlidingWindowSpec, sliding_window=40)], 16),
        "full_of_windows": ([attention(specs.SlidingWindowSpec, sliding_window=40), attention(specs.SlidingWindowSpec, sliding_window=20)], 16),
    }


def prefill(manager, request, chunk=48):
    """Step by step, as a scheduler does: states are kept where steps end."""
    blocks, tokens, _ = manager.get_computed_blocks(request)
    for begin in range(tokens, request.num_tokens, chunk):
        step = min(chunk, request.num_tokens - begin)
        if request.num_tokens - begin < chunk:  # so that one ends at a block's end
            step = step // 16 * 16 or step
        found = (tokens, blocks) if begin == tokens else ()
        if manager.allocate_slots(request, step, *found) is None:
            manager.free(request)
            return False
        request.num_computed_tokens = begin + step
    rest = request.num_tokens - request.num_computed_tokens
    if rest > 0 and manager.allocate_slots(request, rest) is None:
        manager.free(request)
        return False
    request.num_computed_tokens = request.num_tokens
    return True


def record_manager(folder, name, version, groups, block):
    """A random life of requests, a few at a time, over few blocks."""
    import math

    from vllm import SamplingParams
    from vllm.utils.hashing import sha256
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.request import Request

    import msgspec
    from vllm.distributed.kv_events import KVEventBatch

    kv_cache_utils.init_none_hash(sha256)
    hasher = kv_cache_utils.get_request_block_hasher(block, sha256)
    config = KVCacheConfig(num_blocks=70, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec([f"{i}"], spec) for i, spec in enumerate(groups)])
    manager = KVCacheManager(
        config, max_model_len=4096, scheduler_block_size=math.lcm(*(g.block_size for g in groups)), hash_block_size=block,
        enable_caching=True, enable_kv_cache_events=True,
    )
    what = "KVCacheManager over " + ", ".join(type(g).__name__ for g in groups)
    recording = Recording(folder, f"vllm_{name}", engine=f"vLLM {version}", what=what, block_size=block)
    draw, prompts, running, made = random.Random(SEED), [[]], [], 0
    for step in range(64):
        if draw.random() < 0.6 and len(running) < 3:
            beginning = draw.choice(prompts)
            prompt = prompt_of(draw, draw.randrange(20, 200), beginning[: draw.randrange(0, len(beginning) + 1)])
            made += 1
            request = Request(f"{made}", list(prompt), SamplingParams(max_tokens=64), None, block_hasher=hasher)
            if prefill(manager, request):
                running.append(request)
                prompts = [*prompts, prompt][-8:]
        for request in list(running):
            request.append_output_token_ids(draw.randrange(3, 120))
            if draw.random() < 0.15 or manager.allocate_slots(request, 1) is None:
                manager.free(request)
                running.remove(request)
            else:
                request.num_computed_tokens += 1
        if step == 48:
            for request in running:
                manager.free(request)
            running = []
            assert manager.reset_prefix_cache()
        recording.batch(msgspec.msgpack.encode(KVEventBatch(ts=1.0, events=manager.take_events())))
        if step % 2 == 0:
            for prompt in draw.sample(prompts[1:], min(3, len(prompts) - 1)):
                recording.find(*ask_vllm(manager, hasher, prompt))


# ---- SGLang


class Slots:
    """What a tree gives back goes nowhere: it is not asked for memory."""

    device = "cpu"

    def free(self, values, **_):
        pass

    def free_segment(self, values, **_):
        pass


def record_sglang(folder):
    """A random life of its radix tree, which joins the events of pages."""
    from array import array

    import msgspec
    import torch
    from sglang.srt.disaggregation.kv_events import KVEventBatch
    from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
    from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey
    from sglang.srt.mem_cache.utils import hash_str_to_int64

    page = 16
    tree = RadixCache.create_simulated(mock_allocator=Slots(), page_size=page, enable_kv_cache_events=True)
    version = importlib.metadata.version("sglang")
    recording = Recording(folder, "sglang", engine=f"SGLang {version}", what="RadixCache of pages of 16 tokens", block_size=page)

    def key(prompt):
        return RadixKey(array("q", prompt))

    def names(prompt):
        """Of a tree of its own, which says them by its events."""
        other = RadixCache.create_simulated(page_size=page, enable_kv_cache_events=True)
        other.insert(InsertParams(key=key(prompt), value=torch.zeros(len(prompt), dtype=torch.int64)))
        return [h for event in other.take_events() for h in getattr(event, "block_hashes", ())]

    draw, prompts = random.Random(SEED), [[]]
    for step in range(60):
        if draw.random() < 0.6:
            beginning = draw.choice(prompts)
            prompt = prompt_of(draw, page * draw.randrange(1, 11), beginning[: draw.randrange(0, len(beginning) + 1)])
            tree.insert(InsertParams(key=key(prompt), value=torch.zeros(len(prompt), dtype=torch.int64)))
            prompts = [*prompts, prompt][-8:]
        else:
            tree.evict(EvictParams(num_tokens=page * draw.randrange(1, 12)))
        if step == 45:
            tree.reset()
        recording.batch(msgspec.msgpack.encode(KVEventBatch(ts=1.0, events=tree.take_events())))
        for prompt in draw.sample(prompts[1:], min(2, len(prompts) - 1)):
            found = tree.match_prefix(MatchPrefixParams(key=key(prompt)))
            recording.find(names(prompt), found.device_prefix_len)


def record_vllm(folder):
    os.environ.update(
        VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES="1", VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_OMP_THREADS_BIND="nobind", OMP_NUM_THREADS="1",
        VLLM_CPU_KVCACHE_SPACE="1", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1", FOLIO_VLLM="0",
    )
    import vllm

    for name, (groups, block) in vllm_groups().items():
        record_manager(folder, name, vllm.__version__, groups, block)
    for name in vllm_models():
        record_engine(folder, name, vllm.__version__)


if __name__ == "__main__":
    {"vllm": record_vllm, "sglang": record_sglang}[sys.argv[1]](sys.argv[2])
