VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -X github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/cli.version=$(VERSION)
TOOL    := go tool -modfile=.ci/tools.mod

UNIT     = $(shell go list ./... | grep -v -e /integration -e /bench -e /vmtest)

.PHONY: build run test lint fuzz bench vmtest

build:
	go build -ldflags '$(LDFLAGS)' -o bin/holdfast ./cmd/holdfast

# A plain user without a session has no place for the control socket: make one.
run: build
	@[ -n "$$XDG_RUNTIME_DIR" ] || [ "$$(id -u)" = 0 ] || export XDG_RUNTIME_DIR=$$(mktemp -d); \
	bin/holdfast serve --demo

test:
	.ci/setup
	go test -race $(UNIT)
	go test -count 1 -timeout 15m ./cmd/holdfast/integration
	go test -count 1 -timeout 15m -race -short -run TestOneHoldfastServes ./cmd/holdfast/integration
	.ci/fuzz 5s

lint:
	$(TOOL) golangci-lint run
	$(TOOL) golangci-lint fmt --diff

fuzz:
	.ci/fuzz 60s

bench:
	.ci/setup
	go test -timeout 60m -run '^$$' -bench . -benchtime 1x ./cmd/holdfast/bench

vmtest:
	go test -timeout 60m ./vmtest/...
