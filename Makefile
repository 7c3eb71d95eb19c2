# What a person types. Each target installs what it needs (tools/packages.txt), and builds only what
# changed. CMakePresets.json says how each build folder is configured.

FUZZ_SECONDS ?= 60
SOAK_SCALE ?= 50
JOBS ?= $(shell nproc)

# run and build need no test packages, so the release folder is configured without the tests; the
# tests live in the debug folder and find the release binary where it is.
RELEASE_OPTIONS := -DSLUICE_TESTS=OFF
FUZZ_OPTIONS := -DSLUICE_TESTS=OFF
BUILD = cmake --build --preset $(1) -- -j$(JOBS)
CTEST = ctest --test-dir build/$(1) --output-on-failure --no-tests=error

.PHONY: help build run test bench fuzz soak lint format clean test-build

help:
	@echo "make build    builds build/release/sluice"
	@echo "make run      builds, replays the sample log, then serves on 127.0.0.1:6380"
	@echo "make test     tidy, unit, conformance and system tests, and the README's commands"
	@echo "make bench    measures against redis-server and others, see docs/benchmarks.md"
	@echo "make fuzz     runs each fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS)"
	@echo "make soak     runs the property tests SOAK_SCALE=$(SOAK_SCALE) times longer"
	@echo "make lint     clang-format and clang-tidy: changed files, or FILES=all"
	@echo "make format   formats all C++ files in place"
	@echo "make clean    removes build/"

build/release/build.ninja: CMakePresets.json
	@cmake --preset release $(RELEASE_OPTIONS) >/dev/null
	@touch $@

build/fuzz/build.ninja: CMakePresets.json
	@cmake --preset fuzz $(FUZZ_OPTIONS) >/dev/null
	@touch $@

build/%/build.ninja: CMakePresets.json
	@cmake --preset $* >/dev/null
	@touch $@

build:
	@tools/setup run
	@$(MAKE) -s build/release/build.ninja
	@$(call BUILD,release)

run: build
	@exec tools/demo build/release/sluice

# The tests' own build, after the packages they need.
test-build: build
	@tools/setup test
	@$(MAKE) -s build/debug/build.ninja
	@$(call BUILD,debug)

test: test-build
	@$(call CTEST,debug) -j2

soak: test-build
	@SLUICE_TEST_SCALE=$(SOAK_SCALE) $(call CTEST,debug) -R conformance --timeout 86400 -V

bench:
	@tools/setup run bench
	@bench/run

fuzz:
	@tools/setup run fuzz
	@$(MAKE) -s build/fuzz/build.ninja
	@cmake --build --preset fuzz --target fuzz_targets -- -j$(JOBS)
	@tools/fuzz build/fuzz $(FUZZ_SECONDS)

lint:
	@tools/setup run test lint
	@$(MAKE) -s build/debug/build.ninja
	@tools/lint $(FILES)

format:
	@tools/setup lint
	@tools/lint format

clean:
	@rm -rf build
