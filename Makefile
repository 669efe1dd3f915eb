# The commands of the README. Each does everything it needs, on a fresh Debian machine with Swift.

.PHONY: demo examples test test-long test-sqlcipher lint typecheck-apple bench bench-build bench-short format dependencies

SWIFT ?= swift
# Given to every debug build, so that lint and test share one.
BUILD_FLAGS ?=
STRICT = -Xswiftc -warnings-as-errors

demo: dependencies
	@echo "Building the tool for release: 3 to 5 minutes on two cores the first time, seconds after that. The demo then runs for 5 seconds."
	@bash scripts/with-progress.sh "building for release" $(SWIFT) build -c release --product roundtable
	@.build/release/roundtable demo

examples: dependencies
	bash scripts/examples.sh $(SWIFT)

# In three parts: the tests with real processes measure time, and the walks through state machines
# (writer queue, change ring, suspension gate) use all of the processors.
# One after the other: tests that wait for each other's threads, and for two processors, fail by their deadlines.
define run_tests
	$(1) bash scripts/test.sh $(SWIFT) test --skip-build --no-parallel --skip RoundtableProcessTests --skip ModelTests
	$(1) bash scripts/test.sh $(SWIFT) test --skip-build --filter RoundtableProcessTests
	$(1) bash scripts/test.sh $(SWIFT) test --skip-build --filter ModelTests
endef

test: dependencies
	$(SWIFT) build --build-tests $(BUILD_FLAGS)
	$(call run_tests,)

# The same, with all rounds and the larger worlds.
test-long: dependencies
	$(SWIFT) build --build-tests $(BUILD_FLAGS)
	$(call run_tests,ROUNDTABLE_LONG=1)

# Of the tests with real processes, those that depend most on SQLite; all of them with ROUNDTABLE_LONG=1.
SQLCIPHER_PROCESS_TESTS = ProcessTests/(EncryptionBetweenProcesses|Checkpoints|Closing|Extensions|HistoryBetweenProcesses|StrangerObservation|WALHealthTests)/

# With SQLCipher in SQLite's place: what encrypts, and the rest without a key, since its SQLite is newer.
test-sqlcipher: dependencies
	$(SWIFT) build --build-tests $(BUILD_FLAGS)
	bash scripts/sqlcipher.sh bash scripts/test.sh $(SWIFT) test --skip-build --no-parallel --skip RoundtableProcessTests --skip ModelTests
	bash scripts/sqlcipher.sh bash scripts/test.sh $(SWIFT) test --skip-build \
		--filter '$(if $(ROUNDTABLE_LONG),RoundtableProcessTests,$(SQLCIPHER_PROCESS_TESTS))'

# Builds the benchmarks as `make bench` does, and runs one for some seconds: that it runs and counts right, not how fast it is.
bench-short: bench-build
	cd Benchmarks && .build/release/roundtable-bench contention --processes 4 --seconds 2
	cd Benchmarks && .build/release/roundtable-bench read --seconds 1
	cd Benchmarks && .build/release/roundtable-bench footprint --rounds 5

bench-build: dependencies
	@echo "Building the benchmarks for release: 3 to 5 minutes on two cores the first time."
	cd Benchmarks && bash ../scripts/with-progress.sh "building the benchmarks" $(SWIFT) build -c release

bench: bench-build
	cd Benchmarks && for name in read write open history notify observe contention; do .build/release/roundtable-bench $$name || exit 1; done
	cd Benchmarks && .build/release/roundtable-bench commit-tail --seconds 5
	cd Benchmarks && .build/release/roundtable-bench sharing --seconds 2 --waiting 2000
	cd Benchmarks && .build/release/roundtable-bench extensions --seconds 2 --rows 100000

lint: dependencies
	sh scripts/guides.sh check
	sh scripts/protocol.sh
	SWIFT=$(SWIFT) sh scripts/layout.sh check
	$(SWIFT) format lint --strict --recursive --parallel Package.swift Sources Tests Benchmarks Examples
	$(SWIFT) build --build-tests $(STRICT)

# What is for Apple's systems, compiled against stubs of their SDKs. Needs no Mac, and says nothing of how it runs there.
typecheck-apple: dependencies
	$(SWIFT) build $(BUILD_FLAGS)
	@sh scripts/typecheck-apple.sh

format:
	$(SWIFT) format --in-place --recursive --parallel Package.swift Sources Tests Benchmarks Examples

# Installs what is missing and can be installed; says plainly what cannot.
dependencies:
	@sh scripts/dependencies.sh $(SWIFT)
