# SPDX-License-Identifier: Apache-2.0
# folio_link_prometheus(target without): prometheus-cpp, or FOLIO_PROMETHEUS is false and a line says what there is not. By hand: the
# package's own file asks for servers and gateways, too.
find_path(FOLIO_PROMETHEUS_INCLUDE prometheus/text_serializer.h DOC "prometheus-cpp")
find_library(FOLIO_PROMETHEUS_CORE prometheus-cpp-core DOC "prometheus-cpp")
set(FOLIO_PROMETHEUS FALSE)
if(FOLIO_PROMETHEUS_INCLUDE AND FOLIO_PROMETHEUS_CORE)
  set(FOLIO_PROMETHEUS TRUE)
endif()

function(folio_link_prometheus target without)
  if(NOT FOLIO_PROMETHEUS)
    message(STATUS "folio: no prometheus-cpp here (Debian: prometheus-cpp-dev), so ${without}")
    return()
  endif()
  target_include_directories(${target} SYSTEM PRIVATE ${FOLIO_PROMETHEUS_INCLUDE})
  target_link_libraries(${target} PRIVATE ${FOLIO_PROMETHEUS_CORE})
endfunction()
