# SPDX-License-Identifier: Apache-2.0
# What tools/gpu_check.sh builds here and runs on a machine with a GPU; and the tests of all that needs none.
add_test(NAME cuda.gpu_check_stages COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/gpu_check_stages_test.py)
folio_test(cuda.gpu_cases SOURCES gpu_cases_test.cpp)
folio_test(cuda.gpu_supervise SOURCES gpu_supervise_test.cpp)

# Attention, append and copies through the public functions, on any device: here on the emulated one, the smallest case of each kernel.
# The programs do not depend on it: what is built for a GPU is built without.
add_executable(gpu_kernels EXCLUDE_FROM_ALL gpu_kernels.cpp)
folio_test_settings(gpu_kernels)
target_link_libraries(gpu_kernels PRIVATE folio_test_support folio_cuda_launches GTest::gtest ${CMAKE_DL_LIBS})
if(FOLIO_CUDA AND NOT FOLIO_SANITIZE)
  set_target_properties(gpu_kernels PROPERTIES EXCLUDE_FROM_ALL OFF)
  folio_expect(cuda.gpu_kernels COMMAND gpu_kernels smallest SAYS ", 0 wrong, .* instances launched" NEVER_SAYS "[^0-9]0 right")
  set_tests_properties(cuda.gpu_kernels PROPERTIES LABELS cta TIMEOUT 900 ENVIRONMENT LD_LIBRARY_PATH=${FOLIO_EMULATED_DEVICE})
  folio_label_needs(cta gpu_kernels emulated_device)
  if(TARGET gpu_bench)
    set_target_properties(gpu_bench PROPERTIES EXCLUDE_FROM_ALL OFF)
    folio_expect(cuda.gpu_bench COMMAND gpu_bench /dev/null small SAYS "plan of 8 x 32k +cold"
                 NEVER_SAYS "not finite" "is zero" fault CUDA_ERROR)
    set_tests_properties(cuda.gpu_bench PROPERTIES LABELS cta TIMEOUT 900 ENVIRONMENT LD_LIBRARY_PATH=${FOLIO_EMULATED_DEVICE})
    folio_label_needs(cta gpu_bench)
  endif()
endif()

if(FOLIO_SANITIZE)
  message(STATUS "folio: a sanitizer: what GPUs recorded is not replayed, fibers and sanitizers do not mix")
else()
  find_package(Boost REQUIRED COMPONENTS context)
  folio_test(cuda.replay ALONE SOURCES replay_test.cpp LINKS nlohmann_json::nlohmann_json Boost::context LABELS cta)
  target_compile_definitions(test_cuda_replay PRIVATE FOLIO_CUDA_GOLDEN_FOLDER="${CMAKE_CURRENT_SOURCE_DIR}/golden")
  target_compile_options(test_cuda_replay PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-psabi>)
endif()
