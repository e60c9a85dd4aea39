# SPDX-License-Identifier: Apache-2.0
"""python -m folio_llama_cpp.server: llama-cpp-python's server, on folio.

Options are those of `python -m llama_cpp.server`; flash attention is on unless told otherwise.
Before them may stand

    --prompt-cache DIR         prompts survive a restart, in a directory of this server alone; or
                               in a server that several share: redis://HOST
    --prompt-cache-bytes SIZE  of it at most, such as 20GiB; 10GiB unless told otherwise
    --cache-dtype DTYPE        keys and values are stored as q4_0, q8_0 ...; f16 unless told otherwise
    --cache-v-dtype DTYPE      values alone
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys

import folio_llama_cpp

# What `enable` calls an option -> the command line.
OPTIONS = {
    "cache": "--prompt-cache",
    "bytes": "--prompt-cache-bytes",
    "dtype": "--cache-dtype",
    "v_dtype": "--cache-v-dtype",
}


def turn_flash_attention_on() -> None:
    """The server names every option of a model when it loads it: the default changes where it is
    declared."""
    from llama_cpp.server import settings

    settings.ModelSettings.model_fields["flash_attn"].default = True
    settings.Settings.model_fields["flash_attn"].default = True
    for model in (settings.ModelSettings, settings.Settings, settings.ConfigFileSettings):
        model.model_rebuild(force=True)


def own_options() -> argparse.Namespace:
    """Takes the options that are folio's from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m folio_llama_cpp.server", add_help=False, allow_abbrev=False
    )
    parser.add_argument("--prompt-cache", "--prompt_cache", metavar="DIR")
    parser.add_argument("--prompt-cache-bytes", "--prompt_cache_bytes", metavar="SIZE")
    parser.add_argument("--cache-dtype", "--cache_dtype", metavar="DTYPE")
    parser.add_argument("--cache-v-dtype", "--cache_v_dtype", metavar="DTYPE")
    options, others = parser.parse_known_args()
    if {"-h", "--help"}.intersection(others):
        print(__doc__.split("\n\n", 1)[1])
    sys.argv[1:] = others
    return options


def end_on_sigterm_as_on_sigint(keeps_prompts: bool) -> None:
    """uvicorn sends itself again what it was ended by. SIGTERM would then end the process on the
    spot, without the device's counters and the last prompts; as an interrupt, Python exits."""
    if keeps_prompts or os.environ.get("FOLIO_GGML_TRACE") == "1":
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def say_what_is_restored() -> None:
    """The log of prompts, on stderr as the server's own."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("folio_llama_cpp: %(message)s"))
    log = logging.getLogger("folio_llama_cpp")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def main() -> None:
    options = own_options()
    end_on_sigterm_as_on_sigint(options.prompt_cache is not None)
    say_what_is_restored()
    try:
        folio_llama_cpp.enable(
            cache=options.prompt_cache,
            bytes=options.prompt_cache_bytes,
            dtype=options.cache_dtype,
            v_dtype=options.cache_v_dtype,
        )
        turn_flash_attention_on()
        from llama_cpp.server.__main__ import main as serve
    except folio_llama_cpp.NotEnabled as reason:
        sys.exit(f"folio_llama_cpp.server: {reason}")
    except folio_llama_cpp.BadCache as reason:
        key, _, words = str(reason).partition(": ")
        sys.exit(f"folio_llama_cpp.server: {OPTIONS[key]}: {words}")
    except ModuleNotFoundError as error:
        sys.exit(
            f"folio_llama_cpp.server: {error.name} is not installed: pip install 'folio-llama-cpp[server]'"
        )
    serve()


if __name__ == "__main__":
    main()
