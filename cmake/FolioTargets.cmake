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
    # C callers hand over functions whose types cannot say `noexcept`, which is part of ours: calls that are right.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
    target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)
    target_link_options(${target} PUBLIC -fsanitize=${FOLIO_SANITIZE})
  endif()
  if(FOLIO_COVERAGE)
    target_compile_options(${target} PRIVATE --coverage -fprofile-update=atomic)
    target_link_options(${target} PUBLIC --coverage)
  endif()
endfunction()

# folio_group_sources(target [ALWAYS | PROGRAM] [ALONE source ...]): its sources are compiled as few, several together, once all targets
# have said which they have. In builds with FOLIO_GROUPED (PROGRAM: for programs, too), and always with ALWAYS; those behind ALONE are not, for
# a test puts others in their places.
# A source that lacks an include may pass there: the release finds it for libraries, the presets dev and coverage for programs, too.
# Two sources that come to share a name are told apart when CMake runs again.
function(folio_group_sources target)
  cmake_parse_arguments(arg "ALWAYS;PROGRAM" "" "ALONE" ${ARGN})
  if(NOT (FOLIO_GROUPED OR arg_ALWAYS OR (arg_PROGRAM AND FOLIO_GROUPED_PROGRAMS)))
    return()
  endif()
  get_property(grouped GLOBAL PROPERTY FOLIO_GROUPED_TARGETS)
  if(NOT grouped)
    cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL folio_group_all_sources)
  endif()
  set_property(GLOBAL APPEND PROPERTY FOLIO_GROUPED_TARGETS ${target})
  set_property(GLOBAL PROPERTY FOLIO_ALONE_IN_${target} ${arg_ALONE})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # A source's names are another's, and what it keeps to itself lies in an included file. g++ inlines more of it, and takes an empty string's
  # null for a mistake.
  target_compile_options(${target} PRIVATE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage -Wno-nonnull>)
endfunction()

function(folio_group_all_sources)
  get_property(grouped GLOBAL PROPERTY FOLIO_GROUPED_TARGETS)
  set(targets)
  set(words)
  foreach(target IN LISTS grouped)
    folio_sources_to_group(sources ${target})
    if(sources)
      list(APPEND targets ${target})
      list(APPEND words -- ${sources})
    endif()
  endforeach()
  find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/source_groups.py ${words} OUTPUT_VARIABLE lines
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE ";" "|" lines "${lines}")
  string(REPLACE "\n" ";" lines "${lines}")
  set(group 0)
  foreach(line IN LISTS lines)
    if(line STREQUAL "--")
      list(POP_FRONT targets)
      set(group 0)
      continue()
    endif()
    list(GET targets 0 target)
    math(EXPR group "${group} + 1")
    string(REPLACE "|" ";" members "${line}")
    set_source_files_properties(${members} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# `result` is the target's own sources, without those that are alone or made by the build.
function(folio_sources_to_group result target)
  get_target_property(folder ${target} SOURCE_DIR)
  get_target_property(all ${target} SOURCES)
  get_property(alone GLOBAL PROPERTY FOLIO_ALONE_IN_${target})
  list(REMOVE_ITEM all ${alone})
  set(sources)
  foreach(source IN LISTS all)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR ${source} is_generated)
    if(source MATCHES "\\.cpp$" AND EXISTS ${source} AND NOT is_generated)
      list(APPEND sources ${source})
    endif()
  endforeach()
  set(${result} "${sources}" PARENT_SCOPE)
endfunction()

# folio_folder(name SOURCES ... LINKS ... [KERNELS]): one folder of src/ as an object library; its objects become part of `folio`.
# LINKS names the folders it may include. Those of KERNELS are never grouped: their code takes the time, not what they include.
function(folio_folder name)
  cmake_parse_arguments(arg "KERNELS" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} OBJECT ${arg_SOURCES})
  folio_compile_settings(${name})
  # A section for each function: linkers leave out what nobody calls, and a lint walks from one to the next.
  target_compile_options(${name} PRIVATE -ffunction-sections -fdata-sections)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${arg_LINKS})
  set_property(GLOBAL APPEND PROPERTY FOLIO_FOLDERS ${name})
  if(NOT arg_KERNELS)
    folio_group_sources(${name})
  endif()
endfunction()

# folio_whole(target): `target` is the library, all folders together.
function(folio_whole target)
  get_property(folders GLOBAL PROPERTY FOLIO_FOLDERS)
  foreach(folder IN LISTS folders)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${folder}>)
  endforeach()
  folio_compile_settings(${target})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_link_libraries(${target} PRIVATE Threads::Threads $<$<BOOL:${FOLIO_OPENMP}>:OpenMP::OpenMP_CXX>
                        $<$<BOOL:${FOLIO_CUDA}>:${CMAKE_DL_LIBS}>)
endfunction()

# What this machine's processor has, as Linux calls it.
set(processor_features "")
if(EXISTS /proc/cpuinfo AND NOT CMAKE_CROSSCOMPILING)
  file(STRINGS /proc/cpuinfo processor_features REGEX "^flags" LIMIT_COUNT 1)
  string(REGEX MATCHALL "[a-z0-9_]+" processor_features "${processor_features}")
endif()

# folio_sanitize_kernels(target feature ...): of kernels for an instruction set, sanitizers multiply the time to compile. They get those of
# FOLIO_SANITIZE_KERNELS, and none where the processor lacks a feature that they need: nothing would be watched.
function(folio_sanitize_kernels target)
  if(NOT FOLIO_SANITIZE)
    return()
  endif()
  string(REPLACE "," ";" wanted "${FOLIO_SANITIZE_KERNELS}")
  string(REPLACE "," ";" sanitizers "${FOLIO_SANITIZE}")
  foreach(sanitizer IN LISTS sanitizers)
    if(NOT sanitizer IN_LIST wanted)
      target_compile_options(${target} PRIVATE -fno-sanitize=${sanitizer})
    endif()
  endforeach()
  foreach(feature IN LISTS ARGN)
    if(NOT feature IN_LIST processor_features)
      target_compile_options(${target} PRIVATE -fno-sanitize=all)
    endif()
  endforeach()
endfunction()

# folio_isa_folder(name FLAGS ... SOURCES ... LINKS ... FEATURES ...): kernels for one instruction set. At least -O2 in every preset, so
# that nothing is left to be instantiated out of line. A test looks at these objects for weak symbols. FEATURES: what a processor has that runs
# them, as Linux calls it.
function(folio_isa_folder name)
  cmake_parse_arguments(arg "" "" "FLAGS;SOURCES;LINKS;FEATURES" ${ARGN})
  folio_folder(${name} KERNELS SOURCES ${arg_SOURCES} LINKS ${arg_LINKS})
  target_compile_options(${name} PRIVATE ${arg_FLAGS} -fno-exceptions $<IF:$<CONFIG:Release>,-O3,-O2>)
  folio_sanitize_kernels(${name} ${arg_FEATURES})
  set_property(GLOBAL APPEND PROPERTY FOLIO_ISA_FOLDERS ${name})
endfunction()

# What every test and what it is made of is compiled with.
function(folio_test_settings target)
  folio_compile_settings(${target})
  # As the compiler has it: the precompiled headers are an object library's, and programs use them.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  # A test looks at few elements; what looks at many (the reference, the cases) is optimised wherever it is built. At this level one
  # warning of g++ takes what it does not follow for uninitialized.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endfunction()

# folio_test_objects(name FLAGS ... SOURCES ... LINKS ...): what several test programs link and one build compiles. FLAGS are those of
# an instruction set: callers of such parts look first at whether the machine has it. Built where a test needs them.
function(folio_test_objects name)
  cmake_parse_arguments(arg "" "" "FLAGS;SOURCES;LINKS" ${ARGN})
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${arg_SOURCES})
  folio_test_settings(${name})
  target_compile_options(${name} PRIVATE ${arg_FLAGS})
  if(arg_FLAGS)
    set(features avx512f)
    if("-mavx512bf16" IN_LIST arg_FLAGS)
      list(APPEND features avx512_bf16)
    endif()
    folio_sanitize_kernels(${name} ${features})
  endif()
  target_link_libraries(${name} PUBLIC folio::folio GTest::gmock ${arg_LINKS})
endfunction()

# folio_test(name SOURCES ... LINKS ... LABELS ...): a GoogleTest program, one entry of ctest. `name` is folder.stem, e.g.
# core.dtype. The label `threads` marks what the tsan preset runs; the target threads_tests builds those alone. A build of the
# portable kernel alone has the tests of FOLIO_PORTABLE_TESTS. Under sanitizers a test's own sources are not optimised, which halves the
# time to compile them; BUSY: its own code takes longer to run than to compile. With FOLIO_GROUPED, tests of one folder and the same labels
# share a program, which runs those of the sources that it is given; ALONE: this one, with what it links or defines, does not.
function(folio_test name)
  cmake_parse_arguments(arg "ALONE;BUSY" "" "SOURCES;LINKS;LABELS" ${ARGN})
  if(FOLIO_FEW_TESTS AND NOT name IN_LIST FOLIO_PORTABLE_TESTS)
    return()
  endif()
  if(name IN_LIST FOLIO_FIRST_TESTS AND NOT FOLIO_SANITIZE)
    list(APPEND arg_LABELS first)
  endif()
  if(FOLIO_GROUPED_PROGRAMS AND NOT arg_ALONE AND NOT arg_BUSY)
    list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
    folio_shared_test_program(target "${arg_LABELS}" ${arg_SOURCES})
    list(JOIN arg_SOURCES "," sources)
    add_test(NAME ${name} COMMAND ${target} --tests_of=${sources})
  else()
    string(REPLACE "." "_" target test_${name})
    add_executable(${target} ${arg_SOURCES})
    folio_test_program_settings(${target} "${arg_BUSY}" GTest::gmock_main)
    add_test(NAME ${name} COMMAND ${target})
  endif()
  target_link_libraries(${target} PRIVATE ${arg_LINKS})
  set_property(GLOBAL APPEND PROPERTY FOLIO_TESTS ${name})
  set(environment LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/leaks_of_others.txt)
  if(FOLIO_SANITIZE AND NOT "$ENV{FOLIO_TEST_ROUNDS}" STREQUAL all)
    list(APPEND environment RC_PARAMS=max_success=15)  # RapidCheck's 100 take minutes here; other builds have them
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 900 ENVIRONMENT "${environment}")
  foreach(label IN LISTS arg_LABELS)
    folio_label_needs(${label} ${target})
  endforeach()
endfunction()

# folio_shared_test_program(result labels source ...): `result` is the program of this folder's tests with these labels; it has these
# sources, too.
function(folio_shared_test_program result labels)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/tests OUTPUT_VARIABLE folder)
  list(PREPEND labels tests ${folder})
  list(JOIN labels "_" target)
  string(REPLACE "/" "_" target ${target})
  if(NOT TARGET ${target})
    add_executable(${target} ${PROJECT_SOURCE_DIR}/tests/support/shared_main.cpp)
    folio_test_program_settings(${target} FALSE GTest::gmock)
  endif()
  get_target_property(sources ${target} SOURCES)
  list(REMOVE_ITEM ARGN ${sources})
  target_sources(${target} PRIVATE ${ARGN})
  set(${result} ${target} PARENT_SCOPE)
endfunction()

# Of a program of tests, which the library `googletest` runs.
function(folio_test_program_settings target is_busy googletest)
  folio_test_settings(${target})
  if(NOT FOLIO_SANITIZE)
    target_precompile_headers(${target} REUSE_FROM folio_test_headers)
  elseif(NOT is_busy)
    target_compile_options(${target} PRIVATE -O0)
    target_precompile_headers(${target} REUSE_FROM folio_test_headers)
  endif()
  target_link_libraries(${target} PRIVATE folio::folio ${googletest})
  # g++ must not see the operators that it replaces
  folio_group_sources(${target} PROGRAM ALONE ../support/allocations.cpp ../../support/allocations.cpp)
endfunction()

# folio_label_needs(label target ...): LABEL_tests builds what ctest -L LABEL runs.
function(folio_label_needs label)
  if(NOT TARGET ${label}_tests)
    add_custom_target(${label}_tests)
  endif()
  add_dependencies(${label}_tests ${ARGN})
endfunction()

# folio_library_beside(NAME headers sources ... ): folio_NAME, a library that links folio and that folio knows nothing of.
function(folio_library_beside name headers)
  set(target folio_${name})
  add_library(${target} ${ARGN})
  add_library(folio::${name} ALIAS ${target})
  folio_compile_settings(${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM headers PREPEND "${PROJECT_SOURCE_DIR}/include/")
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
  target_link_libraries(${target} PUBLIC folio)
  folio_group_sources(${target})
endfunction()
