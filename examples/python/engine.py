# SPDX-License-Identifier: Apache-2.0
"""python engine.py: an engine around folio_kv: continuous batching with prefix reuse, a random Llama.

Requests arrive while others decode; a step mixes chunks of prefill with decoding; prompts that
begin alike share pages. In the end every request is generated again alone, without a cache, by the
plain formula, and must give the same tokens.
"""

import numpy as np

import folio_kv

LAYERS, WIDTH, Q_HEADS, KV_HEADS, HEAD, VOCABULARY = 4, 256, 8, 2, 32, 512
PAGE, NUM_PAGES, STEP_TOKENS = 16, 96, 40
rng = np.random.default_rng(0)


def matrix(rows, columns):
    return (rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)


class Llama:
    """Random weights; `attention(layer, q, k, v)` and the positions come from outside."""

    def __init__(self):
        self.embedding = rng.standard_normal((VOCABULARY, WIDTH)).astype(np.float32)
        q, kv = Q_HEADS * HEAD, 2 * KV_HEADS * HEAD
        shapes = (WIDTH, q + kv), (q, WIDTH), (WIDTH, 4 * WIDTH), (2 * WIDTH, WIDTH)
        self.layers = [[matrix(*shape) for shape in shapes] for _ in range(LAYERS)]

    def __call__(self, tokens, attention, last_rows):
        hidden = self.embedding[tokens]
        for layer, (qkv, out, up, down) in enumerate(self.layers):
            fused = (norm(hidden) @ qkv).reshape(len(hidden), -1, HEAD)
            q, k, v = np.split(fused, [Q_HEADS, Q_HEADS + KV_HEADS], axis=1)  # slices, not copies
            hidden = hidden + attention(layer, q, k, v).reshape(len(hidden), -1) @ out
            gate, value = np.split(norm(hidden) @ up, 2, axis=1)
            hidden = hidden + (gate / (1 + np.exp(-gate)) * value) @ down
        return (norm(hidden[last_rows]) @ self.embedding.T).argmax(1)


def norm(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


ANGLES = np.arange(1024)[:, None] * 10000.0 ** (-np.arange(HEAD // 2) / (HEAD // 2))
COS_SIN = np.concatenate([np.cos(ANGLES), np.sin(ANGLES)], 1).astype(np.float32)


class Request:
    def __init__(self, prompt, wanted):
        self.tokens, self.prompt, self.wanted = list(prompt), len(prompt), wanted
        self.id, self.found, self.done = None, 0, 0  # done: tokens whose K and V are in the cache


class Engine:
    """The step loop: who is in, how many tokens each, one model call, new tokens."""

    def __init__(self, model):
        self.model, self.running = model, []
        self.pool = folio_kv.PagePool(NUM_PAGES, PAGE)
        self.cache = folio_kv.KVCache(
            LAYERS, NUM_PAGES, PAGE, kv_heads=KV_HEADS, head_size=HEAD, dtype="f32"
        )
        self.kind = folio_kv.Kind(Q_HEADS, reproducible="query")
        self.rope = folio_kv.Rope(COS_SIN)

    def admit(self, request):
        admission = self.pool.admit(request.tokens)
        request.id, request.found = admission.id, admission.cached_tokens
        request.done = request.found  # a prefix hit: computing starts behind it
        self.running.append(request)

    def schedule(self):
        """(request, new tokens) of this step: every request goes on as far as there is room."""
        budget, plan = STEP_TOKENS, []
        for request in self.running:
            count = min(len(request.tokens) - request.done, budget)
            try:
                self.pool.reserve(request.id, count)
            except folio_kv.OutOfPages:
                continue  # waits until others have finished
            if count > 0:
                plan.append((request, count))
                budget -= count
        return plan

    def step(self):
        plan = self.schedule()
        assert plan, "no request can go on: the pool is too small for one of them"
        step = self.pool.step([r.id for r, _ in plan], [n for _, n in plan])

        def attention(layer, q, k, v):
            return step(self.kind, self.cache[layer], q, k, v, rope=self.rope)

        tokens = np.concatenate([r.tokens[r.done : r.done + n] for r, n in plan])
        last_rows = np.cumsum([n for _, n in plan]) - 1
        for (request, count), token in zip(plan, self.model(tokens, attention, last_rows)):
            self.pool.commit(request.id, request.tokens[request.done : request.done + count])
            request.done += count
            if request.done == len(request.tokens):  # not in the middle of its prompt
                request.tokens.append(int(token))
        for request in [r for r in self.running if len(r.tokens) == r.prompt + r.wanted]:
            self.pool.release(request.id)  # its pages stay findable until they are needed
            self.running.remove(request)


def generate_alone(model, prompt, wanted):
    """The same tokens by the formula: no cache, the whole sequence anew for each token."""
    tokens = list(prompt)

    def attention(layer, q, k, v):
        q, k = (rotated(x) for x in (q, k))
        k, v = (x.repeat(Q_HEADS // KV_HEADS, axis=1) for x in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD)
        scores += np.triu(np.full(scores.shape[1:], -np.inf), 1)
        weights = np.exp(scores - scores.max(2, keepdims=True))
        return np.einsum("hqk,khd->qhd", weights / weights.sum(2, keepdims=True), v)

    def rotated(x):
        cos, sin = np.split(COS_SIN[: len(x), None], 2, axis=2)
        a, b = np.split(x, 2, axis=2)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], 2)

    while len(tokens) < len(prompt) + wanted:
        tokens.append(int(model(tokens, attention, [-1])[0]))
    return tokens


def main():
    model = Llama()
    engine = Engine(model)
    system_prompt = rng.integers(0, VOCABULARY, 40).tolist()
    endings = [rng.integers(0, VOCABULARY, n).tolist() for n in (5, 60, 1, 33, 70)]
    requests = [Request(system_prompt + end, 12) for end in endings[:4]] + [Request(endings[4], 20)]
    steps, waiting = 0, list(requests)
    while waiting or engine.running:
        if waiting and steps % 3 == 0:
            engine.admit(waiting.pop(0))
        engine.step()
        steps += 1
    for i, request in enumerate(requests):
        alone = generate_alone(model, request.tokens[: request.prompt], request.wanted)
        assert request.tokens == alone, f"request {i} differs from its generation alone"
        print(f"request {i}: {request.found} of {request.prompt} tokens cached, the rest as alone")
    assert engine.pool.stats()["hit_tokens"] == sum(r.found for r in requests) > 0


if __name__ == "__main__":
    main()
