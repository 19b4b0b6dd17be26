VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -X github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/cli.version=$(VERSION)
OUT     := bin/holdfast
TOOL    := go tool -modfile=.ci/tools.mod

# What boots a machine or builds an image for one is make vmtest's.
UNIT     = $(shell go list ./... | grep -v -e /integration -e /bench -e '/vmtest$$' -e /vmtest/image -e /vmtest/machine)

# The scenarios of make test: how the shipped units start, serve, idle and stop.
SCENARIOS = AsShipped|ForInstalling|FirstConnection|SeveralSocketUnits|WhoComesWhile|SocketsOfAUnit|ShippedConfiguration|CannotStart|WhenIdle|IdleTime|Journal|RedisClients|RestartRefuses|ShippedUnits|Sandbox|AStopLets|AStopEnds|Port80|AUserThat

.PHONY: build run demo test integration smoke lint fuzz bench vmtest vmtest-units

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

# Most tests wait for something, so more of them go on at once than there are cores.
test:
	.ci/setup vm
	go test -race -p 4 $(UNIT)
	$(MAKE) -j 2 integration smoke
	$(MAKE) vmtest-units

integration:
	.ci/setup
	go test -count 1 -timeout 15m ./cmd/holdfast/integration
	go test -count 1 -timeout 15m -race -short -run TestOneHoldfastServes ./cmd/holdfast/integration

# Fuzzing takes what the others leave.
smoke:
	nice .ci/fuzz 50000

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
