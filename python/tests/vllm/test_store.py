# SPDX-License-Identifier: Apache-2.0
"""FolioConnector in stock engines: what a first process has stored a second one finds, and greedy
tokens in float32 are those of an engine without a store.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis_process import NO_PROGRAM, RedisProcess
from vllm_engine import Engine
from vllm_store import Run, cached_of, tokens_of

pytest.importorskip("vllm")

DISK = "64MiB"
ROUNDS = ["ask", "settle", "reset", "ask", "turns", "settle", "reset", "turns"]
WHOLE_BLOCKS = [128, 160, 320, 128, 128]
"""Of the prompts of `ask`, in blocks of 32 tokens: what a prompt finds that was asked before."""


def disk(folder: Path, **more: Any) -> dict[str, Any]:
    """The extra configuration of a directory."""
    return {"disk": str(folder), "disk_bytes": DISK, **more}


def case(
    name: str, model: str, extra: dict[str, Any] | None, role: str = "kv_both", **more: Any
) -> dict[str, Any]:
    """A case of the worker's; without `extra` one without a store."""
    transfer = {
        "kv_connector": "FolioConnector",
        "kv_connector_module_path": "folio_kv.vllm.connector",
        "kv_role": role,
        "kv_connector_extra_config": extra,
    }
    transfer = None if extra is None else transfer
    return {"name": name, "model": model, "transfer": transfer, "rounds": ROUNDS, **more}


def expect_found(rounds: list[Any]) -> None:
    """All that was stored before is found: of the first round, too."""
    first, again, turns, turns_again, *_ = cached_of(rounds)
    assert first == again == WHOLE_BLOCKS
    assert turns == turns_again
    assert all(later > earlier for earlier, later in zip(turns, turns[1:]))


MODELS = ["llama", "gemma3"]
MORE_MODELS = ["qwen3", "mistral", "gemma2", "gpt_oss"]


def stock(model: str) -> dict[str, Any]:
    """Without a store there is nothing to settle."""
    return case(f"{model} stock", model, None, rounds=[said for said in ROUNDS if said != "settle"])


def damage(folder: Path) -> None:
    """A bit here and there."""
    damaged = 0
    for path in folder.rglob("*"):
        data = bytearray(path.read_bytes()) if path.is_file() else bytearray()
        for at in range(20_000, len(data), 100_000):
            data[at] ^= 0x40
            damaged += 1
        if data:
            path.write_bytes(data)
    assert damaged > 3


@dataclass
class Restarts:
    """What the cases of a process said, stock ones among them, and those of a second process."""

    first: dict[str, Any]
    second: dict[str, Any]

    def stock(self, model: str) -> list[list[list[int]]]:
        """The tokens of each round."""
        return tokens_of(self.first[f"{model} stock"])

    def expect(self, model: str, name: str = "") -> None:
        """Equal tokens; memory's part before the restart, the store's after it."""
        before, after = self.first[name or model], self.second[name or model]
        assert tokens_of(before) == tokens_of(after)[:4] == self.stock(model)
        first, again, *_ = cached_of(before)
        assert first[0] == 0 and again == WHOLE_BLOCKS
        assert cached_of(self.first[f"{model} stock"])[1][0] == 0
        expect_found(after)


@pytest.fixture(scope="module")
def restarts(engine: Engine) -> Iterator[Restarts]:
    """All quick cases in two processes, on vLLM's own attention."""
    folder = engine.folder / "store"
    folder.mkdir()
    kept = [
        case("llama", "llama", disk(folder / "llama")),
        case("gemma3", "gemma3", disk(folder / "gemma3", host_bytes="64MiB")),
    ]
    first, second = [*map(stock, MODELS), *kept], kept[:]
    server = RedisProcess(folder) if RedisProcess.program else None
    if server is not None and server.process is not None:
        shared = case("redis", "llama", {"redis": server.url, "find_wait_ms": 2000})
        killed = [f"kill {server.process.pid}", *["settle", "reset", "ask"] * 6]
        first.append(shared)
        second.append({**shared, "rounds": [*ROUNDS, *killed]})
    said = Run(engine, "store-1", first).results()
    shutil.copytree(folder / "llama", folder / "damaged")
    damage(folder / "damaged")
    second += [
        case("damaged", "llama", disk(folder / "damaged"), rounds=[*ROUNDS, f"lost {folder}/lost"]),
        case("another's", "gemma3", disk(folder / "llama"), rounds=["ask"]),
    ]
    yield Restarts(said, Run(engine, "store-2", second).results())
    if server is not None:
        server.kill()


@pytest.mark.quick
@pytest.mark.parametrize("model", MODELS)
def test_a_restarted_engine_finds_its_prompts(restarts: Restarts, model: str) -> None:
    restarts.expect(model)


@pytest.mark.quick
def test_engines_share_prompts_by_redis_until_it_is_killed(restarts: Restarts) -> None:
    if "redis" not in restarts.first:
        pytest.skip(NO_PROGRAM)
    restarts.expect("llama", "redis")
    asked, *_ = restarts.stock("llama")
    assert tokens_of(restarts.second["redis"])[4:] == [asked] * 6


@pytest.mark.quick
def test_pages_of_a_damaged_directory_are_computed(engine: Engine, restarts: Restarts) -> None:
    assert tokens_of(restarts.second["damaged"]) == restarts.stock("llama")
    assert int((engine.folder / "store/lost").read_text()) > 0


@pytest.mark.quick
def test_another_models_directory_is_no_hit(restarts: Restarts) -> None:
    (found,) = restarts.second["another's"]
    assert [tokens for tokens, _ in found] == restarts.stock("gemma3")[0]
    assert found[0][1] == 0


@pytest.mark.full
@pytest.mark.parametrize("folio", [False, True], ids=["stock", "folio"])
def test_other_models_too(engine: Engine, tmp_path: Path, folio: bool) -> None:
    models = [*MODELS, *MORE_MODELS] if folio else MORE_MODELS
    kept = [case(model, model, disk(tmp_path / model)) for model in models]
    first = Run(engine, f"store-{folio}-1", [*map(stock, models), *kept], folio).results()
    runs = Restarts(first, Run(engine, f"store-{folio}-2", kept, folio).results())
    for model in models:
        runs.expect(model)


@pytest.mark.full
@pytest.mark.parametrize(
    ("model", "cache_dtype"), [("llama", "int4_per_token_head"), ("gemma3", "nvfp4")]
)
def test_blocks_with_scales_beside_rows_too(
    engine: Engine, tmp_path: Path, model: str, cache_dtype: str
) -> None:
    options = {"kv_cache_dtype": cache_dtype}
    kept = case(model, model, disk(tmp_path), options=options)
    alone = {**stock(model), "options": options}  # without a store, on folio's attention
    first = Run(engine, f"store-{cache_dtype}-1", [alone, kept], folio=True).results()
    second = Run(engine, f"store-{cache_dtype}-2", [kept], folio=True).results()
    Restarts(first, second).expect(model)


@pytest.mark.full
def test_loads_layer_by_layer_are_the_same(
    engine: Engine, restarts: Restarts, tmp_path: Path
) -> None:
    options = {"async_scheduling": False}
    extra = disk(tmp_path, load="layers")
    said = [case(str(i), "llama", extra, options=options) for i in range(2)]
    results = Run(engine, "store-layers", said).results()
    assert tokens_of(results["0"]) == tokens_of(results["1"]) == restarts.stock("llama")
    expect_found(results["1"])


@pytest.mark.full
@pytest.mark.parametrize("load", ["layers", "between_steps"])
@pytest.mark.parametrize("model", MODELS)
def test_damaged_pages_are_computed(
    engine: Engine, restarts: Restarts, tmp_path: Path, model: str, load: str
) -> None:
    if load == "layers" and model == "gemma3":
        pytest.skip("of several groups loads are between steps")
    options = {"async_scheduling": False}
    extra = disk(tmp_path, load=load)
    Run(engine, f"store-damaged-{load}-{model}-1", [case("a", model, extra)]).results()
    damage(tmp_path)
    lost = engine.folder / f"lost-{load}-{model}"
    again = case("a", model, extra, options=options, rounds=[*ROUNDS, f"lost {lost}"])
    run = Run(engine, f"store-damaged-{load}-{model}-2", [again])
    assert tokens_of(run.results()["a"]) == restarts.stock(model)
    assert int(lost.read_text()) > 0
    assert "Recovered from KV load failure" in run.log.read_text() or model == "gemma3"


@pytest.mark.full
def test_a_full_directory_drops_and_goes_on(
    engine: Engine, restarts: Restarts, tmp_path: Path
) -> None:
    extra = disk(tmp_path, disk_bytes="2MiB")
    results = Run(engine, "store-full", [case(str(i), "llama", extra) for i in range(2)]).results()
    assert tokens_of(results["0"]) == tokens_of(results["1"]) == restarts.stock("llama")
    assert sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) <= 2 << 20


@pytest.mark.full
def test_an_engine_killed_while_it_stores(
    engine: Engine, restarts: Restarts, tmp_path: Path
) -> None:
    extra, begun = disk(tmp_path / "disk"), tmp_path / "begun"
    rounds = ["ask", f"touch {begun}", *["turns", "reset", "ask", "reset"] * 50]
    run = Run(engine, "store-killed-1", [case("a", "llama", extra, rounds=rounds)])
    run.wait_for(begun)
    time.sleep(0.05)
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    results = Run(engine, "store-killed-2", [case("a", "llama", extra)]).results()
    assert tokens_of(results["a"]) == restarts.stock("llama")


@pytest.mark.full
def test_two_engines_have_not_one_directory(engine: Engine, tmp_path: Path) -> None:
    there, end = tmp_path / "there", tmp_path / "end"
    extra = disk(tmp_path / "disk")
    rounds = [f"touch {there}", f"wait {end}"]
    first = Run(engine, "store-two-1", [case("a", "llama", extra, rounds=rounds)])
    first.wait_for(there)
    second = Run(engine, "store-two-2", [case("a", "llama", extra, rounds=["ask"])]).said()
    end.touch()
    assert first.results()["a"] == [None, None]
    last = second["a"]["error"].strip().splitlines()[-1]
    assert "disk:" in last and str(tmp_path / "disk") in last, last


@pytest.mark.full
def test_a_hybrid_models_engines_share_prompts_by_redis(
    engine: Engine, restarts: Restarts, tmp_path: Path
) -> None:
    server = RedisProcess(tmp_path)
    said = [case("gemma3", "gemma3", {"redis": server.url, "find_wait_ms": 2000})]
    first, second = (Run(engine, f"store-redis-{i}", said).results() for i in range(2))
    server.kill()
    Restarts({**restarts.first, **first}, second).expect("gemma3")


@pytest.mark.full
def test_a_decoder_finds_what_a_prefiller_lends(
    engine: Engine, restarts: Restarts, tmp_path: Path
) -> None:
    address, lent, end = tmp_path / "address", tmp_path / "lent", tmp_path / "end"
    lends = {"serve": str(address), "serve_bytes": "64MiB"}
    first = [
        case(
            m,
            m,
            lends,
            role="kv_producer",
            sampling={"max_tokens": 1},
            rounds=["ask", f"touch {lent}.{m}", f"wait {end}.{m}"],
        )
        for m in MODELS
    ]
    producer = Run(engine, "store-producer", first)
    for model in MODELS:
        producer.wait_for(Path(f"{lent}.{model}"))
        takes = case(model, model, {"peer": str(address)}, role="kv_consumer", rounds=["ask"])
        results = Run(engine, f"store-consumer-{model}", [takes]).results()
        Path(f"{end}.{model}").touch()
        assert tokens_of(results[model])[0] == restarts.stock(model)[0]
        assert cached_of(results[model])[0] == WHOLE_BLOCKS
    producer.results()
