# Newcomers: `make run` starts everything, `make demo` proves that it works
# without an account.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# What the tests need is fetched while the program is built. A make that another one started
# shares its jobs.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j2
endif

TOOLS   := $(CURDIR)/.tools
BIN     := $(TOOLS)/bin
VERSION ?= $(shell scripts/version.sh)
LDFLAGS := -s -w -X github.com/bloom-runtime/bloom/internal/cli.Version=$(VERSION)
BUILD   := CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)'

LICENSES := internal/cli/licenses/third-party.txt

MODULE  := github.com/bloom-runtime/bloom

FUZZTIME  ?= 1m
BENCHTIME ?= 10s

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

NPM := npm --prefix web

.PHONY: run
run: build ## Set up everything and start it on http://127.0.0.1:5000 (ARGS="--data-dir …")
	@scripts/run.sh $(ARGS)

.PHONY: demo
demo: build ## Like run, with a stand-in for the model and a sample task; no account needed
	@scripts/demo.sh

.PHONY: build
build: web $(LICENSES) ## Build bin/bloom, one static binary that includes the web application
	@mkdir -p bin
	$(BUILD) -o bin/ ./cmd/...

# What npm installed, and the build's inputs, decide whether anything is done.
web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	$(NPM) ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# The types of the API come from the server's own description: a page that uses a
# route that has changed does not build.
web/src/api/schema.d.ts: web/node_modules/.package-lock.json $(shell find internal/httpapi client *.go -name '*.go' -not -name '*_test.go')
	go run ./cmd/bloom openapi >web/openapi.json
	@$(NPM) run -s api

internal/webui/dist/index.html.gz: web/src/api/schema.d.ts web/index.html web/vite.config.ts $(shell find web/src web/public web/scripts -type f -not -name '*.test.ts*')
	@$(NPM) run -s build

.PHONY: web
web: ## Build the web application into internal/webui (Node 20); skipped without npm
	@if command -v npm >/dev/null 2>&1; then $(MAKE) --no-print-directory internal/webui/dist/index.html.gz; \
	else echo "web: npm is missing; the binary will be without the web application" >&2; fi

# The program includes the licences of its components.
$(LICENSES): go.mod go.sum web/package-lock.json scripts/licenses.sh tools/licenses/main.go | web
	@scripts/licenses.sh

SCREENSHOTS ?= $(CURDIR)/web/screenshots

.PHONY: screenshots
screenshots: test-deps build ## Take screenshots of every page, in both themes, narrow, Ukrainian, empty and failing
	@mkdir -p $(SCREENSHOTS)
	cd web && SCREENSHOTS=$(SCREENSHOTS) npx playwright test
	@echo "they are in $(SCREENSHOTS)"

.PHONY: web-e2e
web-e2e: test-deps build ## Run only the browser tests
	$(NPM) run -s e2e

# The tests that print a measurement, by their names.
MEASURED = light and quick|change shows within|worker dies: the overview|ten thousand tasks|20,000 events|2 MB is shown

.PHONY: web-measure
web-measure: test-deps build ## Measure the web application, on a quiet machine: docs/development/web.md has the results
	@cat /proc/loadavg
	cd web && QUIET_MACHINE=1 npx playwright test --workers 1 -g '$(MEASURED)'

.PHONY: dev
dev: web/src/api/schema.d.ts ## Serve the web application from its source, against a running server (BLOOM_URL=http://127.0.0.1:5000)
	$(NPM) run -s dev

.PHONY: cross
cross: web $(LICENSES) ## Build for every platform we ship: linux amd64, arm64, armv7
	@mkdir -p dist
	GOOS=linux GOARCH=amd64 $(BUILD) -o dist/bloom-linux-amd64 ./cmd/bloom
	GOOS=linux GOARCH=arm64 $(BUILD) -o dist/bloom-linux-arm64 ./cmd/bloom
	GOOS=linux GOARCH=arm GOARM=7 $(BUILD) -o dist/bloom-linux-armv7 ./cmd/bloom

# `make lint` vets, and no test needs its binary's debugging information.
TESTFLAGS = -vet=off -ldflags=-w -shuffle=on -timeout 15m

# SQLite is C translated to Go. It takes three times as long with the race detector, which sees
# nothing of its memory: that is not Go's. No package that instantiates generic functions may be
# left out: the linker may take its copy of one for all, and the detector would be blind there.
RACE = -race -gcflags=modernc.org/sqlite/lib=-race=false

# These take longest, and so begin first: whatever runs alone at the end costs its whole time.
SLOWEST = ./internal/store/postgres ./internal/httpapi ./internal/worker ./deploy

# These start hundreds of processes, or use what others test with the detector. The slowest are first.
UNRACED = ./e2e ./internal/claude ./internal/app ./internal/cli ./internal/memory

# Of packages tested with the detector, these tests are not: PostgreSQL's conformance, which SQLite
# passes with it, and what measures memory, which the detector multiplies.
WITHOUT = ^(TestStore|TestTwoReplicasAreOneStore)$$|LittleMemory

.PHONY: test
test: test-deps build ## Run all tests, most with the race detector, in random order
	go test $(TESTFLAGS) $(RACE) -skip '$(WITHOUT)' $(SLOWEST) $$(go list ./... | grep -vxF "$$(go list $(SLOWEST) $(UNRACED))")
	@# Built as make build does, they find nearly everything in the build cache. They wait more than they compute.
	CGO_ENABLED=0 go test $(TESTFLAGS) -trimpath -p 3 $(UNRACED)
	CGO_ENABLED=0 go test $(TESTFLAGS) -trimpath -parallel 8 -run '$(WITHOUT)' ./internal/store/postgres ./internal/httpapi
	cd bench && CGO_ENABLED=0 go test $(TESTFLAGS) -trimpath ./...
	$(NPM) run -s test
	$(NPM) run -s e2e

# Packages whose tests need nothing but Go: no PostgreSQL, no claude, no network.
UNIT = $(shell go list -f '{{$$p := .}}{{$$need := false}}{{range .TestImports}}{{if eq . "$(MODULE)/internal/pgtest"}}{{$$need = true}}{{end}}{{end}}{{range .XTestImports}}{{if eq . "$(MODULE)/internal/pgtest"}}{{$$need = true}}{{end}}{{end}}{{if not $$need}}{{.ImportPath}}{{end}}' ./... | grep -vE '/(e2e|deploy|internal/(claude|pgtest|memory|app|worker|process|blob/s3))(/|$$)|/tools/')

.PHONY: test-unit
test-unit: ## Run the tests that need only Go
	go test -short -timeout 5m $(UNIT)

# What the tests run besides Go: the claude command line from npm, and
# PostgreSQL's server programs.
.PHONY: test-deps
test-deps:
	@scripts/test-deps.sh

.PHONY: e2e
e2e: test-deps ## Run only the end-to-end tests with the real claude
	go test -count=1 -timeout 20m ./e2e/...

.PHONY: lint
lint: $(BIN)/golangci-lint web/src/api/schema.d.ts ## Check the code against .golangci.yaml and web/biome.json
	$(BIN)/golangci-lint run ./...
	cd bench && go vet ./...
	$(NPM) run -s lint

.PHONY: tools
tools: $(BIN)/golangci-lint test-deps ## Download what tests and checks need: the linter, claude, PostgreSQL

# A module of its own keeps the linter's dependencies out of ours.
$(BIN)/golangci-lint: tools/golangci/go.mod tools/golangci/go.sum
	@mkdir -p $(BIN)
	cd tools/golangci && CGO_ENABLED=0 go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: test-monitoring
test-monitoring: $(BIN)/promtool ## Check and test the alert rules with promtool (slow to build; not part of test)
	$(BIN)/promtool check rules deploy/monitoring/alerts.yaml
	$(BIN)/promtool test rules deploy/monitoring/alerts_test.yaml

# Without service discovery, which rules do not need.
$(BIN)/promtool: tools/promtool/go.mod tools/promtool/go.sum
	@mkdir -p $(BIN)
	cd tools/promtool && CGO_ENABLED=0 go build -tags remove_all_sd -o $@ github.com/prometheus/prometheus/cmd/promtool

.PHONY: test-kubernetes
test-kubernetes: ## Validate the Kustomize base and the documented overlay against the types of the Kubernetes API (not part of test)
	cd tools/kubernetes && CGO_ENABLED=0 go run . ../../deploy/kubernetes ../../docs/optional/kubernetes.md

.PHONY: test-containers
test-containers: ## Lint the Dockerfile and the compose file, without Docker (not part of test)
	cd tools/containers && CGO_ENABLED=0 go run . ../../deploy/Dockerfile ../../deploy/compose/compose.yaml

.PHONY: packages
packages: web $(BIN)/nfpm ## Build apk, deb and rpm for amd64, arm64, armv7 into dist/, with checksums and SBOMs
	@scripts/packages.sh

$(BIN)/nfpm: tools/nfpm/go.mod tools/nfpm/go.sum
	@mkdir -p $(BIN)
	cd tools/nfpm && CGO_ENABLED=0 go build -o $@ github.com/goreleaser/nfpm/v2/cmd/nfpm

.PHONY: test-packages
test-packages: web test-deps $(BIN)/nfpm ## Build packages twice, then install, upgrade and remove deb and rpm (root; needs rpm and cpio; not part of test)
	BLOOM_TEST_PACKAGES=1 go test -count=1 -timeout 20m -run TestPackages ./deploy

# The last release.
OLD ?= $(shell git describe --tags --abbrev=0 2>/dev/null)

.PHONY: test-upgrade
test-upgrade: test-deps ## Upgrade an earlier version's servers and workers under load, and roll back (OLD=commit; not part of test)
	@[ -n "$(OLD)" ] || { echo "test-upgrade: there is no tag; name a commit: make test-upgrade OLD=COMMIT" >&2; exit 2; }
	BLOOM_TEST_UPGRADE=$(OLD) go test -count=1 -timeout 20m -v -run TestAnEarlierVersion ./e2e

.PHONY: bench
bench: build ## Benchmark a fresh server (BENCHTIME=10s)
	@scripts/bench.sh $(BENCHTIME)

.PHONY: bench-postgresql
bench-postgresql: build ## Benchmark pgbench, River, Temporal and bloom on a PostgreSQL with fsync (BENCHTIME=10s RUNS=1)
	@scripts/bench-postgresql.sh $(BENCHTIME)

.PHONY: vulnerabilities
vulnerabilities: ## Check for known vulnerabilities with govulncheck (needs vuln.go.dev, or a copy: VULNDB=file:///DIR)
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 $(if $(VULNDB),-db $(VULNDB)) ./...

.PHONY: bench-contexts
bench-contexts: ## Benchmark tasks with cold, spare and warm claude processes, moving 50 MiB, and 500 turns in one process (SAMPLES=20)
	BLOOM_TEST_CONTEXT_SAMPLES=$(or $(SAMPLES),20) BLOOM_TEST_CONTEXT_MIB=50 go test -count=1 -v -timeout 30m -parallel 1 -run 'TestMeasureContexts|TestALargeContextMoves' ./e2e
	BLOOM_TEST_CONTEXT_TURNS=500 go test -count=1 -v -timeout 30m -run 'TestManyTurnsOfAContextTakeBoundedMemory|TestManyContextsShareFewProcesses' ./internal/claude

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (1m)
	@scripts/fuzz.sh $(FUZZTIME)

.PHONY: clean
clean: ## Remove build output; keeps .tools and data
	rm -rf bin dist coverage.out web/dist web/node_modules web/openapi.json
	find internal/webui/dist internal/cli/licenses -mindepth 1 -not -name .gitignore -delete
