# The root module is the library. The command and the observers that import what a lock does not need are modules
# of their own, and so is integration/, which has everything that needs a server.
PARTS := . cmd/baton coordinator/observe/otelobserve coordinator/observe/promobserve
MODULES := $(PARTS) integration

# The linter, pinned. One that is installed is taken instead of compiling it.
GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT ?= $(shell command -v golangci-lint || ls "$$(go env GOPATH)/bin/golangci-lint" 2>/dev/null || echo go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION))

# Seconds for each fuzz target.
FUZZTIME ?= 10s

# Simulated worlds.
SEEDS ?= 5000
RACE_SEEDS ?= 500

# Runs of make partition on each service, and the time that make pauses takes for each row of its table.
RUNS ?= 100
PAUSES ?= 60s

# What make faults runs: the tests in integration/faults_*_test.go.
FAULTS := $(shell sed -n 's/^func \(Test[A-Za-z0-9]*\).*/^\1$$|/p' integration/faults_*_test.go | tr -d '\n' | sed 's/|$$//')

# Minutes of faults on each service, and which: etcd, zookeeper or all.
MINUTES ?= 10
SERVICE ?= all

# Where make serve listens; 0: a free port.
PORT ?= 0

ROOT_DEPS := integration/testdata/root-deps.golden

# Stamping needs a working git and is of no use in tests.
export GOFLAGS += -buildvcs=false

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Compile all modules
	@set -e; for dir in $(MODULES); do (cd $$dir && go build ./...); done

.PHONY: test
test: ## Run the tests, on real etcd and real ZooKeeper; install what is missing where allowed
	.ci/deps
	@set -e; for dir in $(PARTS); do (cd $$dir && go test -race ./...); done
	go test -run 'TestCrowd' ./internal/engine # one of them is too much for the race detector
	$(MAKE) simulate $(if $(filter all,$(BATON_TESTS)),,SEEDS=3000 RACE_SEEDS=300)
	.ci/test-integration

.PHONY: test-all
test-all: ## Run the tests and the matrix of faults
	BATON_TESTS=all $(MAKE) test

.PHONY: interop
interop: ## Share queues with Curator, go-zookeeper, Kazoo, etcd's concurrency and etcdctl, on real servers
	.ci/deps
	cd integration && go test -race -count=1 -timeout 20m -parallel 2 -v ./interop

.PHONY: faults
faults: ## Run the whole matrix of faults, the expensive part too: some twenty minutes
	.ci/deps
	BATON_FAULTS=all .ci/test-integration -run '$(FAULTS)'

.PHONY: test-short
test-short: ## Run the tests that need no server: seconds
	@set -e; for dir in $(PARTS); do (cd $$dir && go test ./...); done

.PHONY: simulate
simulate: ## Run SEEDS (5000) simulated worlds, and RACE_SEEDS (500) others under the race detector; the same ones each time
	BATON_SEEDS=$(SEEDS) go test -count=1 -v -timeout 30m -run 'TestSimulation$$' ./recipes/internal/simulation
	BATON_SEEDS=$(RACE_SEEDS) BATON_SIM_BASE=1000001 go test -count=1 -v -race -timeout 30m -run 'TestSimulation$$' ./recipes/internal/simulation

.PHONY: partition
partition: ## Cut RUNS (100) holders off from each service, and print how early each was told
	cd integration && BATON_PARTITIONS=$(RUNS) go test -count=1 -timeout 60m -run '^TestPartitionedHolderIsToldBeforeTheNextIsGranted$$'

.PHONY: pauses
pauses: ## Stop holders for longer than their TTL, for PAUSES (60s) each with Baton and others, and print the updates lost
	cd integration && BATON_PAUSES=$(PAUSES) go test -count=1 -timeout 6h -run '^TestPausedHoldersLoseNoUpdateIfTheTokenIsChecked$$'

.PHONY: soak
soak: ## Inject all faults for MINUTES (10) into SERVICE (etcd, zookeeper, all), the simulation beside it; ends with figures
	.ci/soak $(MINUTES) $(SERVICE)

.PHONY: model
model: ## Check the formal models with Spin, and that what would be wrong is refuted; FULL=1: larger ones
	docs/model/run.sh

.PHONY: mutants
mutants: ## Break the protocol's rules one by one and see that tests notice; MUTANTS=regexp takes some of them
	cd integration && go run ./cmd/mutants -run '$(MUTANTS)'

.PHONY: bench
bench: ## Measure Baton beside the floors and other libraries, and write docs/benchmarks.md anew; QUICK=1: a check of two minutes, writes nothing
	.ci/deps
	cd integration && go run ./cmd/bench $(if $(QUICK),-quick,-docs ..)

.PHONY: microbench
microbench: ## Measure what Baton itself costs, on the memory service, six times: for benchstat
	go test -run '^$$' -bench . -count 6 ./mutex ./rwlock ./semaphore ./election

.PHONY: demo
demo: ## Watch locks survive kills and pauses on an embedded etcd, or on your server: DEMO_URL=zk://host:2181
	cd integration && go run ./cmd/demo

.PHONY: serve
serve: ## Start an etcd on loopback to try things on, on a free port or on PORT; ends on Ctrl-C, and leaves nothing
	@cd integration && go build -o ../build/serve ./cmd/serve && exec ../build/serve -port $(PORT)

.PHONY: quickstart
quickstart: ## Run the smallest example, without any server
	go run ./examples/quickstart

.PHONY: check
check: fmt-check vet tidy-check ## Static checks that need nothing but Go

.PHONY: fmt-check
fmt-check: ## Fail if a file is not gofmt'ed
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not gofmt'ed:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## Run go vet on all modules
	@set -e; for dir in $(MODULES); do (cd $$dir && go vet ./...); done

.PHONY: lint
lint: ## Run golangci-lint on all modules; compiles it first if it is not installed (minutes)
	@set -e; for dir in $(MODULES); do (cd $$dir && $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: tidy-check
tidy-check: ## Fail if a go.mod is not tidy or the library's direct dependencies changed
	@set -e; for dir in $(MODULES); do (cd $$dir && go mod tidy -diff); done
	@go list -m -f '{{if not (or .Indirect .Main)}}{{.Path}}{{end}}' all | sort | diff -u $(ROOT_DEPS) - \
		|| { echo "the library's direct dependencies changed: if each one is wanted, run make tidy-accept"; exit 1; }

.PHONY: tidy-accept
tidy-accept: ## Write down the library's direct dependencies as they are now
	go list -m -f '{{if not (or .Indirect .Main)}}{{.Path}}{{end}}' all | sort > $(ROOT_DEPS)

.PHONY: cover
cover: ## Measure what the root module's own tests cover; report in build/cover.html
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

.PHONY: clean
clean: ## Delete what make built here
	rm -rf build
