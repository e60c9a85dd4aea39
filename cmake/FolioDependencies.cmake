# SPDX-License-Identifier: Apache-2.0
# The libraries that folio::tier links: ISA-L, liburing, hiredis. What else it uses is loaded at run time.

# folio_find_linked(variable name): the library, or NOTFOUND. With FOLIO_STATIC_DEPENDENCIES its archive, where there is one of
# position-independent code; else the shared library, which is named then and stands in the global property FOLIO_SHARED_DEPENDENCIES.
function(folio_find_linked variable name)
  if(NOT FOLIO_STATIC_DEPENDENCIES)
    find_library(${variable} ${name})
    return()
  endif()
  set(archive ${variable}_ARCHIVE)
  find_library(${archive} ${CMAKE_STATIC_LIBRARY_PREFIX}${name}${CMAKE_STATIC_LIBRARY_SUFFIX})
  if(${archive})
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/${archive})
    file(CONFIGURE OUTPUT ${folder}/nothing.cpp CONTENT "")
    try_compile(${archive}_IS_PIC ${folder} SOURCES ${folder}/nothing.cpp LINK_OPTIONS -shared
                LINK_LIBRARIES -Wl,-z,text,--whole-archive ${${archive}} -Wl,--no-whole-archive)
  endif()
  if(${archive}_IS_PIC AND NOT DEFINED ${variable})
    set(${variable} ${${archive}} CACHE FILEPATH "Path to a library.")
  endif()
  find_library(${variable} ${name})
  if(${variable} AND NOT ${variable} STREQUAL ${archive})
    message(STATUS "folio: no position-independent archive of ${name} here, so it is linked to ${${variable}}")
    set_property(GLOBAL APPEND PROPERTY FOLIO_SHARED_DEPENDENCIES ${${variable}})
  endif()
endfunction()
