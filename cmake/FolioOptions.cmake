# SPDX-License-Identifier: Apache-2.0
# The options of the build. A project that adds folio as a subdirectory gets the library alone.
option(BUILD_SHARED_LIBS "Build a shared library" OFF)
option(FOLIO_OPENMP "Default executor on OpenMP; OFF: on std::thread" ON)
option(FOLIO_CUDA "The CUDA parts, which need no toolkit to build and no driver to load; OFF: the same names refuse" ON)
option(FOLIO_CUDA_KERNELS "Compile the CUDA kernels, with nvcc, into the library; takes minutes" OFF)
set(FOLIO_CUDA_ARCHITECTURES 80 90a 100a 120a CACHE STRING "What CUDA kernels are compiled for, as nvcc's sm_ names have it")
option(FOLIO_NAMES "The library folio::names, where there is OpenSSL 3" ${PROJECT_IS_TOP_LEVEL})
option(FOLIO_TIER "The library folio::tier, where there is ISA-L" ${PROJECT_IS_TOP_LEVEL})
option(FOLIO_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(FOLIO_BUILD_BENCHMARKS "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(FOLIO_BUILD_CLI "Build the command-line tool" ${PROJECT_IS_TOP_LEVEL})
option(FOLIO_BUILD_FUZZERS "Build the programs that libFuzzer feeds; needs clang" OFF)
option(FOLIO_INSTALL "Generate the rules of `cmake --install`" ${PROJECT_IS_TOP_LEVEL})
option(FOLIO_WERROR "Treat warnings as errors" OFF)
set(FOLIO_GROUPED OFF CACHE STRING "ON: sources of a folder are compiled together, and its tests share programs, for builds that nobody \
edits: quicker, and laxer about includes; programs: those of tests and the tool alone")
set(FOLIO_GROUPED_PROGRAMS ${FOLIO_GROUPED})
if(FOLIO_GROUPED STREQUAL programs)
  set(FOLIO_GROUPED_PROGRAMS ON)
  set(FOLIO_GROUPED OFF)
endif()
option(FOLIO_COVERAGE "Count executed lines (gcov)" OFF)
set(FOLIO_SANITIZE "" CACHE STRING "Sanitizers of every target, as -fsanitize takes them: address,undefined or thread")

set(FOLIO_SANITIZE_KERNELS address,thread CACHE STRING "Of FOLIO_SANITIZE, what the kernels for an instruction set get, a comma between two; \
all take several times as long to compile")

set(FOLIO_TEST_FOLDERS all CACHE STRING "Folders of tests/ that are built, a semicolon between two")
set(FOLIO_KERNELS all CACHE STRING "all: every kernel of the architecture; native: without AMX and AVX512-BF16 where this machine lacks \
them, quicker to compile and without tests; portable: the one that any machine runs, alone")
if(NOT FOLIO_KERNELS MATCHES "^(all|native|portable)$")
  message(FATAL_ERROR "FOLIO_KERNELS: expected all, native or portable, got ${FOLIO_KERNELS}")
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(FOLIO_KERNELS portable)  # no other architecture has kernels of its own yet
endif()

if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
if(FOLIO_KERNELS STREQUAL native)
  set(FOLIO_BUILD_TESTS OFF)
endif()
# Tests and benches reach inside the library; a shared one hides what they need.
if(BUILD_SHARED_LIBS AND (FOLIO_BUILD_TESTS OR FOLIO_BUILD_BENCHMARKS))
  message(STATUS "folio: shared library, so no tests and no benchmarks")
  set(FOLIO_BUILD_TESTS OFF)
  set(FOLIO_BUILD_BENCHMARKS OFF)
endif()
