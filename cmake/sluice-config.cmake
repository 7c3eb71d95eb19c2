# find_package(sluice) defines sluice::static, sluice::shared, and sluice::sluice, which is the
# shared library if BUILD_SHARED_LIBS is on, else the static one.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(OpenSSL 3)
include(${CMAKE_CURRENT_LIST_DIR}/sluice-targets.cmake)
if(NOT TARGET sluice::sluice)
  if(BUILD_SHARED_LIBS)
    add_library(sluice::sluice ALIAS sluice::shared)
  else()
    add_library(sluice::sluice ALIAS sluice::static)
  endif()
endif()
