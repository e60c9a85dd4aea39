# SPDX-License-Identifier: Apache-2.0
# From a list of kernels (src/cuda/kernels.txt says its format) to the host's table and to machine code. No CUDA language is enabled: a
# build without nvcc has everything but the images.
find_program(FOLIO_NVCC nvcc HINTS /usr/local/cuda/bin)

set(FOLIO_CUDA_NVCC_FLAGS -std=c++20 -O3 -fmad=false -ccbin g++ -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src
    -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-psabi)

# folio_split_architectures(): of each of FOLIO_CUDA_ARCHITECTURES number_of_A and is_specific_A, true for 90a.
macro(folio_split_architectures)
  foreach(architecture IN LISTS FOLIO_CUDA_ARCHITECTURES)
    string(REGEX MATCH "^[0-9]+" number_of_${architecture} ${architecture})
    set(is_specific_${architecture} true)
    if(architecture STREQUAL number_of_${architecture})
      set(is_specific_${architecture} false)
    endif()
  endforeach()
endmacro()

# folio_cuda_architectures(variable wanted): those of FOLIO_CUDA_ARCHITECTURES that a line asks for: all, from_90, or a list of its own.
function(folio_cuda_architectures variable wanted)
  set(result)
  folio_split_architectures()
  foreach(architecture IN LISTS FOLIO_CUDA_ARCHITECTURES)
    if(wanted STREQUAL "all" OR architecture IN_LIST wanted)
      list(APPEND result ${architecture})
    elseif(wanted MATCHES "^from_([0-9]+)$" AND number_of_${architecture} GREATER_EQUAL CMAKE_MATCH_1)
      list(APPEND result ${architecture})
    endif()
  endforeach()
  set(${variable} "${result}" PARENT_SCOPE)
endfunction()

# folio_read_cuda_kernels(prefix file): ${prefix}_names, and of each name ${prefix}_NAME_header, _type, _wanted (as the line has it),
# _architectures.
function(folio_read_cuda_kernels prefix file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} lines REGEX "^[^#]")
  set(names)
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^ *([a-z0-9_]+) *\\| *([^ |]+) *\\| *([^|]*[^ |]) *\\| *([a-z0-9_ ]*[a-z0-9_]) *$" matched "${line}")
    if(NOT matched OR CMAKE_MATCH_1 IN_LIST names)
      message(FATAL_ERROR "${file}: not a line of its own name and four columns: ${line}")
    endif()
    set(name ${CMAKE_MATCH_1})
    list(APPEND names ${name})
    set(${prefix}_${name}_header ${CMAKE_MATCH_2} PARENT_SCOPE)
    set(${prefix}_${name}_type "${CMAKE_MATCH_3}" PARENT_SCOPE)
    string(REPLACE "sm_" "" wanted "${CMAKE_MATCH_4}")
    string(REGEX REPLACE " +" ";" wanted "${wanted}")
    folio_cuda_architectures(architectures "${wanted}")
    set(${prefix}_${name}_wanted "${wanted}" PARENT_SCOPE)
    set(${prefix}_${name}_architectures "${architectures}" PARENT_SCOPE)
  endforeach()
  set(${prefix}_names "${names}" PARENT_SCOPE)
endfunction()

# folio_write_cuda_table(prefix folder has_images): FOLDER/kernel_table.cpp, which defines folio::cuda::built_kernels().
function(folio_write_cuda_table prefix folder has_images)
  folio_split_architectures()
  set(includes)
  set(images)
  set(entries)
  foreach(name IN LISTS ${prefix}_names)
    list(APPEND includes "#include \"${${prefix}_${name}_header}\"")
    set(of_kernel)
    if(has_images)
      foreach(architecture IN LISTS ${prefix}_${name}_architectures)
        set(symbol folio_cubin_${name}_sm_${architecture})
        string(APPEND images "FOLIO_CUBIN(${symbol}, \"${folder}/${name}.sm_${architecture}.cubin\")\n")
        string(APPEND of_kernel "{${number_of_${architecture}}, ${is_specific_${architecture}}, ${symbol}}, ")
      endforeach()
    endif()
    if(of_kernel)
      string(APPEND images "constexpr KernelImage images_of_${name}[] = {${of_kernel}};\n")
      set(of_kernel "images_of_${name}")
    else()
      set(of_kernel "{}")
    endif()
    string(APPEND entries "    kernel_entry_of<${${prefix}_${name}_type}>(\"${name}\", ${of_kernel}),\n")
  endforeach()
  list(REMOVE_DUPLICATES includes)
  list(JOIN includes "\n" includes)
  list(LENGTH ${prefix}_names count)
  file(CONFIGURE OUTPUT ${folder}/kernel_table.cpp @ONLY CONTENT [[
#include "cuda/runtime/kernel_table.h"

#include <array>

@includes@

// The bytes of a file, as a constant.
#define FOLIO_CUBIN(symbol, path)                                                               \
  asm(".pushsection .rodata." #symbol ",\"a\"\n.balign 64\n.globl " #symbol "\n.hidden " #symbol \
      "\n" #symbol ":\n.incbin \"" path "\"\n.popsection");                                     \
  extern "C" const unsigned char symbol[];

namespace folio::cuda {
namespace {

@images@
constexpr std::array<KernelEntry, @count@> entries = {{
@entries@}};

}  // namespace

KernelTable built_kernels() noexcept { return entries; }

}  // namespace folio::cuda
]])
endfunction()

# folio_compile_cuda_kernels(prefix folder): rules for FOLDER/NAME.sm_ARCHITECTURE.cubin, each with what ptxas said of it beside it
# (.log); what launches the C++ compiler (ccache) launches nvcc, too. Sets ${prefix}_cubins, and ${prefix}_sample_cubins: those of two
# instances of each kernel, the first and the last of its lines; ${prefix}_sample_cubins_A: those of an architecture.
function(folio_compile_cuda_kernels prefix folder)
  set(cubins)
  set(samples)
  set(templates)
  foreach(name IN LISTS ${prefix}_names)
    string(REGEX REPLACE "<.*" "" template "${${prefix}_${name}_type}")
    string(MAKE_C_IDENTIFIER "${template}" template)
    list(APPEND templates ${template})
    if(NOT DEFINED first_of_${template})
      set(first_of_${template} ${name})
    endif()
    set(last_of_${template} ${name})
    set(header ${${prefix}_${name}_header})
    set(type "${${prefix}_${name}_type}")
    file(CONFIGURE OUTPUT ${folder}/${name}.cu @ONLY CONTENT [[
#include "cuda/primitives/kernel_entry.cuh"
#include "@header@"

namespace folio::cuda {
using Kernel = @type@;
}

extern "C" __global__ void __launch_bounds__(folio::cuda::Kernel::threads, folio::cuda::Kernel::blocks_per_processor)
@name@(const __grid_constant__ folio::cuda::Kernel::Args args) {
  folio::cuda::run_kernel<folio::cuda::Kernel>(args);
}
]])
    foreach(architecture IN LISTS ${prefix}_${name}_architectures)
      set(cubin ${folder}/${name}.sm_${architecture}.cubin)
      add_custom_command(
        OUTPUT ${cubin} BYPRODUCTS ${cubin}.log
        COMMAND Python3::Interpreter ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/compile_cuda_kernel.py ${cubin} --
                ${CMAKE_CXX_COMPILER_LAUNCHER} ${FOLIO_NVCC} ${FOLIO_CUDA_NVCC_FLAGS} -arch=sm_${architecture} -cubin -Xptxas -v
                -MD -MF ${cubin}.d -MT ${cubin} -c ${folder}/${name}.cu
        DEPENDS ${folder}/${name}.cu ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/compile_cuda_kernel.py
        DEPFILE ${cubin}.d COMMENT "nvcc ${name} sm_${architecture}" VERBATIM)
      list(APPEND cubins ${cubin})
      set(cubins_of_${name} ${cubins_of_${name}} ${cubin})
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES templates)
  foreach(template IN LISTS templates)
    list(APPEND samples ${cubins_of_${first_of_${template}}} ${cubins_of_${last_of_${template}}})
  endforeach()
  list(REMOVE_DUPLICATES samples)
  foreach(architecture IN LISTS FOLIO_CUDA_ARCHITECTURES)
    set(of_architecture ${samples})
    list(FILTER of_architecture INCLUDE REGEX "\\.sm_${architecture}\\.cubin$")
    set(${prefix}_sample_cubins_${architecture} "${of_architecture}" PARENT_SCOPE)
  endforeach()
  set(${prefix}_cubins "${cubins}" PARENT_SCOPE)
  set(${prefix}_sample_cubins "${samples}" PARENT_SCOPE)
endfunction()

# folio_report_cuda_kernels(target table cubin ...): builds them and writes a table of registers; fails if one spills or uses local memory.
function(folio_report_cuda_kernels target table)
  add_custom_target(${target} DEPENDS ${ARGN} COMMENT "" VERBATIM
                    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/cuda/kernel_report.py ${table} ${ARGN})
endfunction()

# folio_write_emulated_kernels(prefix folder variable): sources, a few kernels each, that define folio::test::emulated_kernels()
# (tests/cuda/emulated_device.h). Of whatever compute capability the device is, it runs the kernels that a GPU of that one would.
function(folio_write_emulated_kernels prefix folder variable)
  set(FOLIO_CUDA_ARCHITECTURES 80 90a 100a 120a)
  folio_split_architectures()
  set(sources ${folder}/emulated_kernels.cpp)
  set(declarations)
  set(calls)
  set(names ${${prefix}_names})
  set(part 0)
  while(names)
    list(SUBLIST names 0 4 some)
    list(REMOVE_ITEM names ${some})
    math(EXPR part "${part} + 1")
    set(includes)
    set(kernels)
    foreach(name IN LISTS some)
      list(APPEND includes "#include \"${${prefix}_${name}_header}\"")
      set(images)
      folio_cuda_architectures(architectures "${${prefix}_${name}_wanted}")
      foreach(architecture IN LISTS architectures)
        string(APPEND images "{${number_of_${architecture}}, ${is_specific_${architecture}}, emulated_code}, ")
      endforeach()
      string(APPEND kernels "  static constexpr cuda::KernelImage images_of_${name}[] = {${images}};\n"
                            "  to.push_back(emulated_kernel<cuda::${prefix}_${part}::${name}>(\"${name}\", images_of_${name}));\n")
      string(APPEND types_${part} "using ${name} = ${${prefix}_${name}_type};\n")
    endforeach()
    list(REMOVE_DUPLICATES includes)
    list(JOIN includes "\n" includes)
    set(types "${types_${part}}")
    file(CONFIGURE OUTPUT ${folder}/emulated_kernels_${part}.cpp @ONLY CONTENT [[
#include <vector>

#include "cuda/emulated_runner.h"
@includes@

namespace folio::cuda::@prefix@_@part@ {
@types@
}

namespace folio::test {
void add_emulated_kernels_@part@(std::vector<EmulatedKernel>& to) {
@kernels@}
}
]])
    list(APPEND sources ${folder}/emulated_kernels_${part}.cpp)
    string(APPEND declarations "void add_emulated_kernels_${part}(std::vector<EmulatedKernel>& to);\n")
    string(APPEND calls "    add_emulated_kernels_${part}(kernels);\n")
  endwhile()
  file(CONFIGURE OUTPUT ${folder}/emulated_kernels.cpp @ONLY CONTENT [[
#include <vector>

#include "cuda/emulated_device.h"
#include "cuda/emulated_runner.h"

namespace folio::test {
@declarations@
std::span<const EmulatedKernel> emulated_kernels() {
  static const std::vector<EmulatedKernel> all = [] {
    std::vector<EmulatedKernel> kernels;
@calls@    return kernels;
  }();
  return all;
}
}
]])
  set(${variable} "${sources}" PARENT_SCOPE)
endfunction()
