# SPDX-License-Identifier: Apache-2.0
"""python -m folio_llama_cpp.server: llama-cpp-python's server, on folio.

Options are those of `python -m llama_cpp.server`; flash attention is on unless told otherwise.
"""

from __future__ import annotations

import os
import signal
import sys

import folio_llama_cpp


def turn_flash_attention_on() -> None:
    """The server names every option of a model when it loads it: the default changes where it is
    declared."""
    from llama_cpp.server import settings

    settings.ModelSettings.model_fields["flash_attn"].default = True
    settings.Settings.model_fields["flash_attn"].default = True
    for model in (settings.ModelSettings, settings.Settings, settings.ConfigFileSettings):
        model.model_rebuild(force=True)


def end_on_sigterm_as_on_sigint() -> None:
    """uvicorn sends itself again what it was ended by. SIGTERM would then end the process on the
    spot, without the device's counters; as an interrupt, Python exits."""
    if os.environ.get("FOLIO_GGML_TRACE") == "1":
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def main() -> None:
    end_on_sigterm_as_on_sigint()
    try:
        folio_llama_cpp.enable()
        turn_flash_attention_on()
        from llama_cpp.server.__main__ import main as serve
    except folio_llama_cpp.NotEnabled as reason:
        sys.exit(f"folio_llama_cpp.server: {reason}")
    except ModuleNotFoundError as error:
        sys.exit(
            f"folio_llama_cpp.server: {error.name} is not installed: pip install 'folio-llama-cpp[server]'"
        )
    serve()


if __name__ == "__main__":
    main()
