# SPDX-License-Identifier: Apache-2.0
"""python vllm_offline.py: stock vLLM on a CPU, offline, with folio as its attention and without.

Nothing in the code asks for folio: it is installed, so vLLM finds it. The model is a Llama with
random weights. Each engine runs in a process of its own, one of them under `FOLIO_VLLM=0`; the
greedy tokens must be the same.
"""

import json
import os
import subprocess
import sys
import tempfile

PROMPTS = [list(range(3, 3 + length)) for length in (5, 40, 150, 300)]
PROMPTS.append([*PROMPTS[-1][:256], 7, 8, 9])  # begins as the one before: its blocks are shared


def make_model(folder):
    """Writes a Llama of 4 layers with random weights, as transformers would."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        initializer_range=0.1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def generate(folder):
    """The tokens that vLLM generates for each prompt."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        folder,
        dtype="float32",
        skip_tokenizer_init=True,
        enforce_eager=True,  # no compilation: the example shall be quick
        max_model_len=512,
        max_num_batched_tokens=128,  # long prompts are computed in chunks
        kv_cache_memory_bytes=64 << 20,
    )
    sampling = SamplingParams(temperature=0, max_tokens=20, detokenize=False)
    prompts = [{"prompt_token_ids": prompt} for prompt in PROMPTS]
    return [list(done.outputs[0].token_ids) for done in llm.generate(prompts, sampling)]


def main():
    if len(sys.argv) == 3:  # in a process of its own
        folder, answer = sys.argv[1:]
        tokens = generate(folder)
        with open(answer, "w") as file:
            json.dump(tokens, file)
        return
    with tempfile.TemporaryDirectory() as folder:
        make_model(folder)
        said = {}
        for switch in ("0", "1"):
            answer = os.path.join(folder, f"tokens{switch}.json")
            environment = {**os.environ, "FOLIO_VLLM": switch, "HF_HUB_OFFLINE": "1"}
            command = [sys.executable, os.path.abspath(__file__), folder, answer]
            subprocess.run(command, env=environment, check=True)
            with open(answer) as file:
                said[switch] = json.load(file)
    for prompt, stock, folio in zip(PROMPTS, said["0"], said["1"], strict=True):
        print(f"{len(prompt)} tokens -> {folio}")
        assert stock == folio, f"stock vLLM said {stock}"
    print("vLLM with folio says what stock vLLM says")


if __name__ == "__main__":
    main()
