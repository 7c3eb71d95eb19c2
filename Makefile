# The commands for people. Each target installs the packages that it needs (tools/packages.txt), and
# builds only what has changed. CMakePresets.json has the configuration of each build folder.

FUZZ_SECONDS ?= 60
SOAK_SCALE ?= 50
JOBS ?= $(shell nproc)
# Most tests wait most of the time, for servers and for time to pass.
TEST_JOBS ?= $(shell expr 2 \* $(JOBS))
PREFIX ?= /usr/local

# `make run` and `make build` need no test packages, so the release folder is configured without
# tests. The tests are built in the debug folder and use the release binary from its place.
RELEASE_OPTIONS := -DSLUICE_TESTS=OFF
# The libraries have a separate build folder: they need position-independent code, the program does
# not, and only the program is optimized across files. $(1) is the prefix for the installation, $(2)
# further options.
LIBRARY = cmake --preset library -DCMAKE_INSTALL_PREFIX="$(1)" $(2) >/dev/null && \
  $(call BUILD,library)
# For CPack, per build folder: folder; project; components; place in the package.
PACKAGED := $(CURDIR)/build/release;sluice;ALL;/;$(CURDIR)/build/library;sluice;ALL;/
# --fresh, because an old folder may have another compiler than the preset: CMake would then switch
# the compiler and drop the preset's other settings, such as the sanitizers.
CONFIGURE = cmake --fresh --preset $(1) >/dev/null
BUILD = cmake --build --preset $(1) -j$(JOBS)
CTEST = ctest --test-dir build/$(1) --output-on-failure --no-tests=error

.PHONY: help build run test bench fuzz soak lint format clean test-build install package docs

help:
	@echo "make build    builds build/release/sluice"
	@echo "make run      builds, replays the sample log, then serves on 127.0.0.1:6380 and 8080"
	@echo "make install  the program, the library and its headers, below PREFIX=$(PREFIX)"
	@echo "make package  makes Debian packages of them in build/packages"
	@echo "make docs     generates the API reference, build/docs/html/index.html"
	@echo "make test     tidy, unit, conformance and system tests, and the README's commands"
	@echo "make bench    runs the benchmarks and writes docs/benchmarks.md"
	@echo "make fuzz     runs each fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS)"
	@echo "make soak     runs property tests SOAK_SCALE=$(SOAK_SCALE) times longer, and abuse in full"
	@echo "make lint     clang-format and clang-tidy: changed files, or FILES=all"
	@echo "make format   formats all C++ files in place"
	@echo "make clean    removes build/"

build/release/build.ninja: CMakePresets.json
	@$(call CONFIGURE,release $(RELEASE_OPTIONS))
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

# Programs find the shared library only after ldconfig. A tree in DESTDIR is for another machine.
# The umask lets every user of the machine read what is installed, here and by a package.
install: build
	@$(call LIBRARY,$(PREFIX))
	@umask 022; DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)" \
	  --component program
	@umask 022; DESTDIR="$(DESTDIR)" cmake --install build/library
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || /sbin/ldconfig

package: build
	@tools/setup package
	@$(call LIBRARY,/usr)
	@rm -rf build/packages
	@umask 022; cd build/library && cpack -B ../packages -D CPACK_INSTALL_CMAKE_PROJECTS="$(PACKAGED)"

docs:
	@tools/setup docs
	@mkdir -p build/docs
	@doxygen docs/api/Doxyfile

# Installs the packages that the tests need, and builds the tests.
test-build: build
	@tools/setup test system
	@$(MAKE) -s build/debug/build.ninja
	@$(call BUILD,debug)

# The tests for which a sanitizer is too slow are built with the library, and run first. Of these,
# the ones that measure times have the machine to themselves, four at once, since they mostly wait.
# ctest's last summary covers build/debug alone, so one more line says so if an earlier one failed.
test: test-build
	@$(call LIBRARY,$(PREFIX),-DSLUICE_RELEASE_TESTS=ON)
	@$(call CTEST,library) -j4 -L timed; timed=$$?; \
	$(call CTEST,library) -j$(TEST_JOBS) -LE timed; full=$$?; \
	$(call CTEST,debug) -j$(TEST_JOBS); others=$$?; \
	[ $$((timed | full)) -eq 0 ] || echo "Tests in build/library, which ran first, failed."; \
	exit $$((timed | full | others))

soak: test-build
	@SLUICE_TEST_SCALE=$(SOAK_SCALE) $(call CTEST,debug) -V --timeout 86400 \
	  -R 'conformance|abuse|sluice_stores_memory_test'

bench:
	@tools/setup run bench
	@bench/run

fuzz:
	@tools/setup run test
	@$(MAKE) -s build/fuzz/build.ninja
	@$(call BUILD,fuzz) --target fuzz_targets
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
