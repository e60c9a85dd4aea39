# SPDX-License-Identifier: Apache-2.0
# Written by tools/update_python_stub.sh.
"""folio's C++ face; folio_kv re-exports it."""

from collections.abc import Callable, Sequence
import os


version: str = '0.1.0'

def kernels() -> list[tuple[str, bool]]:
    """
    (name, whether this machine runs it) of every attention kernel, best first.
    """

def set_num_threads(threads: int) -> None:
    """
    How many threads folio's calls run on, in the whole process.

    0: as many as the machine offers or, beside torch, as torch.set_num_threads says. Raises Error for
    numbers outside 0 to 4096.
    """

def get_num_threads() -> int:
    """Threads that a call runs on now."""

def get_executor() -> str:
    """
    Whose threads: "thread_pool" (folio's own), or the OpenMP runtime that torch brought.
    """

def set_executor(executor: str) -> None:
    """
    Whose threads folio's calls run on, in the whole process.

    "auto": those of the OpenMP runtime that torch brought, as long as no other program is seen on their
    cores; folio's own otherwise, and in a process without one.
    "thread_pool": folio's own (the C++ thread_pool_executor), beside torch too: they sleep 0.2 ms after
    a call and leave the caller's core, which is for machines whose cores others use as well. Raises
    Error for another word.
    """

class Format:
    """
    How the rows of K, or of V, are stored: a dtype, the scales beside it, and how rows are turned before they are quantised.
    """

    def __init__(self, dtype: object, *, scale_dtype: object | None = None, granularity: int | None = None, zeros: str | None = None, hadamard: int | None = None, sign_seed: int = 0, channel_scales: object | None = None, tensor_scale: object | None = None) -> None:
        """
        Stands where a dtype is asked for: KVCache(..., dtype=Format("i4", hadamard=128)).

        dtype: "f32", "bf16", "f16", "f8_e4m3", "f8_e5m2", "i8"; of four bits "i4", "u4", "f4_e2m1", whose
            even elements are in the low halves of bytes, and "i4_halves", "u4_halves", in which byte i of
            16 has elements i and i + 16 of 32; or a block format that `Pages` names.
        scale_dtype: of the scales, "f32", "f16", "bf16", "f8_e8m0", "f8_e4m3", or "none". None: f32 beside
            8 bits, f16 beside four, f32 with zeros="in_scale". granularity: elements that share a scale;
            None: 32 of four bits, a head of others. The last of a head may be fewer.
        zeros: of u4, what stands beside each scale: "patterns", a byte of 0 to 15 that stands for 0;
            "minimum", a number of the scales' dtype that is added; "in_scale": such a pattern is the last
            four bits of the scale. None: 8 stands for 0.
        hadamard: rows are multiplied by the normalised Hadamard matrix in blocks of so many elements, a
            power of two from 16 to 512 that divides the head, before they are quantised; attention turns
            queries likewise and outputs back. sign_seed: with signs by PyTorch's coins of a generator with
            that seed; 0: none.
        channel_scales: f32 [heads, head_size], or [layers, heads, head_size], by which rows are divided
            first of all. It is read whenever the planes are: not copied.
        tensor_scale: a second factor of all scales, or a list of one for each layer.

        Raises Error for what cannot be.
        """

    @property
    def dtype(self) -> str: ...

    @property
    def scale_dtype(self) -> str | None:
        """As given."""

    @property
    def granularity(self) -> int | None:
        """As given."""

    @property
    def zeros(self) -> str | None: ...

    @property
    def hadamard(self) -> int | None: ...

    @property
    def sign_seed(self) -> int: ...

    @property
    def channel_scales(self) -> object: ...

    @property
    def tensor_scale(self) -> float | list[float] | None: ...

    def replace(self, **changes: object) -> Format:
        """The same but for these arguments of the constructor."""

    def of_layer(self, layer: int) -> Format:
        """
        The same with the channel scales and the tensor scale of one layer of several.
        """

    def __repr__(self) -> str: ...

    def __getstate__(self) -> dict: ...

    def __setstate__(self, arg: dict, /) -> None: ...

class Pages:
    """K and V of one layer: a view of arrays, to which it holds references."""

    def __init__(self, key: object, value: object | None = None, *, order: str = 'NHD', key_scales: object | None = None, value_scales: object | None = None, key_zeros: object | None = None, value_zeros: object | None = None, dtype: object | None = None, v_dtype: object | None = None) -> None:
        """
        Sees arrays as pages; nothing is copied.

        key, value: [pages, slots, heads, dim] (order "NHD") or [pages, heads, slots, dim] ("HND"); with
            three dimensions [slots, heads, dim], pages of one token. The last dimension is contiguous,
            every other stride is free: K and V may be slices of one array. Without value: a latent (MLA)
            cache, whose V lies inside K's rows.
        key_scales, value_scales: a number, calibrated for the whole plane, or an array of the same order
            with scales instead of elements in the last dimension; extents of 1 broadcast.
        key_zeros, value_zeros: zero points, where a Format's zeros are "patterns" (uint8) or "minimum"
            (the scales' dtype): of the scales' shape and byte strides, as slices of one array are.
        dtype, v_dtype: a Format, or a dtype's name: what the bytes are where the array cannot say it
            ("f8_e4m3" in uint8), and how rows are turned; v_dtype: dtype, unless given. Of a Format's
            scale_dtype and granularity counts what is given: the arrays say the rest. Rows of four bits are
            uint8, half as many as elements; rows of llama.cpp's block formats ("q8_0", "q4_0", "q4_1",
            "q5_0", "q5_1", "iq4_nl") are bytes, too: 34 for each 32 elements of q8_0. append quantises
            these as ggml's reference does.

        Raises Error for other shapes, strides and dtypes, and for arrays that are not on the CPU.
        """

    @staticmethod
    def ragged(key: object, value: object | None = None, *, key_scales: float | None = None, value_scales: float | None = None) -> Pages:
        """
        Rows without pages: [rows, heads, dim].

        The entry of a sequence in the batch's table is its first row. key_scales, value_scales: a number,
        for all rows. Raises Error as Pages.
        """

    @property
    def num_pages(self) -> int: ...

    @property
    def page_size(self) -> int: ...

    @property
    def kv_heads(self) -> int: ...

    @property
    def head_size(self) -> int: ...

    @property
    def v_head_size(self) -> int:
        """Elements of a head of V; 0 for a latent cache."""

    @property
    def dtype(self) -> str: ...

    @property
    def v_dtype(self) -> str: ...

    @property
    def is_latent(self) -> bool: ...

    @property
    def key(self) -> object:
        """
        K as an array [pages, slots, heads, dim] (DLPack) over the same memory; rows of four bits and of a block format as uint8.
        """

    @property
    def value(self) -> object:
        """V as `key`; None for a latent cache."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class KVCache:
    """
    K and V of all layers in memory of its own: `cache[layer]`. Copies and pickles hold copies of that memory.
    """

    def __init__(self, num_layers: int, num_pages: int, page_size: int = 16, *, kv_heads: int, head_size: int, v_head_size: int | None = None, dtype: object = 'bf16', v_dtype: object | None = None, scale_dtype: object | None = None, granularity: int | None = None, latent: bool = False, order: str = 'HND') -> None:
        """
        Allocates num_pages pages of page_size tokens in each layer. The memory holds anything.

        dtype, v_dtype: of K (and V, if not given): a Format, or the name of a dtype that it takes.
        scale_dtype, granularity: of those that are given by name, as a Format takes them: elements of 8
            bits have an f32 scale for each head unless they say otherwise, of four bits an f16 scale for
            32 elements.
        latent: MLA, K alone. order: "HND" (head-major, read fastest) or "NHD" (token-major).

        Raises Error for sizes below 1 or beyond memory, and for dtypes that folio does not have.
        """

    def __len__(self) -> int: ...

    def __getitem__(self, layer: int) -> Pages:
        """The Pages of a layer."""

    def __getstate__(self) -> tuple: ...

    def __setstate__(self, state: tuple) -> None: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def num_pages(self) -> int: ...

    @property
    def page_size(self) -> int: ...

class Kind:
    """A kind of layer: what selects kernels, shared by its layers."""

    def __init__(self, q_heads: int, *, scale: float | None = None, softcap: float | None = None, window: object | None = None, chunk: int | None = None, causal: bool = True, sink_tokens: int = 0, v_in_key: int | None = None, reproducible: str = 'plan', bf16_operands: bool = False, int8_operands: bool = False, q_is_turned: bool = False) -> None:
        """
        The options of attention that all layers of a kind share.

        q_heads: query heads, a multiple of the pages' kv_heads.
        scale: of q . k; None: 1 / sqrt(head_size). softcap: softcap * tanh(x / softcap) of the scaled
            product; None or 0: none.
        window: the last so many keys, the query's own included (both sides where not causal), or
            (left, right) with -1 for no limit; right counts where not causal.
        chunk: attention within aligned chunks of positions.
        sink_tokens: the first keys stay visible behind every window: for full layers that are cut when they
            serve, where 1 is mostly enough; a model's own window layers get far worse (docs/llama_cpp.md).
        v_in_key: MLA, V is the first so many columns of K's row.
        reproducible: what the bits of a result depend on: "plan", "sequence" or "query".
        bf16_operands: q, K and V of f32 and f16 may be rounded to bf16 before they are multiplied, where
            that is faster: the error is that of bf16 caches. Without effect where reproducible="query".
        int8_operands: with pages of i8 or four bits, q may be rounded to 8 bits by row, and softmax
            weights by tile, where that is faster: an element of q moves by 1/254 of the greatest of its
            row at the most, a weight by 1/510 (over i8 1/254) of its tile's. Without effect where
            reproducible="query".
        q_is_turned: q comes turned for the pages (rotate's `pages`); otherwise attention turns it, where K
            is rotated or has channel scales.

        Raises Error for numbers out of range; what no kernel serves is refused by the first call.
        """

    def __getstate__(self) -> dict: ...

    def __setstate__(self, arg: dict, /) -> None: ...

def why_not(kind: Kind, pages: Pages, *, q_dtype: object | None = 'bf16', out_dtype: object | None = None, sinks: bool = False, alibi: bool = False, bias: bool = False, intervals: bool = False, tree: bool = False, selected: bool = False, sinks_per_query: bool = False, sinks_dtype: object = 'f32', bias_per_sequence: bool = False, bias_dtype: object = 'f32', alibi_positions: bool = False, selected_per_head: bool = False) -> object:
    """
    The reason why no kernel serves such calls, or None. Options as for an Attention.
    """

class Rope:
    """Rotary embedding by table."""

    def __init__(self, cos_sin: object, *, interleaved: bool = False, first_dim: int = 0, positions: object | None = None) -> None:
        """
        cos_sin: f32 [rows, dims], dims / 2 cosines then dims / 2 sines of each position.

        interleaved: pairs are neighbours (GPT-J) instead of halves (GPT-NeoX, Llama). first_dim: the first
        rotated dimension. positions: [tokens] rows of the table; None: the tokens' positions.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

class Attention:
    """The kernel of one problem, and its limits."""

    def __init__(self, kind: Kind, pages: Pages, *, batch: int, tokens: int, context: int, parallelism: int = 0, kernel: str = '', q_dtype: object | None = 'bf16', out_dtype: object | None = None, sinks: bool = False, alibi: bool = False, bias: bool = False, intervals: bool = False, tree: bool = False, selected: bool = False, sinks_per_query: bool = False, sinks_dtype: object = 'f32', bias_per_sequence: bool = False, bias_dtype: object = 'f32', alibi_positions: bool = False, selected_per_head: bool = False) -> None:
        """
        Selects the kernel for a kind of layer over pages like these.

        batch, tokens, context: the most sequences, new tokens and keys of a sequence that will come.
        sinks ... alibi_positions: which optional inputs will come with every call, and in which form
            (sinks_per_query: [tokens, q_heads]; bias_per_sequence: four dimensions). The slots of a list
            count as context does. kernel: a name of kernels().

        Raises Unsupported with the reason where no kernel serves this, Error for numbers out of range.
        """

    @property
    def kernel(self) -> str: ...

    @property
    def plan_bytes(self) -> int: ...

    @property
    def workspace_bytes(self) -> int: ...

    def with_limits(self, *, batch: int | None = None, tokens: int | None = None, context: int | None = None) -> Attention:
        """The same kernel within other limits. Raises Error as the constructor."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class Plan:
    """The work list of one step."""

    @property
    def num_tasks(self) -> int: ...

    def __reduce_ex__(self, protocol: object) -> object: ...

def plan(attention: Attention, batch: Batch) -> Plan:
    """
    Cuts a batch into tasks. Raises Error for a batch beyond the limits or a short table.
    """

def attend(attention: Attention, plan: Plan, pages: Pages, q: object, *, bias: object | None = None, sinks: object | None = None, alibi: object | None = None, out: object | None = None, lse: object | None = None) -> object:
    """
    Attention of a plan's batch over pages. Arguments and errors as for a Step.
    """

def append(batch: Batch | None, pages: Pages, k: object, v: object | None = None, *, slots: object | None = None, rope: Rope | None = None, k_norm: object | None = None, norm_eps: float = 9.999999974752427e-07, k_norm_shift: object | None = None, summaries: Pages | None = None) -> None:
    """
    Writes k and v into pages. Without a batch: as many rows as there are slots.

    Arguments and errors as for a Step; nothing is written where it raises.
    """

def rotate(batch: Batch | None, q: object, *, rope: Rope | None = None, q_norm: object | None = None, norm_eps: float = 9.999999974752427e-07, out: object | None = None, pages: Pages | None = None, q_norm_shift: object | None = None) -> object:
    """
    RMSNorm (q_norm), or LayerNorm (q_norm and q_norm_shift), then rotary embedding (rope) of q
    [tokens, heads, dim].

    Without a batch the rope needs positions. out: an array to write, q itself too; None: one of q's
    library. pages: q is turned for their keys, last of all, where they are rotated or have channel
    scales: for a Kind with q_is_turned. Raises Error for what does not fit.
    """

def merge(outs: Sequence, lses: Sequence, *, out: object | None = None) -> object:
    """
    Joins attention over disjoint sets of keys: (out, lse).

    outs: arrays [tokens, heads, dim]; lses: contiguous f32 [tokens, heads], natural logarithms; where
    one is infinite, of either sign, its row of outs is not read. Raises Error where shapes do not
    agree.
    """

class Batch:
    """Who is in the step: the same for all layers."""

    def __init__(self, query_offsets: object, context_lengths: object, table: object, *, row_starts: object | None = None, query_positions: object | None = None, key_positions: object | None = None, visible: object | None = None, tree: object | None = None, selected: object | None = None, alibi_positions: object | None = None) -> None:
        """
        Sequences with their new tokens, their keys and their pages.

        query_offsets: [batch + 1] first row of q of each sequence, ascending from 0. Copied.
        context_lengths: [batch] keys when attention runs, the new tokens included. Copied.
        table: int32 or uint32 [batch, columns] page ids with contiguous rows: borrowed, so it must not
            change before the step ends; -1, or an id beyond the pages, is no page. int64 and lists of lists
            are copied. With row_starts [batch], one dimension of entries and where each row begins (CSR).
        query_positions, key_positions: [batch] position of the first query and of key 0.
        visible: (begin, end), each [tokens]: the positions that a query sees, instead of the mask.
        tree: uint64 [tokens, words] bits of the new tokens that a query sees. Borrowed.
        selected: int32 [tokens, slots], or [tokens, kv_heads, slots], the only keys that a query sees
            instead of the mask: slots page * page_size + offset (row numbers of Pages.ragged), -1 for none.
            Borrowed, and read by each layer's call: a layer may bring its own lists in the same array.
        alibi_positions: int32 [keys] or [batch, keys] the position of each key for ALiBi. Borrowed.

        Raises Error for other shapes and dtypes, and for values that contradict one another.
        """

    @property
    def size(self) -> int:
        """Sequences."""

    @property
    def tokens(self) -> int:
        """New tokens of all sequences."""

    @property
    def max_context(self) -> int:
        """Keys of the longest sequence."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class Step(Batch):
    """A batch that makes the plans of its layers: one call per layer."""

    def __init__(self, query_offsets: object, context_lengths: object, table: object, *, row_starts: object | None = None, query_positions: object | None = None, key_positions: object | None = None, visible: object | None = None, tree: object | None = None, selected: object | None = None, alibi_positions: object | None = None) -> None:
        """As Batch. Plans are made by the first layer of each kind."""

    def __call__(self, kind: Kind, pages: Pages, q: object, k: object | None = None, v: object | None = None, *, slots: object | None = None, rope: Rope | None = None, q_norm: object | None = None, k_norm: object | None = None, norm_eps: float = 9.999999974752427e-07, bias: object | None = None, sinks: object | None = None, alibi: object | None = None, out: object | None = None, lse: object | None = None, q_norm_shift: object | None = None, k_norm_shift: object | None = None, summaries: Pages | None = None) -> object:
        """
        Writes k and v into the pages, where they are given, and attends.

        q: [tokens, q_heads, head_size]; k, v: [tokens, kv_heads, head_size]; f32, bf16 or f16, any strides
            of tokens and heads. Rows beyond the batch's tokens are padding: they are ignored.
        slots: int64 [tokens] page * page_size + offset, negative to skip; None: by table and lengths.
        rope, q_norm, k_norm: rotate and normalise q and k on the way; the norms are f32 [head_size]:
            RMSNorm, with q_norm_shift and k_norm_shift of the same shape LayerNorm.
        bias: [q_heads or 1, tokens, keys], or for each sequence [batch or 1, q_heads or 1, new tokens,
            keys], added to the logits; -inf hides. sinks: sink logits [q_heads], or of each query
            [tokens, q_heads]. Both f32, bf16 or f16. alibi: f32 [q_heads] slopes.
        out: [tokens, q_heads, v_head_size] to write; None: an array of q's library and dtype.
        lse: f32 [tokens, q_heads] to write; True: the result is (out, lse).
        summaries: of the pages (summarise), brought up to date with k.

        Raises Error for arrays that do not fit, Unsupported where no kernel serves the call.
        """

    def select(self, pages: Pages, q: object, weights: object | None = None, *, k: int = 2048, relu: bool = True, scale: float | None = None, window: int | None = None, entries: str = 'slots', slots_of: Pages | None = None, out: object | None = None) -> object:
        """
        The k keys of each query that an indexer scores best (sparse attention of DeepSeek V3.2).

            score[t, j] = sum_h weights[t, h] * relu(scale * q[t, h] . key[j])

        pages: keys of the indexer: Pages of one small head, without values.
        q: [tokens, index heads, head_size], normalised and rotated as the keys are; f32, bf16 or f16.
        weights: [tokens, index heads] of either sign; None: all 1. relu False: products as they are.
        scale: None: 1 / sqrt(head_size). window: keys that a query sees, itself included; causal.
        k: 1 to 4096. Exact; of equal scores the lower key.
        entries: "slots" of slots_of (None: of pages), as Batch's `selected` takes them, or "keys" of the
            sequence; ascending, -1 behind them.
        out: int32 [tokens, k] to write; None: an array of q's library.

        Raises Error for arrays that do not fit, Unsupported where no kernel serves the call.
        """

    def select_pages(self, pages: Pages, summaries: Pages, q: object, *, k_pages: int, first_pages: int = 1, last_pages: int = 1, per_kv_head: bool = False, score: str = 'greatest', scale: float | None = None, window: int | None = None, missed: object | None = None, out: object | None = None) -> object:
        """
        The keys of the k_pages pages that matter most to each query, by their summaries: sparse
        attention for models without an indexer.

        pages: what attention reads. summaries: of these; see summarise.
        q: [tokens, q_heads, head_size], normalised, rotated, and turned where keys are (rotate's pages).
        k_pages: 1 to 4096, of which the first_pages first and the last_pages last that a query sees.
        per_kv_head: a list for each KV head instead of one for all. score: what the scores of the q heads
            of a list become, "greatest" or "sum".
        scale: None: 1 / sqrt(head_size). window: keys that a query sees, itself included; causal.
        missed: f32 [tokens, q_heads] to write, with bounds; True: the result is (slots, missed). The log of
            what keys that were left out could add to exp(lse) at the most.
        out: contiguous int32 [tokens, k_pages * page_size], per_kv_head [tokens, kv_heads, ...], to write;
            None: an array of q's library: slots as Batch's `selected` takes them, ascending, -1 behind.

        Raises Error for arrays and numbers that do not fit, Unsupported for a tree.
        """

    @property
    def keys_read(self) -> list[int]:
        """
        Of each plan made so far: keys of a KV head that it fetches. Pages that sequences share are fetched once for all, where that saves time.
        """

    def append(self, pages: Pages, k: object, v: object | None = None, *, slots: object | None = None, rope: Rope | None = None, k_norm: object | None = None, norm_eps: float = 9.999999974752427e-07, k_norm_shift: object | None = None, summaries: Pages | None = None) -> None:
        """
        Writes k and v of the new tokens into the pages. Arguments and errors as for a call.
        """

    def attend(self, kind: Kind, pages: Pages, q: object, *, bias: object | None = None, sinks: object | None = None, alibi: object | None = None, out: object | None = None, lse: object | None = None) -> object:
        """Attention alone. Arguments and errors as for a call."""

    def rotate(self, q: object, *, rope: Rope | None = None, q_norm: object | None = None, norm_eps: float = 9.999999974752427e-07, out: object | None = None, pages: Pages | None = None, q_norm_shift: object | None = None) -> object:
        """
        Norm, rotary embedding and turn of q alone. Arguments and errors as for rotate().
        """

    def over(self, kind: Kind, pages: Pages, q: object, k: object, v: object | None = None, *, sinks: object | None = None, alibi: object | None = None, out: object | None = None, lse: object | None = None) -> object:
        """
        Attends over the cached keys and over k and v as they are, then appends k and v.

        For caches whose new rows overwrite what the first of them still sees (rings). A tree and slots are
        refused. Arguments and errors as for a call.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

def summarise(pages: Pages, summaries: Pages, ids: object, slots: object | None = None) -> None:
    """
    Makes the summaries of pages from their keys as they lie there.

    summaries: Pages of K alone, of as many pages, heads and elements as `pages` and a page_size of 2
        (of each channel the smallest and the largest number) or 1 (the mean), in f32, bf16 or f16:
        KVCache(layers, num_pages, 2, kv_heads=..., head_size=..., latent=True). append keeps them up to
        date where it gets them; copies take them along as a whole, by a call of their own.
    ids: pages, each once. slots: how many of each are filled, from the front; None: all.

    Raises Error for planes that do not agree, ids and slots out of range.
    """

def copy_pages(source: Sequence, target: Sequence, copies: object) -> None:
    """
    Copies pages of every layer, values and scales, converting where the dtypes differ.

    source, target: lists of Pages, one a layer (a KVCache is one). copies: (from, to, tokens) page ids
    and how many slots, in order: a list of tuples or an integer array [n, 3]. Raises Error for planes
    that do not agree and ids out of range; nothing is written then.
    """

def copy_slots(source: Sequence, target: Sequence, copies: object) -> None:
    """
    As copy_pages, single slots: (from, to), each page * page_size + offset.
    """

class SequenceId:
    """A sequence of one pool; stale once it is released."""

    @property
    def index(self) -> int: ...

    @property
    def generation(self) -> int: ...

    def __eq__(self, arg: SequenceId, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    def __reduce_ex__(self, protocol: object) -> object: ...

class StepTicket:
    """A step that has begun and not ended."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class IoPin:
    """A page that a transfer reads or writes."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class Admission:
    """What admit found."""

    @property
    def id(self) -> SequenceId: ...

    @property
    def cached_tokens(self) -> int:
        """
        Tokens whose keys and values the cache already has: whole pages, or more with min_partial_tokens.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

class PagePool:
    """Which sequence owns which page: prefix reuse, fork, trim, eviction."""

    def __init__(self, num_pages: int, page_size: int = 16, *, max_sequences: int = 256, max_pages_per_sequence: int = 0, max_namespaces: int = 256, prefix_reuse: bool = True, hash_seed: int = 0, eviction: str = 'lru', max_retention_ms: int = 0, watermark_pages: int = 0, lookahead_tokens: int = 0, event_capacity: int = 0, min_partial_tokens: int = 0, max_spans: int = 0, readers: bool = False, histograms: bool = False, max_io_pins: int = 0, groups: Sequence = (), arena_bytes: int = 0, name: object | None = None, on_event: object | None = None) -> None:
        """
        Manages num_pages pages of page_size tokens; it holds no keys and no values.

        max_sequences: alive at once. max_pages_per_sequence: 0: num_pages. max_namespaces: (salt, adapter)
        pairs without a sequence whose pages stay findable. hash_seed: 0: drawn from the system.
        eviction: which cached page goes first where none is free: "lru" (released first), "s3_fifo" (new
        ones soon), "lfu" (found least often, older finds counting less) or "cost" (of short sequences).
        max_retention_ms: the longest time for which a sequence may ask to have its pages kept, 0: none may.
        watermark_pages: that a sequence's first reserve leaves to those that run. lookahead_tokens: that
        every reserve makes room for beyond what it is asked. event_capacity: events that read_events finds.
        min_partial_tokens: hits may end inside a page from so many tokens on, 0: never. max_spans: items of
        another kind that a prompt may have. readers, histograms: what reader and histograms need.
        max_io_pins: pages that begin_io holds at once.
        groups, arena_bytes: of a hybrid model, with num_pages 0: {"rule": "full", "window", "chunked" or
        "state", "page_bytes": ..., and "window", "sinks", "chunk" or "checkpoint" in tokens} each.
        name: is called with a PageContent and gives 1 to 32 bytes (folio_kv.Sha256Names, or an engine's
        block hashes): for PagePool.name, and in a pool with events for every content that is stored. Its
        attribute name_companion, if it has one, likewise with a CompanionContent, for other groups' pages.
        on_event: is called with each PoolEvent as it happens, and the tokens of the page of a stored one;
        what tiers.EventPublisher.add_pool gives is called without Python.
        From both, calls that would change the pool raise Error with code "busy"; what they raise goes to
        sys.unraisablehook, as the pool's own call is done, but for PagePool.name, which raises it.
        Raises Error naming the option.
        """

    def peek(self, prompt: object, *, salt: bytes = ..., adapter: int = 0, spans: Sequence = ()) -> int:
        """Tokens that admit would find now. Changes nothing."""

    def admit(self, prompt: object, *, salt: bytes = ..., adapter: int = 0, retention: Sequence = (), decode_retention: object | None = None, spans: Sequence = ()) -> Admission:
        """
        Opens a sequence that shares the longest cached prefix of prompt in whole pages.

        prompt: token ids, a list or an int array. salt, adapter: pages are shared only where both are
        equal. retention: (begin, end, level, milliseconds) of tokens, how long their pages are kept from
        the release on: level 0 to 100 (35: as without, 100: pinned); decode_retention: (level,
        milliseconds) of the tokens behind the prompt. spans: (offset, length, hash) of images and other
        items that tokens of the prompt stand for, 32 bytes of hash: they belong to what is compared. Raises
        OutOfPages when max_sequences are alive, Error
        for an empty prompt.
        """

    def reserve(self, id: SequenceId, new_tokens: int) -> None:
        """Makes room behind the length: all of it, or OutOfPages and nothing."""

    def commit(self, id: SequenceId, tokens: object, *, merge: bool = False) -> None:
        """
        Says that these tokens' keys and values are in the cache; full pages become findable. merge: a findable page of equal content may take the place of the sequence's own.
        """

    def trim(self, id: SequenceId, length: int) -> None:
        """Cuts the sequence to `length` tokens and gives up reserved room."""

    def fork(self, id: SequenceId, length: int) -> SequenceId:
        """
        A new sequence with the first `length` tokens; a cut page becomes a copy to take.
        """

    def release(self, id: SequenceId) -> None:
        """Gives up all pages. The id is stale from now on."""

    def length(self, id: SequenceId) -> int:
        """Tokens whose keys and values are in the cache."""

    def take_copies(self, group: int = 0) -> list[tuple[int, int, int]]:
        """
        (from, to, tokens) of forks and trims, to be run before the next append.
        """

    def begin_step(self, ids: Sequence) -> StepTicket:
        """Holds the pages of these sequences until end_step."""

    def end_step(self, ticket: StepTicket) -> None: ...

    def begin_io(self, id: SequenceId, entry: int, group: int = 0) -> IoPin:
        """
        Holds page `entry` of the sequence's row for a transfer until end_io, whatever becomes of the sequence.
        """

    def end_io(self, pin: IoPin) -> None: ...

    def page_of(self, pin: IoPin) -> int: ...

    def row_start(self, id: SequenceId, group: int = 0) -> int:
        """Entry of the table at which the sequence's row begins."""

    def batch_rows(self, ids: Sequence, group: int = 0) -> object:
        """row_start of each: a Batch's row_starts."""

    def table(self, group: int = 0) -> object:
        """
        uint32 [max_sequences, columns] of the pool itself, read-only; it changes as the pool does.
        """

    def step(self, ids: Sequence, new_tokens: object) -> object:
        """
        A Step of these sequences: as many new tokens each behind their lengths.
        """

    @property
    def num_pages(self) -> int: ...

    @property
    def page_size(self) -> int: ...

    def stats(self) -> dict:
        """Counts of pages, hits, evictions, sequences and steps."""

    def check_invariants(self) -> None:
        """For tests: raises Error naming the first broken invariant."""

    def reserve_batch(self, ids: Sequence, new_tokens: object) -> None:
        """
        Room for several sequences, none twice: all of it, or OutOfPages and nothing.
        """

    def explain(self, id: SequenceId, new_tokens: int) -> dict:
        """
        Pages that reserve would need, and who has the pool's pages: each is counted once.
        """

    def fork_many(self, id: SequenceId, length: int, children: int) -> list[SequenceId]:
        """
        So many new sequences with the first `length` tokens, or none; they share a cut page until one writes.
        """

    def keep_path(self, tree: Sequence, leaf: int) -> None:
        """
        Of a tree of drafts, the path to tree[leaf] becomes tree[0]'s; all others are released.
        """

    def preempt(self, id: SequenceId) -> None:
        """Gives up all pages and keeps the id, which has no tokens until resume."""

    def resume(self, id: SequenceId, tokens: object) -> Admission:
        """
        Gives a sequence without pages the longest cached prefix of tokens, as admit does.
        """

    def retain(self, prompt: object, *, retention: Sequence = (), decode_retention: object | None = None, salt: bytes = ..., adapter: int = 0, spans: Sequence = ()) -> int:
        """
        How long the cached prefix of prompt is kept, instead of what was said before. Returns the tokens that were found.
        """

    def advance_time(self, now_ms: int) -> None:
        """What time it is, once a step; it does not go back."""

    def read_events(self, next: int, most: int = 256) -> tuple[list[PoolEvent], int, bool]:
        """
        (events, next, lost): events `next`, `next` + 1, ... from the ring, the number to ask for next, and whether the ring has them no longer: then only snapshot tells what they said.
        """

    def snapshot(self) -> tuple[list[PoolEvent], object, int]:
        """
        (events, tokens, last): a stored event for each content that can be found, then for each companion, the tokens in the same row of an int32 array [events, page_size], and the number of the last event before.
        """

    def reader(self) -> PoolReader:
        """For other threads; needs readers."""

    def histograms(self) -> dict:
        """
        Ages in pages taken: lifetime and idle of evicted pages, reuse of found ones; counts by number of bits, and sums.
        """

    def clear(self) -> None:
        """
        Makes all cached pages free, pinned ones too. Raises Error while pages are used.
        """

    def group(self, group: int) -> dict:
        """Sizes of a group, and counts of its pages."""

    def group_options(self, group: int) -> dict:
        """As `groups` has it; what its rule has not is 0."""

    @property
    def num_groups(self) -> int: ...

    def companion_names(self, group: int, leading: Sequence[bytes]) -> list[bytes]:
        """
        The names of what `group`, not 0, has of the pages with these names. Raises Error unless `name` has name_companion; what that raises.
        """

    def parts(self, id: SequenceId, position: int) -> dict:
        """
        Bits of groups, 1 of group 0, that have the sequence's full page: `present`; of these in its rows: `held`; of these what a likely hit needs: `likely`.
        """

    def begin_companion_io(self, id: SequenceId, position: int, group: int) -> IoPin:
        """
        As begin_io, to read what `group` has of the sequence's page, be it cached.
        """

    def begin_prompt_io(self, id: SequenceId, prompt: object, pages: Sequence[tuple[int, int]]) -> list[IoPin | None]:
        """
        As begin_io, to read what memory has of a prompt that the sequence's tokens begin.

        `pages`: (position, group) of each, in rows or cached, also where no hit ends. Returns a pin for
        each, or None where memory has not the page or there is no pin.
        """

    def expect_branch(self, id: SequenceId, tokens: int) -> None:
        """
        Others are likely to go on in another way behind so many tokens: what a hit there needs is `likely`.
        """

    def find_parts(self, id: SequenceId, prompt: object) -> list[int]:
        """
        What memory has behind the sequence's tokens, which fill whole pages.

        For each page of the prompt that group 0 has there, bits of the groups that have it. Raises Error
        for a sequence that has room or part of a page.
        """

    def begin_load(self, id: SequenceId, prompt: object, length: int) -> list[int]:
        """
        Room for the prompt's first `length` tokens, a multiple of page_size.

        For each whole page behind the sequence's tokens, bits of the groups whose page is new there: these
        are to be filled; all others memory has. Until commit_load the sequence has its old length, and
        commit raises Error with code "busy"; trim, preempt and release give the room up.
        """

    def begin_whole_load(self, id: SequenceId, prompt: object) -> list[int]:
        """
        As begin_load, of the whole prompt, for whom no token is left to compute: it may end within a page.
        """

    def shorten_load(self, id: SequenceId, length: int) -> list[int]:
        """
        A shorter load: the same bits of what is to be filled beside what was new before.
        """

    def commit_load(self, id: SequenceId, tokens: object, *, merge: bool = False) -> None:
        """
        All is filled: the load's tokens become the sequence's; merge: as of commit.
        """

    def load_length(self, id: SequenceId) -> int:
        """0 without a load."""

    def watch_evictions(self, function: object | None, leaving: object | None = None) -> None:
        """
        `function` is asked when a cached page is about to be taken for new content.

        It is called with group, page and the name of the page, or of the leading page whose companion it
        is, and may give the IoPin of a page with nothing in it: that page is taken, and from then on the
        pin holds the evicted one, whose bytes stay until end_io. None: the page goes. `leaving` is told of
        a page that goes with its slab to another group: no page can take its place, and its bytes are there
        until the call ends. What they raise goes to sys.unraisablehook. None as `function`: nobody is asked
        any more. Raises Error with code "busy" where one is asked already.
        """

    def name(self, id: SequenceId, position: int, group: int = 0) -> bytes:
        """
        The name of the sequence's page `position`, which is full: 32 bytes; with `group` of
        what that group has of it, whether it has it or not.

        Computed once for a content, as long as some page has it; pages before it that have no name get
        theirs. Raises Error unless 0 <= position < length // page_size, and in a pool without `name`; what
        the callable raises, and the page stays without a name.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

class PoolEvent:
    """A content that can be found from now on, or no more."""

    @property
    def number(self) -> int:
        """1 is a pool's first; in snapshots, of the last event."""

    @property
    def kind(self) -> str:
        """"stored", "removed" or "cleared"."""

    @property
    def content(self) -> int:
        """A number that the pool never uses twice."""

    @property
    def parent(self) -> int:
        """The content of the page before."""

    @property
    def adapter(self) -> int:
        """stored: of the sequence."""

    @property
    def position(self) -> int:
        """stored: of the page in its sequence; else -1."""

    @property
    def num_tokens(self) -> int: ...

    @property
    def name(self, /) -> bytes | None:
        """
        Of the content: 32 bytes; None in a pool without names, or where there was none.
        """

    @property
    def parent_name(self, /) -> bytes | None:
        """
        stored, not in snapshots: of the page before; None for a sequence's first page. Of another group than 0 always, and of the page of group 0 with the same tokens.
        """

    @property
    def group(self) -> int:
        """
        Not 0: a page of the content has got, or lost, what this group has of its tokens.
        """

    @property
    def in_snapshot(self) -> bool:
        """One of PagePool.snapshot."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class PoolReader:
    """What threads beside the scheduler's may ask a pool at any time."""

    def peek(self, prompt: object, *, salt: bytes = ..., adapter: int = 0, spans: Sequence = ()) -> int:
        """
        Tokens in whole pages that admit would find; with groups, in leading pages: an upper bound.
        """

    def stats(self) -> dict:
        """As PagePool.stats, all of one moment between two calls."""

    def read_events(self, next: int, most: int = 256) -> tuple[list[PoolEvent], int, bool]:
        """
        (events, next, lost): events `next`, `next` + 1, ... from the ring, the number to ask for next, and whether the ring has them no longer: then only snapshot tells what they said.
        """

    def histograms(self) -> dict:
        """
        Ages in pages taken: lifetime and idle of evicted pages, reuse of found ones; counts by number of bits, and sums.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

class PageContent:
    """What the name of a page stands for."""

    @property
    def parent(self) -> bytes | None:
        """Name of the page before; None: the sequence's first page."""

    @property
    def tokens(self) -> list[int]:
        """page_size token ids."""

    @property
    def spans(self) -> list[tuple[int, int, bytes]]:
        """
        (offset, length, hash) of items with a token in the page, as seen from its first token: offset may be negative.
        """

    @property
    def salt(self) -> bytes:
        """Of the sequence; a parent's name stands for it, too."""

    @property
    def adapter(self) -> int:
        """The same."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class CompanionContent:
    """What the name of a page of another group than 0 stands for."""

    @property
    def leading(self) -> bytes:
        """Name of the page of group 0 with the same tokens."""

    @property
    def group(self) -> int: ...

    @property
    def rule(self) -> str:
        """Of the group, as PagePool's groups have it; what a rule has not is 0."""

    @property
    def window(self) -> int: ...

    @property
    def sinks(self) -> int: ...

    @property
    def chunk(self) -> int: ...

    @property
    def checkpoint(self) -> int: ...

    def __reduce_ex__(self, protocol: object) -> object: ...

class PageArrays:
    """Pages in arrays that somebody owns, as tiers take them and bring them."""

    def __init__(self, arrays: Sequence) -> None:
        """
        Sees arrays as pages; nothing is copied.

        arrays: of numpy, torch or anything that speaks DLPack or the buffer protocol, on the CPU, with
        pages along their first axis. The bytes of page p are those of arrays[0][p], then of arrays[1][p],
        and so on, each in the order of its elements, whatever its strides: layers, in the order in which
        they are used. Raises Error for arrays without elements, or of different numbers of pages.
        """

    @property
    def num_pages(self) -> int: ...

    @property
    def page_bytes(self) -> int:
        """Bytes of a page in all arrays."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class Tier:
    """
    A place for pages beyond a pool's memory: it keeps them by name.

    Nothing waits but `wait` and `close`; each page of a call ends exactly once, as its Transfer tells.
    Names are 1 to 32 bytes; fewer stand in front of zeros. Any thread may call anything.
    """

    def find(self, names: Sequence[bytes]) -> int:
        """
        How many of these, from the first on, are there now: advice, for a page may go.
        """

    def find_each(self, names: Sequence[bytes]) -> list[bool]:
        """Of each whether it is there now."""

    def store(self, names: Sequence[bytes], where: object, pages: object | None = None, *, parents: Sequence[bytes | None] | None = None) -> Transfer:
        """
        Begins to store pages under these names; returns at once.

        where: PageArrays, and `pages` their numbers there; or an array, or other buffer, for each name. The
        bytes stay as they are until the transfer has ended. A name that is there already is done at once.
        parents: of each the name of the page before it in its prefix: a host tier gives up the end of a
        prefix before its beginning. Raises Error with code "busy" where the queue has no room.
        """

    def load(self, names: Sequence[bytes], where: object, pages: object | None = None, *, deadline_ms: int = 0, order: str = 'pages') -> Transfer:
        """
        Begins to load the pages of these names; returns at once.

        where: as of store. deadline_ms: pages that take longer end as "late"; 0: none. order: "pages", one
        after the other, or "extents": the first array of all pages, then the second, where the medium can
        (Transfer.landed). Raises Error for two pages that share bytes, and as store.
        """

    def drop(self, names: Sequence[bytes]) -> None:
        """Nothing finds these any more."""

    def names(self) -> list[bytes]:
        """
        Of all pages that are known to be there. Raises Unsupported for a peer's.
        """

    def figures(self) -> dict:
        """Counts since the tier was made, and what is there now."""

    def last_fault(self) -> str:
        """Why the medium failed, the latest; "" before the first time."""

    def fileno(self) -> int:
        """
        An eventfd, readable while transfers may have ended that take_ended has not given.
        """

    def take_ended(self) -> list[Transfer]:
        """
        Transfers that have ended since the last call, each once; from the first call of this, wait or fileno on.
        """

    def wait(self, timeout_ms: int = -1) -> bool:
        """
        Until take_ended has something, or so long; negative: without end. Returns whether.
        """

    def close(self, timeout_ms: int = 30000) -> None:
        """
        Waits for what is under way, so long at most, cancels the rest and ends the tier.

        Every later call raises Error; transfers keep their outcomes. Raises Error with code "busy" while a
        CacheManager has the tier.
        """

    def __enter__(self) -> Tier: ...

    def __exit__(self, *args: object) -> None: ...

    def __reduce_ex__(self, protocol: object) -> object: ...

class Transfer:
    """Pages of one call of a tier. Keeps their memory until all have ended."""

    @property
    def tier(self, /) -> Tier: ...

    @property
    def names(self, /) -> list[bytes]: ...

    @property
    def is_load(self) -> bool: ...

    @property
    def is_done(self) -> bool:
        """All pages have ended, one way or another."""

    @property
    def outcomes(self) -> list[str]:
        """
        How each page has ended; "" while it has not.

        "done"; "missing": the tier has no such page; "corrupt": what is there is not what was stored, or
        of another fingerprint; "full": no room to store it; "late", "cancelled"; "failed": the medium
        failed, last_fault says how. Bytes of a load are to be used where it says "done".
        """

    def wait(self, timeout_ms: int = -1) -> bool:
        """
        Until all pages have ended, or so long; negative: without end. Returns is_done.
        """

    def landed(self) -> int:
        """
        Leading arrays of PageArrays that are there in every page of a load.

        Advice, for work that begins with the first layers: it is void unless all pages end as "done". All
        of them then, 0 once a page has ended otherwise.
        """

    def cancel(self) -> None:
        """
        Pages that have not ended do so soon, as "cancelled" unless they are done.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

class Transport:
    """Moves bytes between memory of this process and of others."""

    def address(self) -> bytes:
        """What a peer connects with: this end, and the arrays that it has now."""

    def connect(self, address: bytes) -> int:
        """The peer of this address: its number."""

    def peer_state(self, peer: int) -> str:
        """"connecting", "connected" or "lost"."""

    def last_fault(self) -> str:
        """Why a transfer failed or a peer was lost, the latest; "": none."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class SharedMemoryTransport(Transport):
    """Between processes of one user on one host."""

    def __init__(self, *, same_user: bool = False, timeout_ms: int = 10000, max_peers: int = 256) -> None:
        """
        same_user: any process of this user may read this one's memory, which is needed where Yama's ptrace_scope is 1. timeout_ms: a peer that owes an answer so long is lost.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

class UcxTransport(Transport):
    """Between machines, and processes of one, by UCX."""

    def __init__(self, transports: str = '', *, timeout_ms: int = 10000, max_peers: int = 256) -> None:
        """
        transports: as UCX_TLS, "": what UCX chooses. Raises Unsupported where UCX is not to be loaded.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

class NixlTransport(Transport):
    """Between machines, and processes of one, by NIXL."""

    def __init__(self, *, library: str = '', transports: str = '^shm', timeout_ms: int = 10000, max_peers: int = 256) -> None:
        """
        library: NIXL's libnixl_capi.so; "": as the loader or pip's packages have it. Raises Unsupported where it is not to be loaded.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

class HostTier(Tier):
    """Pages in the host's memory."""

    def __init__(self, max_bytes: int, *, fingerprint: bytes = ..., threads: int = 2, max_queued_bytes: int = 1073741824, max_queued_pages: int = 65536, on_change: object | None = None) -> None:
        """
        max_bytes: of memory, taken as pages come; what was used longest ago goes.

        Of prefixes the ends go first. fingerprint: at most 32 bytes that stand for model, weights and
        shape: pages of another one are "corrupt". threads: that do the work. max_queued_bytes,
        max_queued_pages: of transfers that are under way; a call beyond raises Error with code "busy".
        on_change: what EventPublisher.add_tier gives.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

class DiskTier(Tier):
    """Pages in a directory."""

    def __init__(self, directory: str | os.PathLike, max_bytes: int, *, fingerprint: bytes = ..., threads: int = 2, max_queued_bytes: int = 1073741824, max_queued_pages: int = 65536, on_change: object | None = None, segment_bytes: int = 0, depth: int = 32, timeout_ms: int = 30000) -> None:
        """
        directory: is made where there is none; what an earlier tier left in it is found again.

        max_bytes: of its files. segment_bytes: of one of them, at most half of max_bytes; a page must fit;
        0: an eighth of max_bytes, 1 MiB at least and 256 at most.
        depth: operations of a thread under way. timeout_ms: of io_uring, 0: none. The others: as HostTier.
        Raises Error with code "busy" for a directory that another tier has, of this process or another.
        """

    @property
    def segment_bytes(self) -> int:
        """Of one of its files, at most."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class RedisTier(Tier):
    """Pages in a Redis or Valkey server, or a cluster, that engines share."""

    def __init__(self, url: str, max_bytes: int, *, fingerprint: bytes = ..., threads: int = 2, max_queued_bytes: int = 1073741824, max_queued_pages: int = 65536, on_change: object | None = None, name_space: str = 'default', ttl_s: int = 0, connect_timeout_ms: int = 1000, command_timeout_ms: int = 2000, depth: int = 16, unknown: str = 'hoped', absent_ms: int = 1000, ask_wait_ms: int = 0, max_names: int = 1048576, check: str = 'name', authorities_file: str = '', certificate_file: str = '', key_file: str = '', server_name: str = '') -> None:
        """
        url: "redis://[[USER][:PASSWORD]@]HOST[:PORT][/DATABASE]", "rediss://" (TLS), "unix://".

        Behind it "?namespace=", "db=", "ttl=", "ca=", joined by "&", which go before the arguments. A
        server that is away makes misses and is tried again. max_bytes: of what this tier has stored there.
        name_space: of keys, shared by engines that share pages. ttl_s: of a stored page, 0: none. unknown:
        what find says of a page of which it does not know: "hoped": that it is there; "asked": that it is
        not, and the server is asked meanwhile. ask_wait_ms: how long find, not find_each, waits for its
        answers then, without the GIL. absent_ms: how long a page that was not there counts as
        absent. max_names: that the tier remembers. depth: commands of a thread under way. check: of a
        server's certificate: "name", "authority" or "none"; the files are PEM. The others: as HostTier.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

class PeerTier(Tier):
    """Another process's pages: those of its page server."""

    def __init__(self, transport: Transport, address: bytes, *, fingerprint: bytes = ..., threads: int = 2, max_queued_bytes: int = 1073741824, max_queued_pages: int = 65536, on_change: object | None = None, memory: Sequence = (), timeout_ms: int = 5000) -> None:
        """
        transport: becomes the tier's; every later call of it raises Error. address: the server's.

        memory: arrays in which pages lie, registered once with the transport; what lies elsewhere goes by
        way of a copy. timeout_ms: for an answer of the server. The others: as HostTier. A server that is
        gone makes misses.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

def record_bytes(kind: str, page_bytes: int) -> int:
    """
    What a page of so many bytes takes of max_bytes in a tier of kind "host", "disk" or "redis".
    """

class PageServer:
    """
    Pages in memory of its own, which other processes have as a PeerTier. Any thread may call anything.
    """

    def __init__(self, transport: Transport, max_bytes: int, page_bytes: int, *, fingerprint: bytes = ..., lease_ms: int = 5000, access: str = 'read_write') -> None:
        """
        transport: all its messages are the server's.

        max_bytes: of memory, taken at once; page_bytes: of a page, at most. fingerprint: clients with
        another one are refused. lease_ms: so long a page stays that is lent. access: "read_only" or
        "read_write": whether clients may store and drop.
        """

    def address(self) -> bytes:
        """What PeerTier is given."""

    def poll(self) -> None:
        """
        Answers what has been asked and ends what has expired; several times within lease_ms.
        """

    def wait(self, timeout_ms: int = -1) -> bool:
        """
        Until something may have come for poll, so long at most; negative: without end. Returns whether. Other threads run meanwhile.
        """

    def put(self, names: Sequence[bytes], where: object, pages: object | None = None) -> None:
        """
        Copies pages in, as Tier.store is given them; one at a time, so that those before the one that raises Error are there. Code "busy": all pages are lent.
        """

    def drop(self, names: Sequence[bytes]) -> None:
        """Nobody finds these any more."""

    def has(self, name: bytes) -> bool: ...

    def figures(self) -> dict:
        """Counts since the server was made, and what is there now."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class PoolPageServer:
    """
    A pool's own pages, which other processes have as a PeerTier.

    Pages are lent from where they lie; nothing is stored. Served are pages of sequences without salt
    and items. The pool's on_event has to hand each event to `note`:
    on_event=lambda event, tokens: server.note(event, tokens). One thread calls, the one that calls the
    pool; wait may be another's.
    """

    def __init__(self, transport: Transport, pool: PagePool, planes: object | None = None, *, groups: Sequence = (), memory: Sequence = (), fingerprint: bytes = ..., lease_ms: int = 5000) -> None:
        """
        transport: all its messages are the server's.

        pool: with prefix_reuse, name, events and max_io_pins. planes, groups: as of CacheManager. memory:
        KVCaches, or contiguous arrays, in which these lie: registered with the transport, whose peers can
        write there. fingerprint: clients with another one are refused. lease_ms: so long a page is held
        that is lent.
        """

    def address(self) -> bytes:
        """What PeerTier is given."""

    def note(self, event: PoolEvent, tokens: Sequence[int]) -> None:
        """What the pool's on_event is handed, from within that."""

    def poll(self) -> None:
        """
        Answers what has been asked and ends what has expired; several times within lease_ms.
        """

    def wait(self, timeout_ms: int = -1) -> bool:
        """
        Until something may have come for poll, so long at most; negative: without end. Returns whether. Other threads run meanwhile.
        """

    def figures(self) -> dict:
        """Counts since the server was made, and what is there now."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class TierBelow:
    """A tier, and what a CacheManager does with it."""

    @property
    def tier(self, /) -> Tier: ...

    def __reduce_ex__(self, protocol: object) -> object: ...

def below(tier: Tier, policy: str = 'write_back', *, promotes: bool = False, min_hits: int = 0, max_store_bytes: int = 268435456, faults_to_rest: int = 4, first_rest_ms: int = 100, longest_rest_ms: int = 60000) -> TierBelow:
    """
    A tier below a CacheManager, and when full pages are stored there.

    policy: "write_through": when they become full, or have been found min_hits times; "write_back":
    when a sequence that has them ends; "at_eviction": when the pool evicts them, as far as spare_pages
    go; "none". promotes: pages that come from a tier behind this one are stored here. max_store_bytes:
    of the pool, held for pages that wait to be stored or are being stored. faults_to_rest: loads or
    stores in a row that fail; there are none then for first_rest_ms, which doubles up to
    longest_rest_ms.
    """

class TieredAdmission:
    """What admit found."""

    @property
    def id(self) -> SequenceId: ...

    @property
    def cached_tokens(self) -> int:
        """In memory: the sequence's length."""

    @property
    def loading_tokens(self) -> int:
        """Behind these, on their way."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class CacheManager:
    """
    A pool, and the tiers below it: admit finds pages there, too.

    The engine calls admit, commit, preempt, resume and release of the manager instead of the pool's,
    and poll once a step; everything else of the pool. Keeps pool, planes and tiers; nobody else may
    store to the tiers, load from them or close them. One thread calls it, the one that calls the pool;
    wait may be another's.
    """

    def __init__(self, pool: PagePool, planes: object | None = None, tiers: Sequence = (), *, groups: Sequence = (), load_deadline_ms: int = 1000, store_deadline_ms: int = 60000, min_load_pages: int = 1, load_order: str = 'extents', spare_pages: int = 0, close_wait_ms: int = 5000) -> None:
        """
        pool: with prefix_reuse, name and max_io_pins: pages that transfers hold at once.

        planes: a KVCache, or a sequence of Pages, one a layer: where the pool's pages are. tiers: the
        fastest first, each a Tier, which is written back to, or what tiers.below gives. groups: of a pool
        with groups, instead of planes, in its order: {"planes": Pages of layers, or "states": arrays with
        pages along the first axis, "layers": their numbers in the model, "hit_interval": tokens} each.
        load_deadline_ms, store_deadline_ms: 0: none. min_load_pages: fewer are computed. load_order:
        "pages" or "extents", layer by layer where the tier can. spare_pages: for "at_eviction".
        close_wait_ms: for tiers that do not answer, when the manager goes without close.
        """

    def admit(self, prompt: object, *, salt: bytes = ..., adapter: int = 0, retention: Sequence = (), decode_retention: object | None = None, spans: Sequence = ()) -> TieredAdmission:
        """
        As PagePool.admit, and looks in tiers for what memory has not.

        While pages are on their way (`loading_tokens`) the sequence has room for them, and commit raises
        Error with code "busy"; load_state says when that is over.
        """

    def prefetch(self, prompt: object, *, salt: bytes = ..., adapter: int = 0, retention: Sequence = (), decode_retention: object | None = None, spans: Sequence = ()) -> int:
        """
        A hint that such a prompt will come: what only tiers have is loaded, so that admit finds it. Returns the tokens on their way.
        """

    def resume(self, id: SequenceId, tokens: object) -> TieredAdmission:
        """As PagePool.resume, and looks in tiers as admit does."""

    def poll(self) -> None:
        """
        Once a step: commits what has come, ends what is over or late, and hands over stores that wait. Waits for nothing.
        """

    def wait(self, timeout_ms: int = -1) -> bool:
        """
        Until a tier has something for poll, so long at most; negative: without end.

        False: the time is over, or nothing is under way. Deadlines are looked at by poll. Other threads run
        meanwhile.
        """

    def load_state(self, id: SequenceId) -> str:
        """
        "none", "loading", "loaded" or "cut_short": the sequence's length is what there is; the rest is to be computed.
        """

    def layers_ready(self, id: SequenceId) -> int:
        """
        Leading layers that are in memory for all tokens of the load: advice, void where it is cut short.
        """

    def cancel_load(self, id: SequenceId) -> None:
        """The engine computes what has not come yet."""

    def commit(self, id: SequenceId, tokens: object, *, merge: bool = False) -> None:
        """As PagePool.commit, and pages are stored as policies say."""

    def preempt(self, id: SequenceId) -> None:
        """As PagePool.preempt, likewise."""

    def release(self, id: SequenceId) -> None:
        """As PagePool.release, likewise."""

    def give_up_stores(self) -> int:
        """
        For an engine that is short of pages: those that wait to be stored are not. Returns how many.
        """

    def figures(self) -> dict:
        """
        Counts of pages, of all tiers; `loads` and `stores` are calls of tiers under way and stores that wait.
        """

    def counters(self, tier: int) -> dict:
        """Of the tier with this index."""

    def close(self, timeout_ms: int = 30000) -> None:
        """
        Waits for what is under way, so long at most, cancels the rest and gives tiers back.

        Every later call raises Error. The pool stays as it is.
        """

    def __enter__(self) -> CacheManager: ...

    def __exit__(self, *args: object) -> None: ...

    @property
    def pool(self, /) -> PagePool: ...

    @property
    def tiers(self, /) -> list[Tier]:
        """In their order; none once it is closed."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class HandoverEnd:
    """How a handover ended, for its sender."""

    @property
    def id(self) -> int: ...

    @property
    def outcome(self) -> str:
        """
        "done", "refused", "busy" (it may be taken later), "cancelled", "late", "lost" or "failed".
        """

    @property
    def reason(self) -> str:
        """"" when done."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class HandoverSender:
    """
    Hands sequences to a HandoverReceiver of another process.

    begin before prefill, push of each layer of each chunk, finish; poll, and take_ends. One thread
    calls, the one that calls the pool; wait may be another's.
    """

    def __init__(self, transport: Transport, pool: PagePool, planes: object | None = None, *, groups: Sequence = (), regions: Sequence = (), model: bytes = ..., first_head: int = 0, total_heads: int = 0, idle_ms: int = 10000, max_handovers: int = 1024, max_posts: int = 64, post_bytes: int = 1048576) -> None:
        """
        transport: all its messages are the end's. pool: with max_io_pins.

        planes: a KVCache, or a sequence of Pages, one a layer, which are equal but for their places; or
        groups, of all the pool's: as of CacheManager, with "first_head" and "total_heads", and of states
        "state_parts", bytes of a head of each part, instead of "hit_interval"; behind them those whose
        layers lie in the pages of another group, its number in "on_pages_of". regions: KVCaches, or
        contiguous arrays, in which the planes lie: registered with the transport now, so before its address
        is told. model: at most 32 bytes that stand for the model, equal on both ends. first_head: the first
        KV head of the planes, of total_heads; 0: all are here. idle_ms: a handover of which nothing is
        heard for so long ends. Pages are named as the pool names them.
        """

    def poll(self, now_ms: int | None = None) -> None:
        """
        Several times within idle_ms. now_ms: of a clock that does not go back; None: the system's.
        """

    def wait(self, timeout_ms: int = -1) -> bool:
        """
        Until something may have come for poll, so long at most; negative: without end. Returns whether. Other threads run meanwhile.
        """

    def begin(self, peer: int, request: int, sequence: SequenceId, prompt: object, *, salt: bytes = ..., adapter: int = 0, spans: Sequence = ()) -> int:
        """
        Announces to a peer the sequence that is to have the tokens `prompt`: its number.

        peer: of transport.connect. request: stands for it at the receiver. Tokens that the sequence has
        already are complete in all layers. Keep it until the handover has ended.
        """

    def push(self, id: int, layer: int, first_token: int, count: int) -> None:
        """
        K and V of these tokens are in the cache's layer: they go when their page is full, or the prompt's last.
        """

    def push_layer(self, id: int, layer: int) -> None:
        """All tokens that the layer has not had."""

    def finish(self, id: int, output: object = ()) -> None:
        """
        All layers are complete. output: tokens behind the prompt that the receiver goes on with.
        """

    def cancel(self, id: int) -> None: ...

    def take_ends(self) -> list[HandoverEnd]:
        """Handovers that have ended since the last call."""

    def figures(self) -> dict:
        """Counts since the sender was made, and what is there now."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class ReceivedSequence:
    """A sequence that has come: the pool has committed its tokens."""

    @property
    def request(self) -> int: ...

    @property
    def id(self) -> SequenceId: ...

    @property
    def tokens(self) -> list[int]: ...

    @property
    def output(self) -> list[int]:
        """As its sender finished it."""

    @property
    def cached_tokens(self) -> int:
        """Of `tokens`: did not have to come."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class ArrivingSequence:
    """A sequence that is coming: it has room in the pool, to be read alone."""

    @property
    def request(self) -> int: ...

    @property
    def id(self) -> SequenceId: ...

    @property
    def tokens(self) -> list[int]: ...

    @property
    def cached_tokens(self) -> int: ...

    @property
    def layers_ready(self) -> int:
        """
        Leading layers that are there, of all tokens: advice, void where the handover fails.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

class HandoverReceiver:
    """
    Gets sequences from HandoverSenders of other processes.

    poll, then take; arriving, to begin with the first layers while others come. One thread calls, the
    one that calls the pool; wait may be another's. Gone before the transport is, it leaves pages to
    which a peer may still write: end what is under way by cancel and poll.
    """

    def __init__(self, transport: Transport, pool: PagePool, planes: object | None = None, *, groups: Sequence = (), regions: Sequence = (), model: bytes = ..., first_head: int = 0, total_heads: int = 0, idle_ms: int = 10000, landing: str = 'direct', staging_slots: int = 64, staging_slot_bytes: int = 0, max_handovers: int = 256, max_tokens: int = 1048576, total_ms: int = 600000) -> None:
        """
        As HandoverSender. landing: "direct": into pages, where bytes need no conversion;
        "staged": into slots of its own, of which there are staging_slots. staging_slot_bytes: 0: as the
        planes need. max_tokens: of a prompt. total_ms: from an announcement to its end.
        """

    def poll(self, now_ms: int | None = None) -> None:
        """
        Several times within idle_ms. now_ms: of a clock that does not go back; None: the system's.
        """

    def wait(self, timeout_ms: int = -1) -> bool:
        """
        Until something may have come for poll, so long at most; negative: without end. Returns whether. Other threads run meanwhile.
        """

    def take(self) -> list[ReceivedSequence]:
        """
        Sequences that have come since the last call: they are the caller's from now on.
        """

    def arriving(self) -> list[ArrivingSequence]:
        """What is on its way, in the order of requests."""

    def cancel(self, request: int) -> None:
        """Ends all handovers of a request."""

    def figures(self) -> dict:
        """Counts since the receiver was made, and what is there now."""

    def last_fault(self) -> str:
        """Why a peer or a handover was refused or failed, the latest; "": none."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class PoolObserver:
    """
    For on_event of one PagePool, which calls it without Python; keeps its publisher.
    """

    def __call__(self, event: PoolEvent, tokens: Sequence[int]) -> None:
        """For an on_event of Python's that does more."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class TierObserver:
    """For on_change of one Tier; keeps its publisher."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class EventPublisher:
    """
    Tells routers what a pool and its tiers have, as vLLM tells them.

    Over ZeroMQ, by a thread of its own; lives as long as anything that has a function of it. Any thread
    may call anything.
    """

    def __init__(self, endpoint: str = 'tcp://*:5557', *, attach: str = 'automatic', replay_endpoint: str = '', topic: bytes = ..., high_water_mark: int = 100000, replay_batches: int = 10000, replay_bytes: int = 268435456, max_queued_events: int = 65536, interval_ms: int = 10, data_parallel_rank: int = 0, format: str = 'maps', names: str = 'last_64_bits') -> None:
        """
        endpoint: tcp:// or ipc://; port *: a free one. attach: "bind", "connect" or
        "automatic": binds what has *, :: or 0.0.0.0, or begins with ipc://. replay_endpoint: who has missed
        batches asks there; "": nobody can. topic: the first frame of each message. high_water_mark: batches
        that wait for one subscriber. replay_batches, replay_bytes: that are kept. max_queued_events: that
        wait for the thread, which looks every interval_ms. format: "maps" (vLLM 0.24 and later) or
        "arrays". names: "last_64_bits" or "bytes". Raises Unsupported where ZeroMQ is missing.
        """

    def add_pool(self, medium: str = 'GPU', groups: Sequence = ()) -> PoolObserver:
        """
        For on_event of one PagePool, which has `name`. groups: those of the pool.
        """

    def add_tier(self, medium: str) -> TierObserver:
        """For on_change of one Tier. Routers know "CPU" and "STORAGE"."""

    def tell_again(self, place: object, medium: str) -> None:
        """
        What a PagePool or a Tier has, since events of it were dropped; of a pool from its thread.
        """

    def name_adapter(self, adapter: int, lora_name: str) -> None:
        """What events say of an adapter's pages from now on; "": nothing."""

    def flush(self) -> None:
        """The thread looks now: for the end of a step."""

    @property
    def endpoint(self) -> str:
        """As bound, with the port that was free."""

    @property
    def replay_endpoint(self) -> str: ...

    def figures(self) -> dict:
        """Counts since the publisher was made."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class EventIndex:
    """
    What an engine has, as its events tell it: names, and where they are. Any thread may call anything.
    """

    def __init__(self, *, max_names: int = 4194304, max_media: int = 16, block_size: int = 0, counts_copies: bool = True, groups: Sequence = ()) -> None:
        """
        max_names, max_media: what is told beyond is not taken.

        block_size: tokens of a name; 0: those of the smallest block told of. counts_copies: False for
        engines that tell again of what they have. groups: rules that events do not tell: {"group": 0,
        "rule": "full", "window", "chunked" or "state", "window", "chunk", "block_size"} each.
        """

    def apply(self, payload: bytes) -> None:
        """A batch's payload, as vLLM, SGLang and EventPublisher encode it."""

    def clear(self) -> None: ...

    def find(self, names: Sequence[bytes | int], medium: str | None = None) -> int:
        """
        How many of these, names of a prompt from its first block on, need no computing.

        An integer is a name of an engine that tells the last 64 bits alone. medium: there; None: anywhere.
        Give no name of the block that has the prompt's last token.
        """

    @property
    def media(self) -> list[str]:
        """In the order in which they were told of."""

    def groups(self) -> list[dict[str, object]]:
        """As events tell of them; rule None: not told."""

    def names(self) -> list[dict[str, object]]:
        """{"name", "parent", "group", "media"} of each."""

    def figures(self) -> dict:
        """Counts of batches, events, names, and copies that came and that went."""

    def __reduce_ex__(self, protocol: object) -> object: ...

class EventSubscriber:
    """
    An index that follows an engine's events over ZeroMQ. Any thread may call anything.
    """

    def __init__(self, endpoint: str = 'tcp://127.0.0.1:5557', *, replay_endpoint: str = '', topic: bytes = ..., high_water_mark: int = 100000, max_message_bytes: int = 268435456, max_held_batches: int = 10000, request_timeout_ms: int = 1000, idle_check_ms: int = 1000, max_names: int = 4194304, max_media: int = 16, block_size: int = 0, counts_copies: bool = True, groups: Sequence = ()) -> None:
        """
        endpoint: of a publisher, vLLM's, SGLang's or folio's. replay_endpoint: "": what is
        missed is lost. topic: what topics begin with. high_water_mark: batches that wait to be polled.
        max_message_bytes: who sends a longer one is dropped. max_held_batches: while others are asked for,
        each within request_timeout_ms. idle_check_ms: without a batch, until the replay endpoint is asked;
        0: never. The others: as EventIndex. Raises Unsupported where ZeroMQ is missing.
        """

    def poll(self, timeout_ms: int = 0) -> bool:
        """
        Takes what has come, at most high_water_mark batches, and waits so long at most for the first of it; negative: without end. Returns whether anything came. Other threads run meanwhile.
        """

    @property
    def is_connected(self) -> bool:
        """
        A publisher is there, as of the last poll, whether it has batches or not.
        """

    @property
    def is_current(self) -> bool:
        """
        No request is under way, so that the index is what the last batch says.
        """

    @property
    def next_batch(self) -> int:
        """The number that is expected; 0 before the first one."""

    @property
    def index(self) -> EventIndex:
        """The EventIndex that poll changes, and nobody else."""

    def figures(self) -> dict:
        """
        Counts since the subscriber was made. "lost_batches": nobody had them any more; "earlier_batches": before the first one of this publisher, and in no snapshot.
        """

    def __reduce_ex__(self, protocol: object) -> object: ...

class LMCacheConnector:
    """
    A tier as a native client of LMCache (IStorageConnector).

    Calls begin and return an id; `event_fd` is readable while `drain_completions` has something. Memory
    of a batch is held until it has ended. Any thread may call anything.
    """

    def __init__(self, tier: object, name_of: Callable, load_timeout_ms: int = 0) -> None:
        """
        tier: becomes the connector's. name_of: gives the name, 1 to 32 bytes, of a key.

        load_timeout_ms: loads that take longer end as "late"; 0: none.
        """

    def event_fd(self) -> int: ...

    def submit_batch_get(self, keys: Sequence, memoryviews: Sequence) -> int:
        """Begins to load; its result is one per key."""

    def submit_batch_set(self, keys: Sequence, memoryviews: Sequence) -> int:
        """Begins to store; done when all of it is."""

    def submit_batch_exists(self, keys: Sequence) -> int:
        """Begins to ask which are there."""

    def submit_batch_delete(self, keys: Sequence) -> int:
        """Begins to drop; its result is which were there."""

    def drain_completions(self) -> list[tuple[int, bool, str, list[bool] | None]]:
        """
        (id, whether all of the batch is done, why not, results or None) of what has ended.
        """

    def close(self) -> None:
        """Cancels what has not begun, waits for the rest, and ends the tier."""

    def __reduce_ex__(self, protocol: object) -> object: ...
