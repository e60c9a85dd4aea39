# SPDX-License-Identifier: Apache-2.0
# Where nvcc exists, every static type is compiled as a kernel's argument for the two architectures that have tensor maps.
if(NOT FOLIO_NVCC OR FOLIO_SANITIZE)
  message(STATUS "folio: no nvcc, or a sanitizer: the static types are not compiled for CUDA")
  return()
endif()

set(nvcc ${FOLIO_NVCC} -std=c++20 -ccbin g++ -I${PROJECT_SOURCE_DIR}/include -Werror all-warnings -Xcompiler -Wall,-Wextra)
foreach(architecture sm_90a sm_100a)
  add_test(NAME cuda.static_types_${architecture}
           COMMAND ${nvcc} -arch=${architecture} -c ${CMAKE_CURRENT_SOURCE_DIR}/static_types.cu
                   -o ${CMAKE_CURRENT_BINARY_DIR}/static_types_${architecture}.o)
  set_tests_properties(cuda.static_types_${architecture} PROPERTIES LABELS cuda)
  add_test(NAME cuda.own_kernel_${architecture}
           COMMAND ${nvcc} -arch=${architecture} -x cu -c ${PROJECT_SOURCE_DIR}/examples/own_kernel.cpp
                   -o ${CMAKE_CURRENT_BINARY_DIR}/own_kernel_${architecture}.o)
  set_tests_properties(cuda.own_kernel_${architecture} PROPERTIES LABELS cuda)
  add_test(NAME cuda.kernels_load_tiles_${architecture}
           COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_kernels.py
                   ${CMAKE_CURRENT_SOURCE_DIR}/tma_load.expect.txt ${CMAKE_CURRENT_BINARY_DIR}/tma_load_${architecture}.cubin
                   -- ${nvcc} -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/tests -Xcompiler -Wno-psabi
                   -arch=${architecture} ${CMAKE_CURRENT_SOURCE_DIR}/tma_load.cu)
  set_tests_properties(cuda.kernels_load_tiles_${architecture} PROPERTIES LABELS cuda)
endforeach()

# Every member of the machine, and that each architecture has what it should and no more.
foreach(architecture sm_80 sm_90a sm_100a sm_120a)
  add_test(NAME cuda.machine_${architecture}
           COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_kernels.py
                   ${CMAKE_CURRENT_SOURCE_DIR}/machine.expect.txt ${CMAKE_CURRENT_BINARY_DIR}/machine_${architecture}.cubin
                   -- ${nvcc} -I${PROJECT_SOURCE_DIR}/src -Xcompiler -Wno-psabi -fmad=false
                   -arch=${architecture} ${CMAKE_CURRENT_SOURCE_DIR}/machine.cu)
  set_tests_properties(cuda.machine_${architecture} PROPERTIES LABELS cuda)
endforeach()

# Values of 32 bytes in two accesses each, of the right kind.
folio_expect(cuda.machine_moves_sixteen_bytes_at_once
             COMMAND ${nvcc} -I${PROJECT_SOURCE_DIR}/src -Xcompiler -Wno-psabi -arch=sm_90a -ptx ${CMAKE_CURRENT_SOURCE_DIR}/machine.cu -o -
             SAYS "ld.global.nc.v4.*ld.global.nc.v4.*st.shared.v4.*st.shared.v4.*ld.shared.v4.*ld.shared.v4.*st.global.v4.*st.global.v4")

folio_expect(cuda.spills_and_missing_instructions_are_found
             COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_kernels.py
                     ${CMAKE_CURRENT_SOURCE_DIR}/spilling.expect.txt ${CMAKE_CURRENT_BINARY_DIR}/spilling.cubin
                     -- ${nvcc} -arch=sm_90a ${CMAKE_CURRENT_SOURCE_DIR}/spilling.cu
             STATUS 1 SAYS "a kernel spills.*touches local memory.*no UTMALDG.2D")

# Eight table entries in two loads of 16 bytes.
folio_expect(cuda.populate_reads_the_table_in_vectors
             COMMAND ${nvcc} -arch=sm_90a -ptx ${CMAKE_CURRENT_SOURCE_DIR}/populate.cu -o -
             SAYS "ld.global.v4[^\\n]*\\n[^\\n]*ld.global.v4")
set_tests_properties(cuda.machine_moves_sixteen_bytes_at_once cuda.spills_and_missing_instructions_are_found
                     cuda.populate_reads_the_table_in_vectors PROPERTIES LABELS cuda)

# What a GPU does, against the emulator: built wherever nvcc is, run where there is a GPU, else skipped.
set(gpu_check ${CMAKE_CURRENT_BINARY_DIR}/gpu_check)
add_test(NAME cuda.gpu_check_builds COMMAND ${CMAKE_COMMAND} -E env "FOLIO_CUDA_ARCHITECTURES=90a 100a"
                                            ${PROJECT_SOURCE_DIR}/tools/gpu_check.sh --build ${gpu_check} gpu_check)
set_tests_properties(cuda.gpu_check_builds PROPERTIES LABELS cuda FIXTURES_SETUP gpu_check)
add_test(NAME cuda.gpu_check_forgets COMMAND ${CMAKE_COMMAND} -E rm -rf ${gpu_check}/out)
set_tests_properties(cuda.gpu_check_forgets PROPERTIES LABELS cuda FIXTURES_SETUP gpu_check)
folio_expect(cuda.gpu_check COMMAND ${PROJECT_SOURCE_DIR}/tools/gpu_check.sh --programs ${gpu_check} --out ${gpu_check}/out
                                    machine maps primitives tiles MAY_SKIP)
set_tests_properties(cuda.gpu_check PROPERTIES LABELS cuda FIXTURES_REQUIRED gpu_check)
