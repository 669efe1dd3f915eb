# The commands of the README. Each does everything it needs, on a fresh Debian machine with Swift.

.PHONY: demo test test-long lint typecheck-apple bench format dependencies

SWIFT ?= swift
# Given to every debug build, so that lint and test share one.
BUILD_FLAGS ?=
STRICT = -Xswiftc -warnings-as-errors

demo: dependencies
	@$(SWIFT) build -c release --product roundtable
	@.build/release/roundtable demo

# In three parts: the tests with real processes measure time, and the walks through the writer queue and the change ring use all of it.
define run_tests
	$(1) $(SWIFT) test --skip-build --skip RoundtableProcessTests --skip ModelTests
	$(1) $(SWIFT) test --skip-build --filter RoundtableProcessTests
	$(1) $(SWIFT) test --skip-build --filter ModelTests
endef

test: dependencies
	$(SWIFT) build --build-tests $(BUILD_FLAGS)
	$(call run_tests,)

# The same, with all rounds and the larger worlds.
test-long: dependencies
	$(SWIFT) build --build-tests $(BUILD_FLAGS)
	$(call run_tests,ROUNDTABLE_LONG=1)

bench: dependencies
	cd Benchmarks && $(SWIFT) build -c release
	cd Benchmarks && for name in read write open history notify observe contention; do .build/release/roundtable-bench $$name || exit 1; done
	cd Benchmarks && .build/release/roundtable-bench commit-tail --seconds 5

lint: dependencies
	$(SWIFT) format lint --strict --recursive --parallel Package.swift Sources Tests Benchmarks
	$(SWIFT) build --build-tests $(STRICT)

# What is for Apple's systems, compiled against stubs of their SDKs. Needs no Mac, and says nothing of how it runs there.
typecheck-apple: dependencies
	$(SWIFT) build $(BUILD_FLAGS)
	@sh scripts/typecheck-apple.sh

format:
	$(SWIFT) format --in-place --recursive --parallel Package.swift Sources Tests Benchmarks

# Installs what is missing and can be installed; says plainly what cannot.
dependencies:
	@sh scripts/dependencies.sh $(SWIFT)
