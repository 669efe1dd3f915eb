# The commands of the README. Each does everything it needs, on a fresh Debian machine with Swift.

.PHONY: demo test test-long lint bench format dependencies

SWIFT ?= swift
# Given to every debug build, so that lint and test share one.
BUILD_FLAGS ?=
STRICT = -Xswiftc -warnings-as-errors

demo: dependencies
	@$(SWIFT) build -c release --product roundtable
	@.build/release/roundtable demo

test: dependencies
	$(SWIFT) build --build-tests $(BUILD_FLAGS)
	$(SWIFT) test --skip-build --skip RoundtableProcessTests
	$(SWIFT) test --skip-build --filter RoundtableProcessTests

# The same, with all rounds and the larger worlds.
test-long: dependencies
	$(SWIFT) build --build-tests $(BUILD_FLAGS)
	ROUNDTABLE_LONG=1 $(SWIFT) test --skip-build --skip RoundtableProcessTests
	ROUNDTABLE_LONG=1 $(SWIFT) test --skip-build --filter RoundtableProcessTests

bench: dependencies
	cd Benchmarks && $(SWIFT) build -c release
	cd Benchmarks && for name in read write open contention; do .build/release/roundtable-bench $$name || exit 1; done

lint: dependencies
	$(SWIFT) format lint --strict --recursive --parallel Package.swift Sources Tests Benchmarks
	$(SWIFT) build --build-tests $(STRICT)

format:
	$(SWIFT) format --in-place --recursive --parallel Package.swift Sources Tests Benchmarks

# Installs what is missing and can be installed; says plainly what cannot.
dependencies:
	@sh scripts/dependencies.sh $(SWIFT)
