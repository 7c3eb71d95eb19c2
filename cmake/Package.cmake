# Debian packages, one for each component of Install.cmake. `make package` makes them, and tells
# CPack in which folders the components were built.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The Sluice project")
set(CPACK_PACKAGE_CONTACT "The Sluice project")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # Each component has its own.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/debian.cmake)

set(CPACK_COMPONENTS_ALL program runtime development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# A program that was linked with this version depends on it or on a later one of the same soname.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME sluice)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION net)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "Rate limits, exact and fast: the server
It answers Redis clients, keeps its state in memory, Redis or Memcached,
and replays access logs to show which requests a limit would have denied.")

# Two sonames can be installed side by side, as Debian's policy requires.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libsluice${sluice_soversion})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Rate limits, exact and fast: the shared library
Programs that are linked with it need it to run.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libsluice-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libsluice${sluice_soversion} (= ${PROJECT_VERSION}), libssl-dev (>= 3)")
# Only for sluice/asio.h; Debian 12's libboost-dev is an earlier version.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libboost1.81-dev | libboost-dev (>= 1.81)")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Rate limits, exact and fast: headers and libraries
For building programs with it: the headers, the static library, and files for
CMake and pkg-config.")

include(CPack)
