# SPDX-License-Identifier: Apache-2.0
# A CUDA device on the host. Two libraries are called libcuda.so.1, each in a folder of its own that tests put before the machine's:
#   fake_driver       the driver's interface over memory and streams; kernels are brought by the program (emulated_device.h)
#   emulated_device   the same with every kernel of src/cuda/kernels.txt inside, for programs that know of a driver alone
if(NOT FOLIO_CUDA)
  function(folio_fake_driver_test)
  endfunction()
  function(folio_device_test)
  endfunction()
  function(folio_on_emulated_device)
  endfunction()
  return()
endif()

set(FOLIO_FAKE_DRIVER ${CMAKE_CURRENT_BINARY_DIR}/fake_driver)
set(FOLIO_EMULATED_DEVICE ${CMAKE_CURRENT_BINARY_DIR}/emulated_device)

# fake_libcuda(name folder SOURCES ... LINKS ...)
function(fake_libcuda name folder)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} SHARED fake_driver.cpp fake_device.cpp fake_streams.cpp ${arg_SOURCES})
  folio_compile_settings(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${arg_LINKS})
  set_target_properties(${name} PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1 LIBRARY_OUTPUT_DIRECTORY ${folder})
  set_source_files_properties(fake_driver.cpp fake_streams.cpp PROPERTIES COMPILE_OPTIONS -fvisibility=default)
endfunction()
fake_libcuda(fake_driver ${FOLIO_FAKE_DRIVER} SOURCES fake_answers.cpp)

# folio_fake_driver_test(name SOURCES ... LINKS ... LABELS ...): a test that finds the fake driver where it looks for a driver.
function(folio_fake_driver_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS;LABELS" ${ARGN})
  folio_test(${name} ALONE SOURCES ${arg_SOURCES} LINKS folio::cuda ${CMAKE_DL_LIBS} ${arg_LINKS} LABELS ${arg_LABELS})
  string(REPLACE "." "_" target test_${name})
  add_dependencies(${target} fake_driver)
  set_target_properties(${target} PROPERTIES BUILD_RPATH ${FOLIO_FAKE_DRIVER})
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT LD_LIBRARY_PATH=${FOLIO_FAKE_DRIVER})
endfunction()

# Kernels are emulated by fibers, whose stacks sanitizers do not know.
if(FOLIO_SANITIZE)
  message(STATUS "folio: a sanitizer: no test of emulated CUDA kernels")
  function(folio_device_test)
  endfunction()
  function(folio_on_emulated_device)
  endfunction()
  return()
endif()
find_package(Boost REQUIRED COMPONENTS context)

# What runs emulated kernels, and those of folio; optimised in every preset.
folio_read_cuda_kernels(kernels ${PROJECT_SOURCE_DIR}/src/cuda/kernels.txt)
folio_write_emulated_kernels(kernels ${CMAKE_CURRENT_BINARY_DIR}/emulated_kernels emulated_sources)
add_library(folio_emulated_kernels STATIC EXCLUDE_FROM_ALL emulated_runner.cpp ${emulated_sources})
folio_compile_settings(folio_emulated_kernels)
target_include_directories(folio_emulated_kernels PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(folio_emulated_kernels PUBLIC folio::folio folio::cuda Boost::context)
target_compile_options(folio_emulated_kernels PRIVATE -O2)

fake_libcuda(emulated_device ${FOLIO_EMULATED_DEVICE} SOURCES emulated_answers.cpp LINKS folio_emulated_kernels)
add_library(folio_emulated_device STATIC EXCLUDE_FROM_ALL emulated_device.cpp)
folio_test_settings(folio_emulated_device)
target_link_libraries(folio_emulated_device PUBLIC folio_emulated_kernels GTest::gmock ${CMAKE_DL_LIBS})

# folio_device_test(name SOURCES ... LINKS ...): a test with an EmulatedDevice.
function(folio_device_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  folio_fake_driver_test(${name} SOURCES ${arg_SOURCES} LINKS folio_emulated_device ${arg_LINKS} LABELS cta)
endfunction()

# folio_on_emulated_device(name [ARGUMENTS ...]): the test program of `name` once more, as cuda.NAME, on the emulated device. Slow: a third
# of its tests a day.
function(folio_on_emulated_device name)
  cmake_parse_arguments(arg "" "" "ARGUMENTS" ${ARGN})
  string(REPLACE "." "_" target test_${name})
  add_test(NAME cuda.${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/support/share_of_day.sh 3 $<TARGET_FILE:${target}> ${arg_ARGUMENTS})
  set_tests_properties(cuda.${name} PROPERTIES LABELS cta TIMEOUT 900 COST 10 ENVIRONMENT
                       "FOLIO_TEST_DEVICE=cuda;LD_LIBRARY_PATH=${FOLIO_EMULATED_DEVICE}")
  folio_label_needs(cta ${target} emulated_device)
endfunction()

# The example engine, told of a GPU; and in a build without CUDA, whose functions stand before those of the library.
add_executable(engine_on_emulated_device ${PROJECT_SOURCE_DIR}/examples/engine.cpp emulated_table.cpp)
add_executable(engine_without_cuda ${PROJECT_SOURCE_DIR}/examples/engine.cpp ${PROJECT_SOURCE_DIR}/src/no_cuda/encode.cpp
                                   ${PROJECT_SOURCE_DIR}/src/no_cuda/launch.cpp)
foreach(engine engine_on_emulated_device engine_without_cuda)
  folio_test_settings(${engine})
  target_link_libraries(${engine} PRIVATE folio::folio ${CMAKE_DL_LIBS})
endforeach()
add_dependencies(engine_on_emulated_device emulated_device)
add_test(NAME cuda.engine_on_emulated_device COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/engine_test.py
         ${FOLIO_EMULATED_DEVICE} $<TARGET_FILE:engine_on_emulated_device> $<TARGET_FILE:engine_without_cuda>)
set_tests_properties(cuda.engine_on_emulated_device PROPERTIES LABELS cta TIMEOUT 900)
folio_label_needs(cta engine_on_emulated_device engine_without_cuda)
