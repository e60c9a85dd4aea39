# SPDX-License-Identifier: Apache-2.0
# The options of the build. A project that adds folio as a subdirectory gets the library alone.
option(FOLIO_OPENMP "Default executor on OpenMP; OFF: on std::thread" ON)
option(FOLIO_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(FOLIO_BUILD_BENCHMARKS "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(FOLIO_BUILD_CLI "Build the command-line tool" ${PROJECT_IS_TOP_LEVEL})
option(FOLIO_WERROR "Treat warnings as errors" OFF)
set(FOLIO_SANITIZE "" CACHE STRING "Sanitizers of every target, as -fsanitize takes them: address,undefined or thread")
