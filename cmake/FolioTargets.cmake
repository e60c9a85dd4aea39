# SPDX-License-Identifier: Apache-2.0
# The kinds of target that folio's folders are made of.
find_package(Threads REQUIRED)
if(FOLIO_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()

# folio_add_folders(name ...): add_subdirectory of those that have a CMakeLists.txt.
function(folio_add_folders)
  foreach(folder IN LISTS ARGN)
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
      add_subdirectory(${folder})
    endif()
  endforeach()
endfunction()

# What every target of the project is compiled with.
function(folio_compile_settings target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -ffp-contract=off
                         $<$<BOOL:${FOLIO_WERROR}>:-Werror>)
  if(FOLIO_SANITIZE OR FOLIO_COVERAGE)
    # The extra branches of instrumented code mislead this one warning of g++.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
  if(FOLIO_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${FOLIO_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=all)
    target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)
    target_link_options(${target} PUBLIC -fsanitize=${FOLIO_SANITIZE})
  endif()
  if(FOLIO_COVERAGE)
    target_compile_options(${target} PRIVATE --coverage -fprofile-update=atomic)
    target_link_options(${target} PUBLIC --coverage)
  endif()
endfunction()

# folio_folder(name SOURCES ... LINKS ...): one folder of src/ as an object library; its objects become part of `folio`.
# LINKS names the folders it may include.
function(folio_folder name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} OBJECT ${arg_SOURCES})
  folio_compile_settings(${name})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${arg_LINKS})
  set_property(GLOBAL APPEND PROPERTY FOLIO_FOLDERS ${name})
endfunction()

# folio_isa_folder(name FLAGS ... SOURCES ... LINKS ...): kernels for one instruction set. At least -O2 in every preset, so
# that nothing is left to be instantiated out of line. A test looks at these objects for weak symbols.
function(folio_isa_folder name)
  cmake_parse_arguments(arg "" "" "FLAGS;SOURCES;LINKS" ${ARGN})
  folio_folder(${name} SOURCES ${arg_SOURCES} LINKS ${arg_LINKS})
  target_compile_options(${name} PRIVATE ${arg_FLAGS} -fno-exceptions $<IF:$<CONFIG:Release>,-O3,-O2>)
  set_property(GLOBAL APPEND PROPERTY FOLIO_ISA_FOLDERS ${name})
endfunction()

# folio_test(name SOURCES ... LINKS ... LABELS ...): a GoogleTest program, one entry of ctest. `name` is folder.stem, e.g.
# core.dtype. The label `threads` marks what the tsan preset runs; the
# target threads_tests builds those alone.
function(folio_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS;LABELS" ${ARGN})
  set(target test_${name})
  string(REPLACE "." "_" target ${target})
  add_executable(${target} ${arg_SOURCES})
  folio_compile_settings(${target})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE folio::folio GTest::gmock_main ${arg_LINKS})
  add_test(NAME ${name} COMMAND ${target})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 900)
  if("threads" IN_LIST arg_LABELS)
    if(NOT TARGET threads_tests)
      add_custom_target(threads_tests)
    endif()
    add_dependencies(threads_tests ${target})
  endif()
endfunction()
