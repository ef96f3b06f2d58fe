# The root module is the library. The command, the analyzer, the observers, the drivers for databases and Redis, and the
# adapters to other projects have dependencies that the library does not need, so they are separate modules, as is
# integration/, which has everything that needs a server. Modules come after those that they require.
PARTS := . contrib coordinator/observe/otelobserve coordinator/observe/promobserve coordinator/redis coordinator/sql cmd/baton cmd/batonvet
MODULES := $(PARTS) integration

# The linter's version. An installed linter is used instead of compiling this one.
GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT ?= $(shell command -v golangci-lint || ls "$$(go env GOPATH)/bin/golangci-lint" 2>/dev/null || echo go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION))

# Tools of the release, compiled on first use: seconds each. An installed one is used with, for example, APIDIFF=apidiff.
ACTIONLINT ?= go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
APIDIFF ?= go run golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4
BENCHSTAT ?= go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
GOVULNCHECK ?= go run golang.org/x/vuln/cmd/govulncheck@v1.9.0
GORELEASER ?= go run github.com/goreleaser/goreleaser/v2@v2.15.0
CYCLONEDX ?= go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
export ACTIONLINT APIDIFF BENCHSTAT GOVULNCHECK GORELEASER CYCLONEDX

# The systems that check-platforms compiles and vets for, besides this one.
PLATFORMS := linux/amd64 linux/arm64 linux/386 darwin/arm64 windows/amd64

# For make apicheck: a commit or tag to compare with instead of the last release.
BASE ?=

# Time for each benchmark of make microbench.
BENCHTIME ?= 1s

# Seconds for each fuzz target.
FUZZTIME ?= 10s

# Numbers of simulated worlds.
SEEDS ?= 5000
RACE_SEEDS ?= 500

# Runs of make partition on each service, and the time of make pauses for each row of its table.
RUNS ?= 100
PAUSES ?= 60s

# For make outages: the TTLs, the number of holders, and how often failovers are counted instead; ONLY selects "etcd-3/silent".
TTLS ?= 10s
HOLDERS ?= 60
ROUNDS ?= 0
ONLY ?=

# The tests of make faults: those in integration/faults_*_test.go.
FAULTS := $(shell sed -n 's/^func \(Test[A-Za-z0-9]*\).*/^\1$$|/p' integration/faults_*_test.go | tr -d '\n' | sed 's/|$$//')

# For make soak: minutes on each service, and the service: etcd, zookeeper or all.
MINUTES ?= 10
SERVICE ?= all

# The port of make serve; 0: any free port.
PORT ?= 0

ROOT_DEPS := integration/testdata/root-deps.golden

# Stamping needs a working git, and tests do not need it.
export GOFLAGS += -buildvcs=false

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Compile all modules
	@set -e; for dir in $(MODULES); do (cd $$dir && go build ./...); done

.PHONY: test
test: ## Run the tests, on real etcd and ZooKeeper; as root on Debian, install missing programs
	.ci/deps
	.ci/test-integration -ring test

.PHONY: test-all
test-all: ## Run the tests, 20,000 worlds, and the tests of faults, versions, other libraries and releases
	.ci/deps
	.ci/test-integration -ring all

.PHONY: conformance
conformance: ## Run the suite of the driver contract, and programs of two versions, on the servers of make servers
	.ci/test-integration -run '^(TestConformance|TestVersionsShareQueues)'

.PHONY: servers
servers: ## Copy ETCD=3.6.5 or ZOOKEEPER=3.9 from container images; prints the environment that selects them
	@.ci/servers build/servers "$(ETCD)" "$(ZOOKEEPER)"

.PHONY: interop
interop: ## Share queues with Curator, go-zookeeper, Kazoo, etcd's concurrency and etcdctl, on real servers
	.ci/deps
	cd integration && go test -race -count=1 -timeout 20m -parallel 2 -v -run '^TestConformanceOfForeignLayouts$$' .
	cd integration && go test -race -count=1 -timeout 20m -parallel 2 -v ./interop

.PHONY: faults
faults: ## Run all fault tests, including the expensive ones: about twenty minutes
	.ci/deps
	BATON_FAULTS=all .ci/test-integration -run '$(FAULTS)'

.PHONY: test-short
test-short: ## Run the tests that need no server, in a minute
	go test $$(go list ./... | grep -v '/docs')
	@set -e; for dir in $(filter-out .,$(PARTS)); do (cd $$dir && go test ./...); done
	cd integration && go test ./simulation

.PHONY: simulate
simulate: ## Run SEEDS (5000) simulated worlds, and RACE_SEEDS (500) others under the race detector; the same in each run
	cd integration && BATON_SEEDS=$(SEEDS) go test -count=1 -v -timeout 30m -run 'TestSimulationOnMemory$$' ./simulation
	$(if $(filter-out 0,$(RACE_SEEDS)),cd integration && BATON_SEEDS=$(RACE_SEEDS) BATON_SIM_BASE=1000001 go test -count=1 -v -race -timeout 30m -run 'TestSimulationOnMemory$$' ./simulation)

.PHONY: simulate-recipes
simulate-recipes: ## Run SEEDS (5000) simulated worlds for partitions, counters, onces and both barriers, and for the quorum; 12 minutes
	BATON_SEEDS=$(SEEDS) go test -count=1 -v -timeout 60m -run 'TestPartitionUnderFaults$$|TestCallsAreLinearizable$$|TestRoundsUnderFaults$$|TestCallsAgreeWithTheHistoryOfTheRecord$$|TestQuorumUnderFaults$$' \
		./recipes/partition ./recipes/counter ./recipes/once ./recipes/barrier ./recipes/doublebarrier ./recipes/multilock/quorum

.PHONY: partition
partition: ## Cut RUNS (100) holders off from each service, and print how early each noticed its loss
	cd integration && BATON_PARTITIONS=$(RUNS) go test -count=1 -timeout 60m -run '^TestPartitionedHolderIsNotifiedBeforeTheNextGrant$$'

.PHONY: pauses
pauses: ## Stop holders for longer than their TTL, for PAUSES (60s) with each library, and print the lost updates
	cd integration && BATON_PAUSES=$(PAUSES) go test -count=1 -timeout 6h -run '^TestPausedHoldersLoseNoUpdateIfTheTokenIsChecked$$'

.PHONY: outages
outages: ## Print the longest outages that HOLDERS (60) holds survive at TTLS (10s); with ROUNDS=20 count the holds that failovers cost
	.ci/deps
	cd integration && BATON_OUTAGES='$(TTLS)' BATON_OUTAGE_HOLDERS='$(HOLDERS)' BATON_OUTAGE_ROUNDS='$(ROUNDS)' BATON_OUTAGE_ONLY='$(ONLY)' \
		go test -count=1 -timeout 6h -run '^TestHoldsSurviveASilentOutageOfMostOfTheTTL$$'

.PHONY: soak
soak: ## Inject all faults for MINUTES (10) into SERVICE (etcd, zookeeper, all) and run the simulation; prints figures
	.ci/soak $(MINUTES) $(SERVICE)

.PHONY: model
model: ## Check the Spin models, and that wrong variants are refuted; FULL=1: larger runs, too
	docs/model/run.sh

.PHONY: mutants
mutants: ## Break the protocol's rules one by one, and check that tests fail; MUTANTS=regexp selects some
	cd integration && go run ./cmd/mutants -run '$(MUTANTS)'

.PHONY: reproduce
reproduce: ## Show each fault of docs/track-record.md on the code before it was mended; NAME=name selects one
	cd integration && go run ./cmd/reproduce -name '$(NAME)'

.PHONY: bench
bench: ## Compare Baton with bare clients and other libraries, and rewrite docs/benchmarks.md; QUICK=1: two minutes, no docs
	.ci/deps
	cd integration && go run ./cmd/bench $(if $(QUICK),-quick,-docs ..)

.PHONY: microbench
microbench: ## Measure Baton's own cost on the memory service, six times, for benchstat
	go test -run '^$$' -bench . -benchtime $(BENCHTIME) -count 6 ./mutex ./rwlock ./semaphore ./election

.PHONY: benchcompare
benchcompare: ## Compare microbench of the last release, or BASE, with this tree's, with benchstat: some minutes
	.ci/benchcompare $(BASE)

.PHONY: demo
demo: ## Show how a lock survives a kill and a pause, on an embedded etcd or on DEMO_URL (zk://host:2181)
	cd integration && go run ./cmd/demo

.PHONY: serve
serve: ## Start an etcd on loopback for trials, on PORT or any free port; Ctrl-C ends it and deletes its data
	@cd integration && go build -o ../build/serve ./cmd/serve && exec ../build/serve -port $(PORT)

.PHONY: quickstart
quickstart: ## Run the smallest example, which needs no server
	go run ./examples/quickstart

.PHONY: check
check: fmt-check vet check-platforms tidy-check check-documents ## Run the static checks that need only Go

.PHONY: check-documents
check-documents: ## Test pages, workflows, and the tables of mutants and of rings
	cd integration && go run ./cmd/tests -ring check

.PHONY: check-platforms
check-platforms: ## Compile and vet library, observers and command for PLATFORMS; with an empty build cache a minute each
	@set -e; for platform in $(filter-out $(shell go env GOOS)/$(shell go env GOARCH),$(PLATFORMS)); do \
		export GOOS=$${platform%/*} GOARCH=$${platform#*/} CGO_ENABLED=0; \
		for dir in $(PARTS); do (cd $$dir && go vet ./...) || { echo "on $$platform, in $$dir"; exit 1; }; done; \
		(cd cmd/baton && go build -o /dev/null .); \
	done

.PHONY: test-386
test-386: ## Run the tests that need no server on 32 bits, on a machine that can: linux/amd64 can
	@set -e; for dir in $(PARTS); do (cd $$dir && GOARCH=386 CGO_ENABLED=0 go test ./...); done

.PHONY: apicheck
apicheck: ## Fail if the API broke since the last release, or BASE, and CHANGELOG.md does not say so
	.ci/apicheck $(BASE)

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in what the code calls; says so if their database cannot be reached
	.ci/vulncheck $(PARTS)

.PHONY: fmt-check
fmt-check: ## Fail if a file is not gofmt'ed
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not gofmt'ed:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## Run go vet on all modules
	@set -e; for dir in $(MODULES); do (cd $$dir && go vet ./...); done

.PHONY: lint-ci
lint-ci: ## Check the workflow files with actionlint, and the scripts with shellcheck
	@files=$$(ls .github/workflows/*.yml) && $(ACTIONLINT) $$files
	shellcheck .ci/* docs/model/run.sh

.PHONY: lint
lint: lint-ci ## Run golangci-lint on all modules; if it is not installed, compile it first (minutes)
	@set -e; for dir in $(MODULES); do (cd $$dir && $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: tidy-check
tidy-check: ## Fail if a go.mod is not tidy or the library's direct dependencies changed
	@set -e; for dir in $(MODULES); do (cd $$dir && go mod tidy -diff); done
	@go list -m -f '{{if not (or .Indirect .Main)}}{{.Path}}{{end}}' all | sort | diff -u $(ROOT_DEPS) - \
		|| { echo "the library's direct dependencies changed: to accept them, run make tidy-accept"; exit 1; }

.PHONY: tidy-accept
tidy-accept: ## Record the library's current direct dependencies
	go list -m -f '{{if not (or .Indirect .Main)}}{{.Path}}{{end}}' all | sort > $(ROOT_DEPS)

.PHONY: cover
cover: ## Measure the coverage of the root module's tests; the report is build/cover.html
	@mkdir -p build
	go test -coverpkg=./... -coverprofile=build/cover.out ./...
	go tool cover -html=build/cover.out -o build/cover.html
	@go tool cover -func=build/cover.out | tail -1

.PHONY: fuzz-short
fuzz-short: ## Fuzz each target of all modules for FUZZTIME (10s)
	@set -e; for dir in $(MODULES); do \
		for pkg in $$(cd $$dir && go list ./...); do \
			for target in $$(cd $$dir && go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
				echo "$$pkg $$target"; \
				(cd $$dir && go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg); \
			done; \
		done; \
	done

.PHONY: manuals
manuals: ## Write what the command's archives contain besides it below build/manuals: man pages, completions, licences
	@rm -rf build/manuals && mkdir -p build/manuals/man build/manuals/completion
	.ci/licences build/manuals/licences
	cd cmd/baton && go run . man ../../build/manuals/man
	@set -e; cd cmd/baton; for shell in bash zsh fish powershell; do go run . completion $$shell > ../../build/manuals/completion/baton.$$shell; done

.PHONY: sbom
sbom: ## Write the modules and licences in the command and the library below build/sbom, in CycloneDX
	@mkdir -p build/sbom
	$(CYCLONEDX) app -json -licenses -std -output build/sbom/baton.cdx.json cmd/baton
	$(CYCLONEDX) mod -json -licenses -output build/sbom/library.cdx.json .

.PHONY: binaries
binaries: manuals ## Build the command's archives for all systems below build/dist with goreleaser, and publish nothing
	$(GORELEASER) release --snapshot --clean

.PHONY: publish
publish: ## For the workflow of a release: build the archives and publish them with the notes of CHANGELOG.md
	@mkdir -p build
	awk '/^## \[/ {on = !seen && !/Unreleased/; seen = seen || on; next} on' CHANGELOG.md > build/notes.md
	$(GORELEASER) release --clean --release-notes build/notes.md

# It refuses at once what it would refuse after the tests.
.PHONY: release
release: ## Check everything, and tag all modules as VERSION (v0.1.0); publishes nothing (RELEASING.md)
	.ci/release -n "$(VERSION)" $(PARTS)
	$(GORELEASER) check
	.ci/run
	$(MAKE) test-all
	.ci/release "$(VERSION)" $(PARTS)

.PHONY: clean
clean: ## Delete the build directory
	rm -rf build
