# SPDX-License-Identifier: Apache-2.0
# The installed package: find_package(folio) gives folio::folio, and folio::cuda; with COMPONENTS names or tier, folio::names or folio::tier.
if(NOT FOLIO_INSTALL)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/folio)
install(TARGETS folio EXPORT folio_targets FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS folio_cuda_parts EXPORT folio_targets)
install(EXPORT folio_targets NAMESPACE folio:: FILE folio-targets.cmake DESTINATION ${package_dir})
foreach(name IN ITEMS names tier)
  if(TARGET folio_${name})
    install(TARGETS folio_${name} EXPORT folio_${name}_targets FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(EXPORT folio_${name}_targets NAMESPACE folio:: FILE folio-${name}-targets.cmake DESTINATION ${package_dir})
  endif()
endforeach()
configure_package_config_file(cmake/folio-config.cmake.in folio-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(folio-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/folio-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/folio-config-version.cmake
        DESTINATION ${package_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
