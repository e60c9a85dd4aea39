# SPDX-License-Identifier: Apache-2.0
# The static types on a device: run in the emulator, and looked at as nvcc compiles them.
if(FOLIO_SANITIZE)
  message(STATUS "folio: a sanitizer: device members are not emulated, fibers and sanitizers do not mix")
  return()
endif()
foreach(subject kv_buffer tile_copies)
  folio_test(cuda.${subject} ALONE SOURCES ${subject}_test.cpp LINKS Boost::context LABELS cta)
  target_compile_options(test_cuda_${subject} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-psabi>)
endforeach()

include(mutants.cmake)

find_program(FOLIO_NVCC nvcc HINTS /usr/local/cuda/bin)
if(NOT FOLIO_NVCC)
  return()
endif()
set(nvcc ${FOLIO_NVCC} -std=c++20 -O3 -ccbin g++ -I${PROJECT_SOURCE_DIR}/include -Werror all-warnings -Xcompiler -Wall,-Wextra)

# What members of static caches become: vectors, one scale per granule, the fp8 instructions where there are any.
set(check_ptx Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_ptx.py)
foreach(architecture sm_80 sm_90a)
  add_test(NAME cuda.caches_move_vectors_${architecture}
           COMMAND ${check_ptx} ${CMAKE_CURRENT_SOURCE_DIR}/cache_vectors.expect.txt
                   -- ${nvcc} -arch=${architecture} ${CMAKE_CURRENT_SOURCE_DIR}/cache_vectors.cu)
  set_tests_properties(cuda.caches_move_vectors_${architecture} PROPERTIES LABELS cuda)
endforeach()
folio_expect(cuda.byte_loops_are_found
             COMMAND ${check_ptx} ${CMAKE_CURRENT_SOURCE_DIR}/byte_loop.expect.txt
                     -- ${nvcc} -arch=sm_90a ${CMAKE_CURRENT_SOURCE_DIR}/byte_loop.cu
             STATUS 1 SAYS "ld.global.u8 1 times, expected 0.*loops 1 times, expected 0")
set_tests_properties(cuda.byte_loops_are_found PROPERTIES LABELS cuda)

# A buffer is its lane's registers: no stack, no spills, cp.async or tensor maps, ldmatrix and mma. Nor have copies of tiles a stack.
foreach(subject_and_architecture kv_buffer.sm_80 kv_buffer.sm_90a kv_buffer.sm_100a tile_copies.sm_90a tile_copies.sm_100a)
  string(REPLACE "." ";" pair ${subject_and_architecture})
  list(GET pair 0 subject)
  list(GET pair 1 architecture)
  add_test(NAME cuda.${subject}_in_registers_${architecture}
           COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_kernels.py
                   ${CMAKE_CURRENT_SOURCE_DIR}/${subject}.expect.txt ${CMAKE_CURRENT_BINARY_DIR}/${subject}_${architecture}.cubin
                   -- ${nvcc} -fmad=false -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/tests -Xcompiler -Wno-psabi
                   -arch=${architecture} ${CMAKE_CURRENT_SOURCE_DIR}/${subject}.cu)
  set_tests_properties(cuda.${subject}_in_registers_${architecture} PROPERTIES LABELS cuda)
endforeach()
