VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -X github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/cli.version=$(VERSION)
OUT     := bin/holdfast
TOOL    := go tool -modfile=.ci/tools.mod

UNIT     = $(shell go list ./... | grep -v -e /integration -e /bench -e /vmtest)

# The scenarios of the shipped units and their sockets, for make test.
SCENARIOS = FirstConnection|SeveralSocketUnits|WhoComesWhile|SocketsOfAUnit|ShippedConfiguration|CannotStart|WhenIdle|IdleTime|Journal|RedisClients|RestartRefuses|ShippedUnits|Sandbox|AStopLets|AStopEnds|Port80|AUserThat

.PHONY: build run demo test lint fuzz bench vmtest vmtest-units

# One static binary: no C library, which would have to be there and of the same
# age, and no paths of the machine that built it.
build:
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(OUT) ./cmd/holdfast

# A plain user without a session has no place for the control socket: make one, and
# say where it is, as another shell does not know.
run: build
	@if [ -z "$$XDG_RUNTIME_DIR" ] && [ "$$(id -u)" != 0 ]; then \
		XDG_RUNTIME_DIR=$$(mktemp -d); export XDG_RUNTIME_DIR; \
		echo "demo: ask it with $(OUT) status --control-socket $$XDG_RUNTIME_DIR/holdfast/control.sock"; \
	fi; exec $(OUT) serve --demo

# A download goes on while the proxy under it is killed again and again.
demo: build
	@go run ./cmd/holdfast/internal/demo/kills $(OUT)

test:
	.ci/setup
	go test -race $(UNIT)
	go test -count 1 -timeout 15m ./cmd/holdfast/integration
	go test -count 1 -timeout 15m -race -short -run TestOneHoldfastServes ./cmd/holdfast/integration
	.ci/fuzz 50000
	$(MAKE) vmtest-units

lint:
	$(TOOL) golangci-lint run
	$(TOOL) golangci-lint fmt --diff
	go mod tidy -diff

fuzz:
	.ci/fuzz

bench:
	.ci/setup
	go test -timeout 60m -run '^$$' -bench . -benchtime 1x ./cmd/holdfast/bench

# In sight and one package after another: a boot takes a while, and two guests are enough.
vmtest:
	.ci/setup vm
	go test -count 1 -v -p 1 -timeout 60m ./vmtest/...

vmtest-units:
	.ci/setup vm
	go test -count 1 -v -timeout 40m -run '$(SCENARIOS)' ./vmtest
