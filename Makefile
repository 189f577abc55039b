# Newcomers: `make run` starts everything, `make demo` proves that it works
# without an account.
SHELL := /bin/bash
.DEFAULT_GOAL := help

TOOLS   := $(CURDIR)/.tools
BIN     := $(TOOLS)/bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/bloom-runtime/bloom/internal/cli.Version=$(VERSION)
BUILD   := CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)'

FUZZTIME  ?= 1m
BENCHTIME ?= 10s

.PHONY: help
help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: build ## Set up everything and start it on http://127.0.0.1:5000 (ARGS="--data-dir …")
	@scripts/run.sh $(ARGS)

.PHONY: demo
demo: build ## Run a sample task against a canned stand-in for the model; no account needed
	@scripts/demo.sh

.PHONY: build
build: ## Build bin/bloom, one static binary
	@mkdir -p bin
	$(BUILD) -o bin/ ./cmd/...

.PHONY: cross
cross: ## Build for every platform we ship: linux amd64, arm64, armv7
	@mkdir -p dist
	GOOS=linux GOARCH=amd64 $(BUILD) -o dist/bloom-linux-amd64 ./cmd/bloom
	GOOS=linux GOARCH=arm64 $(BUILD) -o dist/bloom-linux-arm64 ./cmd/bloom
	GOOS=linux GOARCH=arm GOARM=7 $(BUILD) -o dist/bloom-linux-armv7 ./cmd/bloom

.PHONY: test
test: test-deps ## Run all tests, with the race detector, in random order
	go test -race -shuffle=on -timeout 20m ./...

# What the tests run besides Go: the claude command line from npm, and
# PostgreSQL's server programs.
.PHONY: test-deps
test-deps:
	@scripts/test-deps.sh

.PHONY: e2e
e2e: test-deps ## Run only the end-to-end tests with the real claude
	go test -count=1 -timeout 20m ./e2e/...

.PHONY: lint
lint: $(BIN)/golangci-lint ## Check the code against .golangci.yaml
	$(BIN)/golangci-lint run ./...

.PHONY: tools
tools: $(BIN)/golangci-lint test-deps ## Fetch what tests and checks need: the linter, claude, PostgreSQL

# A module of its own keeps the linter's dependencies out of ours.
$(BIN)/golangci-lint: tools/golangci/go.mod tools/golangci/go.sum
	@mkdir -p $(BIN)
	cd tools/golangci && CGO_ENABLED=0 go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: bench
bench: build ## Measure a fresh server (BENCHTIME=10s)
	@scripts/bench.sh $(BENCHTIME)

.PHONY: bench-postgresql
bench-postgresql: build ## Measure pgbench, River and us on a PostgreSQL that syncs (BENCHTIME=10s RUNS=1)
	@scripts/bench-postgresql.sh $(BENCHTIME)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (1m)
	@scripts/fuzz.sh $(FUZZTIME)

.PHONY: clean
clean: ## Remove what was built; .tools and data stay
	rm -rf bin dist coverage.out
