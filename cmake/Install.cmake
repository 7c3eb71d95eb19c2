# What `cmake --install` installs, by component:
#   program      the program, sluice, if SLUICE_PROGRAM builds it, its man pages, and the
#                documentation
#   runtime      libsluice.so.VERSION, for programs that are linked with it
#   development  the headers, libsluice.a, and the files for find_package(sluice) and pkg-config
# The last two need SLUICE_LIBRARY. Projects that add this one with add_subdirectory() need neither:
# they link sluice::sluice, which is then the modules themselves.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(sluice_modules INTERFACE)
target_link_libraries(sluice_modules INTERFACE sluice_limiter sluice_stores)
add_library(sluice::sluice ALIAS sluice_modules)

if(NOT PROJECT_IS_TOP_LEVEL AND NOT SLUICE_LIBRARY)
  return()
endif()

if(SLUICE_PROGRAM)
  install(TARGETS sluice COMPONENT program)
  install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  # The ExecStart of the service has no folder: systemd finds the program in /usr and in /usr/local.
  install(FILES packaging/systemd/sluice.service packaging/systemd/sluice.socket
          DESTINATION lib/systemd/system COMPONENT program)
  install(FILES packaging/grafana/sluice.json
          DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/grafana COMPONENT program)
  install(FILES packaging/prometheus/sluice-alerts.yaml
          DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/prometheus COMPONENT program)
  # The pages, in the layout of this project, with all that they link to.
  install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md
          TYPE DOC COMPONENT program)
  install(DIRECTORY docs examples TYPE DOC COMPONENT program PATTERN man EXCLUDE
          PATTERN build EXCLUDE)
  install(DIRECTORY include/sluice DESTINATION ${CMAKE_INSTALL_DOCDIR}/include COMPONENT program)
  install(DIRECTORY src/algorithms DESTINATION ${CMAKE_INSTALL_DOCDIR}/src COMPONENT program
          FILES_MATCHING PATTERN *.md PATTERN *.svg)
endif()
if(NOT SLUICE_LIBRARY)
  return()
endif()

# Before 1.0 a minor version may change the binary interface.
set(sluice_soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(objects)
foreach(module IN LISTS library_modules)  # From src/CMakeLists.txt.
  list(APPEND objects $<TARGET_OBJECTS:${module}>)
endforeach()

foreach(kind STATIC SHARED)
  string(TOLOWER ${kind} name)
  set(target sluice_${name})
  add_library(${target} ${kind} ${objects})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME sluice
                        EXPORT_NAME ${name} VERSION ${PROJECT_VERSION}
                        SOVERSION ${sluice_soversion})
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_link_libraries(${target} PRIVATE OpenSSL::SSL OpenSSL::Crypto Threads::Threads)
  install(TARGETS ${target} EXPORT sluice
          ARCHIVE COMPONENT development
          LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()
# If a module is missing from this list, this link fails, and not that of a user's program.
target_link_options(sluice_shared PRIVATE -Wl,-z,defs)

install(DIRECTORY include/sluice TYPE INCLUDE COMPONENT development)

# For find_package(sluice) and pkg-config. Both use paths relative to themselves, so that the
# installed tree can be moved, and staged with DESTDIR.
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
install(EXPORT sluice FILE sluice-targets.cmake NAMESPACE sluice:: DESTINATION ${package_folder}
        COMPONENT development)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sluice-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES cmake/sluice-config.cmake ${PROJECT_BINARY_DIR}/sluice-config-version.cmake
        DESTINATION ${package_folder} COMPONENT development)

cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
           BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE way_to_prefix)
configure_file(cmake/sluice.pc.in sluice.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sluice.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT development)

include(Package)
