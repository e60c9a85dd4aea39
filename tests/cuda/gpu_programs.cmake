# SPDX-License-Identifier: Apache-2.0
# What tools/gpu_check.sh builds here and runs on a machine with a GPU; and the tests of all that needs none.
add_test(NAME cuda.gpu_check_stages COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/gpu_check_stages_test.py)
folio_test(cuda.gpu_cases SOURCES gpu_cases_test.cpp)
folio_test(cuda.gpu_supervise SOURCES gpu_supervise_test.cpp)

# Attention and append through the public functions. Every launch is noted on its way.
set(launch _ZN5folio4cuda6launchEPKcNS_2v16DeviceEilPKvlNS3_6StreamE)
add_executable(gpu_kernels EXCLUDE_FROM_ALL gpu_kernels.cpp gpu_launches.cpp)
folio_test_settings(gpu_kernels)
set_source_files_properties(gpu_launches.cpp PROPERTIES COMPILE_DEFINITIONS "FOLIO_LAUNCH_SYMBOL=\"${launch}\"")
target_link_options(gpu_kernels PRIVATE LINKER:--wrap=${launch})
target_link_libraries(gpu_kernels PRIVATE folio_test_support GTest::gtest ${CMAKE_DL_LIBS})

if(FOLIO_SANITIZE)
  message(STATUS "folio: a sanitizer: what GPUs recorded is not replayed, fibers and sanitizers do not mix")
else()
  find_package(Boost REQUIRED COMPONENTS context)
  folio_test(cuda.replay SOURCES replay_test.cpp LINKS nlohmann_json::nlohmann_json Boost::context LABELS cta)
  target_compile_definitions(test_cuda_replay PRIVATE FOLIO_CUDA_GOLDEN_FOLDER="${CMAKE_CURRENT_SOURCE_DIR}/golden")
  target_compile_options(test_cuda_replay PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-psabi>)
endif()
