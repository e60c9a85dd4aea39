# SPDX-License-Identifier: Apache-2.0
"""tests/cli/hybrid_oracle.py: what the groups of a model use, one request after the other, in a memory that evicts nothing.

A second account of the rules: the pages of a step are those that its queries see and those of its new tokens.
"""

PAGE = 16
CHECKPOINT = 512

# (rule, tokens, layers, bytes of a page): keys and values of 16 tokens in bf16; states in 16 bits.
MODELS = {
    "gemma-3-27b": [("full", 0, 10, 10 * 2 * 16 * 128 * 2 * PAGE), ("window", 1024, 52, 52 * 2 * 16 * 128 * 2 * PAGE)],
    "gemma-3-12b": [("full", 0, 8, 8 * 2 * 8 * 256 * 2 * PAGE), ("window", 1024, 40, 40 * 2 * 8 * 256 * 2 * PAGE)],
    "gpt-oss-120b": [("full", 0, 18, 18 * 2 * 8 * 64 * 2 * PAGE), ("window", 128, 18, 18 * 2 * 8 * 64 * 2 * PAGE)],
    "gpt-oss-20b": [("full", 0, 12, 12 * 2 * 8 * 64 * 2 * PAGE), ("window", 128, 12, 12 * 2 * 8 * 64 * 2 * PAGE)],
    "llama-4-scout": [("full", 0, 12, 12 * 2 * 8 * 128 * 2 * PAGE), ("chunked", 8192, 36, 36 * 2 * 8 * 128 * 2 * PAGE)],
    # 8,192 channels with 16 elements of state and 3 earlier inputs each
    "jamba-1.5-mini": [("full", 0, 4, 4 * 2 * 8 * 128 * 2 * PAGE), ("state", CHECKPOINT, 28, 28 * 8192 * (16 + 3) * 2)],
    # as above with 16,384 channels; slabs of a common multiple would be too large, so the pool rounds both sizes up
    "jamba-1.5-large": [("full", 0, 9, 9 * 2 * 8 * 128 * 2 * PAGE), ("state", CHECKPOINT, 63, 63 * 16384 * (16 + 3) * 2)],
}


def page_tokens(rule):
    return CHECKPOINT if rule == "state" else PAGE


def first_page(rule, tokens, done):
    """The first page that is still needed when `done` tokens are in the cache."""
    first = {"full": 0, "window": done - tokens + 1, "chunked": done // max(tokens, 1) * tokens, "state": done - 1}[rule]
    return max(first, 0) // page_tokens(rule)


def chunks(done, prompt, step_tokens, has_states):
    """Tokens of the steps of a prompt. States can be kept at multiples of CHECKPOINT, and at the prompt's last whole page."""
    while done < prompt:
        end = min(done + step_tokens, prompt)
        if has_states:
            if (done // CHECKPOINT + 1) * CHECKPOINT <= end:
                end = end // CHECKPOINT * CHECKPOINT if done % CHECKPOINT == 0 else (done // CHECKPOINT + 1) * CHECKPOINT
            elif end == prompt and end // PAGE * PAGE > done:
                end = end // PAGE * PAGE
        yield end - done
        done = end


def replay(requests, groups, step_tokens):
    """Counts of a sequential replay. A model with states: only of requests that share nothing."""
    has_states = any(rule == "state" for rule, *_ in groups)
    steps, seen, hits, given_back = [], set(), 0, [0] * len(groups)
    for number, request in enumerate(requests):
        ids, prompt = request["hash_ids"], request["input_length"]
        # a page: everything up to its end; outputs are each request's own
        prefix = [tuple(ids[:-(-(p + 1) * PAGE // 512)]) + (p,) for p in range(prompt // PAGE)]
        found = 0
        while (found + 1) * PAGE < prompt and prefix[found] in seen:
            found += 1
        seen.update(prefix)
        done = found * PAGE
        hits += done
        total = prompt + max(request["output_length"], 1) - 1
        started = done
        for new in [*chunks(done, prompt, step_tokens, has_states), *[1] * (total - prompt)]:
            steps.append([-(-(done + new) // page_tokens(rule)) - first_page(rule, tokens, done) for rule, tokens, *_ in groups])
            done += new
        assert done == total, number
        for g, (rule, tokens, *_) in enumerate(groups):
            last = -(-total // page_tokens(rule))
            given_back[g] += min(first_page(rule, tokens, total), last) - first_page(rule, tokens, started)
    return steps, hits, given_back
