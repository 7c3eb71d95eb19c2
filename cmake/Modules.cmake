# One CMake target per module, and one include directory per target: only targets that link
# to a module find its headers (as "module/header.h"), so the compiler rejects an include for which
# no link is declared.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

find_package(Threads REQUIRED)
find_package(OpenSSL 3 REQUIRED)
if(SLUICE_TESTS OR SLUICE_RELEASE_TESTS)
  find_package(GTest REQUIRED)
  find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
  add_library(rapidcheck INTERFACE)
  target_link_libraries(rapidcheck INTERFACE ${RAPIDCHECK_LIBRARY})
endif()

add_library(sluice_flags INTERFACE)
target_include_directories(sluice_flags INTERFACE ${PROJECT_SOURCE_DIR}/include)
# No fused multiply-add: sliding_counter must compute the same on every machine.
target_compile_options(sluice_flags INTERFACE -ffp-contract=off)
if(PROJECT_IS_TOP_LEVEL)  # A project that adds this one chooses its own warnings.
  target_compile_options(sluice_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                         -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
endif()
target_link_libraries(sluice_flags INTERFACE Threads::Threads)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlapping copies in std::string's operator+ (its bug 105329).
  target_compile_options(sluice_flags INTERFACE -Wno-restrict)
else()
  # Not part of GCC's -Wconversion.
  target_compile_options(sluice_flags INTERFACE -Wno-sign-conversion)
endif()
if(SLUICE_SANITIZE)
  # Clang 14 cannot check calls through function pointers in code with coroutines; GCC has no such
  # check.
  # To check each pointer before it is used takes a seventh of the compile time; the address
  # sanitizer reports a null pointer and a bad access, too.
  target_compile_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE}
                         $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>
                         -fno-sanitize=null,object-size
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
if(SLUICE_SANITIZE STREQUAL "thread")
  # The thread sanitizer does not understand fences. Asio uses them in addition to mutexes, which it
  # does understand.
  target_compile_definitions(sluice_flags INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
if(SLUICE_TESTS OR SLUICE_RELEASE_TESTS)
  # The builds for tests optimize the modules, in which tests spend most of their time. They do not
  # optimize the tests: that would take longer than all else.
  set(test_options $<$<OR:$<CONFIG:Debug>,$<BOOL:${SLUICE_RELEASE_TESTS}>>:-O0>
                   # Of designated initializers, which leave out members on purpose.
                   $<$<CXX_COMPILER_ID:GNU>:-Wno-missing-field-initializers>)
  # What most tests include is parsed once, which saves a quarter of a test's compile time. For
  # ccache to find its users again, a precompiled header must not contain the time of its files.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_headers.cc CONTENT "")
  add_library(sluice_test_headers OBJECT ${PROJECT_BINARY_DIR}/test_headers.cc)
  target_link_libraries(sluice_test_headers PRIVATE sluice_flags GTest::gmock_main rapidcheck)
  target_compile_options(sluice_test_headers PRIVATE
                         $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>
                         ${test_options})
  target_precompile_headers(sluice_test_headers PRIVATE
                            <gmock/gmock.h> <gtest/gtest.h> <rapidcheck/gtest.h> <algorithm>
                            <atomic> <chrono> <functional> <future> <map> <memory> <mutex>
                            <optional> <span> <string> <string_view> <thread> <vector>)
endif()

# sluice_module(core SOURCES a.cc MODULES modules LIBRARIES external libraries TESTS a_test.cc
#             TEST_MODULES modules that only the tests need TESTS_WAIT)
# The module is the current source directory below src/, for example "stores/memory"; its target is
# sluice_<name> with slashes replaced by underscores, its headers are "stores/memory/....h".
# Its unit tests become one program, sluice_<name>_test. TESTS_WAIT: what its tests take is mostly
# waiting, so that builds with a sanitizer, which tests alone use, do not optimize it: that would
# take longer than it saves. A fuzz target that runs it tries half as many inputs then.
function(sluice_module module)
  cmake_parse_arguments(arg "TESTS_WAIT" "" "SOURCES;MODULES;LIBRARIES;TESTS;TEST_MODULES" ${ARGN})
  string(REPLACE "/" "_" name ${module})
  set(target sluice_${name})
  set(include_root ${PROJECT_BINARY_DIR}/modules/${name})
  cmake_path(GET module PARENT_PATH parent)
  file(MAKE_DIRECTORY ${include_root}/${parent})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${module} ${include_root}/${module} SYMBOLIC)

  if(arg_SOURCES)
    set(scope PUBLIC)
    add_library(${target} STATIC ${arg_SOURCES})
    set_property(GLOBAL APPEND PROPERTY sluice_compiled_modules ${target})
    # Without this, GCC copies decisions and requests in pieces that are wider than the words in
    # which they were just written. Such a read waits until the processor has finished the writes.
    target_compile_options(${target} PRIVATE -fno-tree-slp-vectorize)
    if(SLUICE_SANITIZE AND arg_TESTS_WAIT)
      target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O0>)
    endif()
    if(SLUICE_FUZZ)  # The fuzzer learns from the modules' code which inputs are new.
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
  else()  # Headers alone.
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${include_root})
  set(links)
  foreach(other IN LISTS arg_MODULES)
    string(REPLACE "/" "_" other_name ${other})
    list(APPEND links sluice_${other_name})
  endforeach()
  target_link_libraries(${target} ${scope} sluice_flags ${links} ${arg_LIBRARIES})
  if(arg_TESTS AND SLUICE_TESTS)
    sluice_test(${target}_test SOURCES ${arg_TESTS} MODULES ${module} ${arg_TEST_MODULES})
  endif()
endfunction()

# sluice_test(name SOURCES a_test.cc MODULES tested modules LIBRARIES external libraries SHARDS n)
# A program of GoogleTest tests, registered with CTest as one test; with SHARDS as NAME_1 to NAME_n,
# each of which runs a part of them.
function(sluice_test target)
  cmake_parse_arguments(arg "" "SHARDS" "SOURCES;MODULES;LIBRARIES" ${ARGN})
  set(links)
  foreach(module IN LISTS arg_MODULES)
    string(REPLACE "/" "_" name ${module})
    list(APPEND links sluice_${name})
  endforeach()
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE sluice_flags ${links} ${arg_LIBRARIES} GTest::gmock_main
                        rapidcheck)
  target_compile_options(${target} PRIVATE ${test_options})
  target_precompile_headers(${target} REUSE_FROM sluice_test_headers)
  # The thread sanitizer else ends a child of fork() that starts threads, as some tests do.
  set(environment TSAN_OPTIONS=die_after_fork=0)
  if(NOT arg_SHARDS)
    add_test(NAME ${target} COMMAND ${target})
    set_tests_properties(${target} PROPERTIES ENVIRONMENT ${environment})
    return()
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${target}_${shard} COMMAND ${target})
    set_tests_properties(${target}_${shard} PROPERTIES ENVIRONMENT
      "${environment};GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# sluice_optimize_test(name)
# For a test that computes for longer than it takes to optimize it.
function(sluice_optimize_test target)
  target_compile_options(${target} PRIVATE -O1)
  # The precompiled headers are those of tests that are not optimized.
  set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
endfunction()
