# SPDX-License-Identifier: Apache-2.0
# The commands of the README. Each sees to its own needs: packages, configuration, build. Everything else is CMake's presets.
.PHONY: demo test test-rest test-wheel test-all cuda cuda-all python llama-cpp test-engines test-engines-full vllm bench bench-peers format coverage docs clean

BUILD := build/release
TOOL := build/demo/cli/folio
VENV := build/python/venv
TRACE := examples/data/conversation_1000.jsonl

demo:
	tools/install_dependencies.sh
	cmake --preset demo
	cmake --build --preset demo
	@echo "== 20 requests with attention on the CPU, recomputed in double from the token history"
	$(TOOL) replay $(TRACE) --limit 20 --layers 1 --q-heads 8 --kv-heads 2 --head-size 64 --verify
	@echo "== 1000 requests through the page pool alone, one trace block per page"
	$(TOOL) replay $(TRACE) --sequential --page-per-block --compute none
	@echo "== the eviction policies in 3000 pages beside the offline optimum, as a page to look at: build/report.html"
	$(TOOL) replay $(TRACE) --sequential --page-per-block --compute none --pages 3000 --policy all --report build/report.html
	@echo "== what memory would find: hit rate by size"
	$(TOOL) plan-capacity $(TRACE) --report build/capacity.html

# Enough to trust this build of the library: FOLIO_FIRST_TESTS in tests/CMakeLists.txt, some minutes.
test: configure
	cmake --build --preset release --target first_tests
	ctest --preset first --parallel "$$(nproc)"
	@tools/show_skipped.sh $(BUILD)

# All other tests, all programs.
test-rest: configure
	cmake --build --preset release
	tools/nixl.sh
	ctest --preset rest --parallel "$$(($$(nproc) + 1))"
	@tools/show_skipped.sh $(BUILD)

# The wheel, and what it does with numpy alone.
test-wheel:
	tools/install_dependencies.sh
	tools/engines.py test numpy

test-all: test test-rest test-wheel

# Two instances of each CUDA kernel for every architecture, without a spill and without local memory; skipped where there is no nvcc.
# For some architectures: make cuda CUDA_SAMPLES="cuda_samples_80 cuda_samples_90a"
CUDA_SAMPLES ?= cuda_samples
cuda: configure
	cmake --build --preset release --target $(CUDA_SAMPLES)

# Every CUDA kernel, and the library and its tools with them inside: build/cuda. For one architecture alone:
# make cuda-all CUDA_OPTIONS=-DFOLIO_CUDA_ARCHITECTURES=90a
cuda-all:
	tools/install_dependencies.sh
	cmake --preset cuda $(CUDA_OPTIONS)
	cmake --build --preset cuda --target cuda_kernels
	cmake --build --preset cuda

# As a user of Python has it: a virtual environment, pip, an example.
python:
	tools/install_dependencies.sh python
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install './python[test]'
	$(VENV)/bin/python examples/python/quickstart.py
	$(VENV)/bin/pytest -c python/pyproject.toml python/tests/numpy

test-engines:
	tools/install_dependencies.sh
	tools/engines.py test llama_cpp transformers vllm sglang lmcache -- --architectures=third --engines=quick

test-engines-full:
	tools/install_dependencies.sh
	tools/engines.py test llama_cpp transformers transformers_newest vllm sglang lmcache -- --architectures=all --engines=full

# llama.cpp with its attention on folio: a virtual environment of llama-cpp-python, its server and the wheel folio-llama-cpp, with
# libggml-folio.so inside.
llama-cpp:
	tools/install_dependencies.sh python
	@python="$$(tools/llama_cpp.py install)" && "$$python" -m folio_llama_cpp && printf '%s\n' "" \
	  "To serve a model on folio:" \
	  "  $$python -m folio_llama_cpp.server --model MODEL.gguf --interrupt_requests false" \
	  "and to find its prompts again when it is started anew, with the folder PROMPTS:" \
	  "  $$python -m folio_llama_cpp.server --prompt-cache PROMPTS \\" \
	  "    --model MODEL.gguf --interrupt_requests false" \
	  "To give it to llama.cpp's own programs:" \
	  "  export GGML_BACKEND_PATH=$$("$$python" -m folio_llama_cpp --library)"

# vLLM for CPUs with folio: a virtual environment of its packages and folio-kv.
vllm:
	tools/install_dependencies.sh python
	@python="$$(tools/engines.py install vllm)" && printf '%s\n' "" \
	  "To serve a model whose prompts survive a restart, in the folder PROMPTS:" \
	  "  VLLM_ENABLE_V1_MULTIPROCESSING=0 \\" \
	  "    $$python -m vllm.entrypoints.openai.api_server --model MODEL \\" \
	  "    --kv-transfer-config '{\"kv_connector\": \"FolioConnector\", \"kv_role\": \"kv_both\"," \
	  "      \"kv_connector_module_path\": \"folio_kv.vllm.connector\"," \
	  "      \"kv_connector_extra_config\": {\"disk\": \"PROMPTS\", \"disk_bytes\": \"100GiB\"}}'"

# Every broken kernel, each built and run in the emulator; what found it goes into the document.
cuda-mutants: configure
	cmake --build --preset release --target folio_test_support folio_reference
	python3 tests/cuda/mutants.py . --build $(BUILD) --jobs "$$(nproc)" --results build/mutants.json --write docs/generated/cuda_mutants.md

bench: configure
	cmake --build --preset release --target benches
	tools/run_benchmarks.sh $(BUILD)

# folio beside torch, vLLM, SGLang, OpenVINO and llama.cpp, in turn: PEERS="--shapes decode --threads 1", bench/peers/run.py says more.
bench-peers: configure
	cmake --build --preset release --target roof_worker
	bench/peers/run.py $(PEERS)

# The documents, headers and examples as one site with search: build/docs/site.
docs:
	tools/install_dependencies.sh python
	tools/docs/build.py

format:
	tools/install_dependencies.sh ci
	tools/format.sh

coverage:
	tools/install_dependencies.sh coverage
	tools/coverage.sh

clean:
	rm -rf build

.PHONY: configure
configure:
	tools/install_dependencies.sh
	cmake --preset release
