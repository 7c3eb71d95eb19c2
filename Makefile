# What a person types. Each target installs what it needs (tools/packages.txt), and builds only what
# changed. CMakePresets.json says how each build folder is configured.

FUZZ_SECONDS ?= 60
SOAK_SCALE ?= 50
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local

# run and build need no test packages, so the release folder is configured without the tests; the
# tests live in the debug folder and find the release binary where it is.
RELEASE_OPTIONS := -DSLUICE_TESTS=OFF
FUZZ_OPTIONS := -DSLUICE_TESTS=OFF
# The libraries have a build folder of their own: the program needs no position-independent code,
# and is optimized across its files. They are compiled file by file, as in a program that adds this
# project. $(1) is the prefix: it decides in which folder below it they belong.
LIBRARY = cmake --preset library -DCMAKE_INSTALL_PREFIX="$(1)" >/dev/null && $(call BUILD,library)
# Folder; project; components; where in the package: what each build folder gives to the packages.
PACKAGED := $(CURDIR)/build/release;sluice;ALL;/;$(CURDIR)/build/library;sluice;ALL;/
# An old folder is configured anew: had it another compiler than the preset, CMake would take the
# preset's compiler and forget what else the preset sets, the sanitizers too.
CONFIGURE = cmake --fresh --preset $(1) >/dev/null
BUILD = cmake --build --preset $(1) -- -j$(JOBS)
CTEST = ctest --test-dir build/$(1) --output-on-failure --no-tests=error

.PHONY: help build run test bench fuzz soak lint format clean test-build install package docs

help:
	@echo "make build    builds build/release/sluice"
	@echo "make run      builds, replays the sample log, then serves on 127.0.0.1:6380"
	@echo "make install  the program, the library and its headers, below PREFIX=$(PREFIX)"
	@echo "make package  makes Debian packages of them in build/packages"
	@echo "make docs     makes the reference of the library, build/docs/html/index.html"
	@echo "make test     tidy, unit, conformance and system tests, and the README's commands"
	@echo "make bench    runs the measurements of docs/benchmarks.md"
	@echo "make fuzz     runs each fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS)"
	@echo "make soak     runs the property tests SOAK_SCALE=$(SOAK_SCALE) times longer"
	@echo "make lint     clang-format and clang-tidy: changed files, or FILES=all"
	@echo "make format   formats all C++ files in place"
	@echo "make clean    removes build/"

build/release/build.ninja: CMakePresets.json
	@$(call CONFIGURE,release $(RELEASE_OPTIONS))
	@touch $@

build/fuzz/build.ninja: CMakePresets.json
	@$(call CONFIGURE,fuzz $(FUZZ_OPTIONS))
	@touch $@

build/%/build.ninja: CMakePresets.json
	@$(call CONFIGURE,$*)
	@touch $@

build:
	@tools/setup run
	@$(MAKE) -s build/release/build.ninja
	@$(call BUILD,release)

run: build
	@exec tools/demo build/release/sluice

install: build
	@$(call LIBRARY,$(PREFIX))
	@DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)" --component program
	@DESTDIR="$(DESTDIR)" cmake --install build/library

package: build
	@tools/setup package
	@$(call LIBRARY,/usr)
	@rm -rf build/packages
	@cd build/library && cpack -B ../packages -D CPACK_INSTALL_CMAKE_PROJECTS="$(PACKAGED)"

docs:
	@tools/setup docs
	@mkdir -p build/docs
	@doxygen docs/api/Doxyfile

# The tests' own build, after the packages they need.
test-build: build
	@tools/setup test
	@$(MAKE) -s build/debug/build.ninja
	@$(call BUILD,debug)

# Where times are measured comes first, and by itself: it waits most of the time. As ctest's closing
# lines are of the others alone, one more says when the timed tests failed.
test: test-build
	@$(call LIBRARY,$(PREFIX))
	@$(call CTEST,debug) -j2 -L timed; timed=$$?; $(call CTEST,debug) -j2 -LE timed; others=$$?; \
	[ $$timed -eq 0 ] || echo "The timed tests, which ran first, failed."; \
	exit $$((timed | others))

soak: test-build
	@SLUICE_TEST_SCALE=$(SOAK_SCALE) $(call CTEST,debug) -R conformance --timeout 86400 -V

bench:
	@tools/setup run bench
	@bench/run

fuzz:
	@tools/setup run clang
	@$(MAKE) -s build/fuzz/build.ninja
	@cmake --build --preset fuzz --target fuzz_targets -- -j$(JOBS)
	@tools/fuzz build/fuzz $(FUZZ_SECONDS)

lint:
	@tools/setup run test lint
	@$(MAKE) -s build/lint/build.ninja
	@tools/lint $(FILES)

format:
	@tools/setup lint
	@tools/lint format

clean:
	@rm -rf build
