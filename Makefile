# `make` or `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X main.version=$(VERSION)
# What is left out of libraries and nobody here uses: MessagePack of gin, traces of grpc, and types of
# values in statements that pgx does not prepare. That is a tenth of each program.
export TAGS := nomsgpack,grpcnotrace,nopgxregisterdefaulttypes
export GOFLAGS := $(GOFLAGS) -tags=$(TAGS)
GO_NEEDED := $(shell sed -n 's/^go //p' go.work)

# Build results and tools. Neither directory is committed.
BIN   := bin
TOOLS := .tools
LINT_VERSION := v2.15.0
LINT  := $(TOOLS)/golangci-lint-$(LINT_VERSION)
# What makes packages and bills of materials. Later versions of nfpm need modules that the Go module proxy does not have.
NFPM_VERSION := v2.45.2
NFPM  := $(TOOLS)/nfpm-$(NFPM_VERSION)
CYCLONEDX_VERSION := v1.10.0
CYCLONEDX := $(TOOLS)/cyclonedx-gomod-$(CYCLONEDX_VERSION)

# Runs a command in each module of the workspace. All modules are tried. Then the
# failed ones are listed.
define each_module
failed=""; \
for dir in $$(go list -m -f '{{.Dir}}'); do \
  printf '\n== %s\n' "$${dir#$(CURDIR)/}"; \
  (cd "$$dir" && $(1)) || failed="$$failed $${dir#$(CURDIR)/}"; \
done; \
if [ -n "$$failed" ]; then printf '\nFailed in:%s\n' "$$failed" >&2; exit 1; fi
endef

## Try it

.PHONY: demo
demo: need-go ## publish the four shipment events and watch the signed callbacks arrive
	@deploy/build.sh $(BIN)/waybill ./cmd/waybill -ldflags '$(LDFLAGS)'
	@exec $(BIN)/waybill demo $(ARGS)

.PHONY: dev
dev: need-go ## run everything in one process: API, dispatcher, NATS, SQLite, receiver
	@deploy/build.sh $(BIN)/waybill ./cmd/waybill -ldflags '$(LDFLAGS)'
	@exec $(BIN)/waybill dev $(ARGS)

.PHONY: migrate
migrate: need-go ## apply the migrations to the database of WAYBILL_DATABASE_URL
	@go run ./cmd/waybill migrate up $(ARGS)

## Build and check

.PHONY: build
build: need-go ## build waybill, waybill-api, waybill-dispatcher and waybill-gateway into bin/
	@deploy/build.sh $(BIN)/waybill ./cmd/waybill -ldflags '$(LDFLAGS)'
	@deploy/build.sh $(BIN)/waybill-api ./cmd/api -ldflags '$(LDFLAGS)'
	@deploy/build.sh $(BIN)/waybill-dispatcher ./cmd/dispatcher -ldflags '$(LDFLAGS)'
	@deploy/build.sh $(BIN)/waybill-gateway ./cmd/gateway -ldflags '$(LDFLAGS)'

# The folder that `go install` uses, or $(PREFIX)/bin if PREFIX is given.
INSTALL_DIR = $(if $(PREFIX),$(PREFIX)/bin,$(shell go env GOBIN | grep . || echo "$$(go env GOPATH)/bin"))
.PHONY: install
install: build ## install the four programs into GOBIN, or into PREFIX/bin when PREFIX is given
	@install -d '$(DESTDIR)$(INSTALL_DIR)'
	@install -m 755 $(BIN)/waybill $(BIN)/waybill-api $(BIN)/waybill-dispatcher $(BIN)/waybill-gateway '$(DESTDIR)$(INSTALL_DIR)/'
	@echo 'Installed waybill, waybill-api, waybill-dispatcher and waybill-gateway in $(DESTDIR)$(INSTALL_DIR)'

# With the race detector, Go also checks every pointer that is made of a number. SQLite, which was
# translated from C, makes them all the time: that was an eighth of the tests' time. What was
# translated has its own memory and its own locks, and nothing in it is Waybill's: the detector does
# not follow each of its reads and writes, which was another sixth of the time of tests that store
# something. Its driver and everything else is followed. The detector would also let each of more than a
# hundred test programs sleep for a second at its end; tests end what they start, so 10 ms do.
# Vet is one of the linters: once more beside the tests took it another minute.
# The tag has the tests' stores record what statements they run (shared/store/record.go), where they are told to.
RECORDING = GOFLAGS='$(GOFLAGS) -tags=$(TAGS),statements'
RACE = $(RECORDING) CGO_ENABLED=1 GORACE=atexit_sleep_ms=10 go test -race -vet=off -gcflags='modernc.org/...=-d=checkptr=0' -gcflags='modernc.org/sqlite/lib=-race=false -d=checkptr=0'
# What reading hostile JSON costs is measured as it is shipped. With the race detector, which finds
# nothing in one goroutine, it takes ten times as long, and the bounds must be as much wider.
MEASURED = TestAttacks
# Tests of services that read docs and config. Cached results would not notice that these have changed.
READERS = (TestConsoleSigningKeys|TestGuide|TestOperationsAreTools|TestPage)
# The packages that have tests of a name.
having = $$(grep -rlE --include='*_test.go' '^func $(1)\(' cmd services shared | xargs dirname | sed 's,^,./,' | sort -u)

# The folder for recorded statements; none: nothing is recorded, and results may be cached.
STATEMENTS ?=
TEST = RECORD_STATEMENTS='$(abspath $(STATEMENTS))' $(RACE) -skip '^$(MEASURED)$$' -parallel 6 -timeout 20m
# The packages of cmd and of cmd/lab, and those of every other module.
PROGRAMS = ./cmd/... ./cmd/lab/...
LIBRARIES = $$(go list -m -f '{{.Dir}}/...' | grep -v '^$(CURDIR)/cmd/')

.PHONY: test
# Six tests of a package at a time, not one for each processor: most of them wait for a database, a bus
# or a deadline.
# The tests of cmd and of cmd/lab build binaries and read docs and deploy: they are never cached. All other modules are
# tested in one go: a module's last tests often wait, and those of another one use the time.
test: need-test ## run all tests with the race detector, on SQLite and on a temporary Postgres
	@failed=""; \
	printf '\n== cmd\n'; $(TEST) -count=1 $(ARGS) $$(go list $(PROGRAMS) | grep -v '/growthtest$$') || failed=1; \
	printf '\n== services and shared\n'; $(TEST) $(ARGS) $(LIBRARIES) || failed=1; \
	[ -z "$$failed" ]
	@$(RACE) -count=1 -run '^$(READERS)$$' $(ARGS) $(call having,$(READERS))
	@printf '\n== what hostile JSON costs, without the race detector\n'
	@go test $(ARGS) -run '^$(MEASURED)$$' $(call having,$(MEASURED))
	@echo 'NOT RUN here: the console in a real browser (make browser)'
	@echo 'NOT RUN here: typed clients made from the API document (make clients), and MCP clients that are Node packages (make mcp-conformance)'
	@echo 'NOT RUN here: the plans of all statements (make plans), and what grows with the data (make growth)'
	@command -v prometheus >/dev/null || echo 'NOT RUN: dashboards and alerts below a real Prometheus, which is missing'
	@for program in python3 node ruby php javac mcs; do command -v $$program >/dev/null || echo "NOT RUN: the code of docs/receivers.md that needs $$program, which is missing"; done
	@for program in nginx caddy haproxy; do command -v $$program >/dev/null || echo "NOT RUN: the configuration of docs/tls.md for $$program, which is missing"; done

# Runs the tests first, without the race detector, unless they have recorded their statements in STATEMENTS.
.PHONY: plans
plans: need-test ## check what the databases would read for each statement if they were large
	@folder='$(abspath $(STATEMENTS))'; \
	if [ -z "$$folder" ]; then \
	  folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT; \
	  RECORD_STATEMENTS=$$folder $(RECORDING) go test -count=1 -skip '^$(MEASURED)$$' -parallel 6 -timeout 20m $(ARGS) $(PROGRAMS) $(LIBRARIES); \
	fi; \
	go run ./cmd/lab/plans -statements "$$folder"

# A million rows are made, which takes SQLite three times as long with the race detector. Counts need none.

.PHONY: growth
growth: need-test ## compare the work of the database with 10,000 and with 1,000,000 rows (cmd/lab/internal/growthtest)
	@go test -count=1 -timeout 20m ./cmd/lab/internal/growthtest $(ARGS)

COUNT ?= 5
.PHONY: race
race: need-test ## run all tests COUNT times (5) in random order with the race detector
	@$(call each_module,$(RACE) -shuffle=on -count=$(COUNT) -timeout 60m $(ARGS) ./...)

.PHONY: lint
lint: need-go $(LINT) ## golangci-lint in every module, with all that go vet looks for
	@$(call each_module,$(CURDIR)/$(LINT) run --config $(CURDIR)/.golangci.yml $(ARGS) ./...)

$(LINT):
	@mkdir -p $(TOOLS)
	@echo "building golangci-lint $(LINT_VERSION) (once, about two minutes)"
	@GOBIN=$(CURDIR)/$(TOOLS) GOFLAGS= go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv $(TOOLS)/golangci-lint $@

.PHONY: spec-lint
spec-lint: ## check the API documents by the rules of Redocly and Spectral
	@services/api/internal/spec/lint/run.sh $(CURDIR)/$(TOOLS)/spec-lint

FUZZTIME ?= 30s
FUZZMEM ?= 512
# The memory of one fuzzing process, in MiB. The garbage collector gets it as GOMEMLIMIT. The kernel
# ends a process that maps more than twice as much (ulimit -d), because it counts mapped and not used
# memory. Two processes work on each target.
.PHONY: fuzz
fuzz: need-go ## run each fuzz target for FUZZTIME (30s) with FUZZMEM MiB (512) of memory for each process
	@found=0; built=""; bin=$$(mktemp -d); trap 'rm -rf "$$bin"' EXIT; \
	while IFS=: read -r file target; do \
	  found=1; dir=$$(dirname "$$file"); printf '\n== %s %s\n' "$$dir" "$$target"; \
	  [ "$$built" = "$$dir" ] || (cd "$$dir" && go test -c -fuzz . -o "$$bin/fuzz.test" .); \
	  built=$$dir; \
	  (cd "$$dir" && ulimit -d $$(($(FUZZMEM) * 2 * 1024)) && GOMEMLIMIT=$(FUZZMEM)MiB "$$bin/fuzz.test" -test.run '^$$' -test.fuzz "^$$target\$$" \
	      -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 1x -test.parallel 2 -test.fuzzcachedir "$$(go env GOCACHE)/fuzz/$$(go list .)"); \
	done < <(grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' cmd services shared | sed 's/func //' | sort); \
	[ $$found = 1 ] || { echo 'no fuzz target found' >&2; exit 1; }

.PHONY: bench
bench: need-test ## measure the real processes in both forms: rates, latency, CPU, memory (docs/performance.md)
	@go run ./cmd/lab/bench $(ARGS)

BUDGET = cmd/lab/bench/budget.json
.PHONY: cost
cost: need-test ## compare what a delivery costs, in POSTs of a bare loop, with the committed budget
	@go run ./cmd/lab/bench -cost $(BUDGET) $(ARGS)

.PHONY: budget
budget: need-test ## put what a delivery costs now into the budget (ARGS='-reason "why it costs more, or less"')
	@$(if $(findstring -reason,$(ARGS)),,echo "say why: make budget ARGS='-reason \"…\"'" >&2; exit 2)
	@go run ./cmd/lab/bench -cost $(BUDGET) $(ARGS)

.PHONY: figures
figures: need-go ## list the measured figures in the docs that are older than the code that they measure
	@cd cmd && go test -count=1 -v -run '^TestFigures$$' $(ARGS) ./internal/docstest | grep -E 'older than|^(FAIL|ok)'

# The packages that have benchmarks. The others' tests need not be built, nor what they start with.
BENCHMARKED = grep -rlE --include='*_test.go' '^func Benchmark' cmd services shared | xargs dirname | sed 's,^,./,' | sort -u

.PHONY: microbench
microbench: need-test ## run the benchmarks of single functions
	@go test -run '^$$' -bench . -benchmem $(ARGS) $$($(BENCHMARKED))

.PHONY: chaos
chaos: need-test ## kill processes, lose the bus and cut the power under load, and count lost events
	@go run ./cmd/lab/chaos $(ARGS)

.PHONY: upgrade-test
upgrade-test: need-test ## upgrade from PREVIOUS (a tag or a commit) to this version and back under load, and count what failed
	@[ -n "$(PREVIOUS)" ] || { echo 'set PREVIOUS to a tag or a commit, such as v1.0.0' >&2; exit 2; }
	@dir=$$(mktemp -d) && trap 'git worktree remove --force "$$dir/source"; rm -rf "$$dir"' EXIT && \
	git worktree add --quiet --detach "$$dir/source" "$(PREVIOUS)" && mkdir "$$dir/bin" && \
	for program in waybill waybill-api waybill-dispatcher waybill-gateway; do \
		(cd "$$dir/source" && go build -ldflags='-s -w' -o "$$dir/bin/$$program" "./cmd/$${program#waybill-}") || exit 1; \
	done && go run ./cmd/lab/chaos -only upgrade -previous "$$dir/bin" $(ARGS)

RELOADS ?= 10000
.PHONY: reloads
reloads: need-go ## change the route files RELOADS times (10000) under load, and check that nothing fails or grows
	@cd services/gateway && go test -run '^TestReloadsUnderLoad$$' -v -count=1 $(ARGS) ./internal/local -reloads $(RELOADS)

.PHONY: mcp-conformance
mcp-conformance: need-go ## run the official MCP conformance suite and independent clients against gateways
	@cmd/lab/mcptest/install.sh $(CURDIR)/$(TOOLS)/mcp
	@go run ./cmd/lab/mcptest conformance -tools $(TOOLS)/mcp $(ARGS)
	@cd cmd && go test -count=1 -run TestClientsSignIn ./internal/apipart -mcp-tools '$(CURDIR)/$(TOOLS)/mcp'

.PHONY: clients
clients: need-go ## make typed clients from the API document, and call Waybill with them (needs npm)
	@cmd/lab/internal/clienttest/install.sh $(CURDIR)/$(TOOLS)/clients
	@cd cmd/lab && go test -count=1 -timeout 10m ./internal/clienttest -tools '$(CURDIR)/$(TOOLS)/clients' $(ARGS)

# One browser and one Waybill for all tests; the limit is on what they do at the same time.
BROWSER_TEST = cd cmd/lab && go test -count=1 -timeout 15m -parallel 3 ./internal/browsertest -chromium "$$(command -v chromium)" -axe '$(CURDIR)/$(TOOLS)/browser/node_modules/axe-core/axe.min.js'
.PHONY: browser
browser: need-go ## try the console in a real Chromium: by keyboard, live, axe-core, hostile data, without JavaScript
	@cmd/lab/internal/browsertest/install.sh $(CURDIR)/$(TOOLS)/browser
	@$(BROWSER_TEST) $(ARGS)

.PHONY: screenshots
screenshots: need-go ## make the pictures of the console in docs/pictures from sample data
	@cmd/lab/internal/browsertest/install.sh $(CURDIR)/$(TOOLS)/browser
	@$(BROWSER_TEST) -run '^TestPictures$$' -pictures '$(CURDIR)/docs/pictures' $(ARGS)

.PHONY: bench-mcp
bench-mcp: need-go ## measure how many requests a second the MCP server answers on one processor, beside the bare SDK
	@go build -o $(BIN)/mcptest ./cmd/lab/mcptest
	@$(BIN)/mcptest bench $(ARGS)

.PHONY: bench-quick
bench-quick: need-test ## run each benchmark once, and each scenario of make bench for a moment, to see that they still work
	@go test -run '^$$' -bench . -benchtime 1x $$($(BENCHMARKED))
	@go run ./cmd/lab/bench -quick $(ARGS)

## Release

DIST := dist
.PHONY: release
release: need-release $(NFPM) $(CYCLONEDX) ## make archives, deb and rpm packages, SBOMs and checksums of all platforms (PLATFORMS='linux/amd64 …') in dist/
	@$(RELEASE) deploy/release/release.sh $(DIST) $(PLATFORMS)

.PHONY: release-check
release-check: need-release $(NFPM) $(CYCLONEDX) ## make the release in dist/ again from a clone with nothing cached (PLATFORMS, default linux/amd64), and compare all bytes
	@$(RELEASE) deploy/release/check.sh $(DIST) $(PLATFORMS)

.PHONY: packages-test
packages-test: need-release $(NFPM) ## check the units, and what is in the packages, without building the programs
	@deploy/release/units.sh
	@$(RELEASE) deploy/release/packages-test.sh $(ARGS)

.PHONY: helm-test
helm-test: need-go ## render the chart for Kubernetes for many values, and read every object strictly
	@cd deploy/helm/test && GOWORK=off GOFLAGS='-mod=readonly -trimpath -buildvcs=false' CGO_ENABLED=0 go test -count=1 $(ARGS) ./...

.PHONY: install-test
install-test: need-release $(NFPM) $(CYCLONEDX) ## install the packages on a fresh Debian (debootstrap, as root) and time the way to the first verified callback
	@$(RELEASE) deploy/release/install-test.sh

.PHONY: systemd-test
systemd-test: need-release $(NFPM) $(CYCLONEDX) ## boot a fresh Debian with systemd in a container (as root), and try the service in its sandbox
	@$(RELEASE) deploy/release/release.sh $(DIST) linux/$$(dpkg --print-architecture)
	@deploy/release/systemd-test.sh $(DIST)

RELEASE = NFPM=$(CURDIR)/$(NFPM) CYCLONEDX=$(CURDIR)/$(CYCLONEDX)

$(NFPM):
	@GOBIN=$(CURDIR)/$(TOOLS) GOFLAGS=-trimpath CGO_ENABLED=0 go install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)
	@mv $(TOOLS)/nfpm $@

$(CYCLONEDX):
	@GOBIN=$(CURDIR)/$(TOOLS) GOFLAGS=-trimpath CGO_ENABLED=0 go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION)
	@mv $(TOOLS)/cyclonedx-gomod $@

## Containers

.PHONY: compose-up
compose-up: need-compose .env ## start the services on NATS and Postgres with docker compose
	VERSION=$(VERSION) docker compose up --build --detach --wait

.PHONY: compose-test
compose-test: need-go ## bring the compose file up, run the demo against it, kill a dispatcher, take it down
	@deploy/compose-test.sh

.env: ## make .env with fresh random secrets
	@deploy/make-env.sh .env.example .env

## What must be installed

.PHONY: need-go
need-go:
	@if ! command -v go >/dev/null; then \
	  echo 'Missing: Go $(GO_NEEDED) or later (https://go.dev/dl/).' >&2; exit 1; fi
	@if ! out=$$(go list -m 2>&1); then \
	  printf 'Missing: Go $(GO_NEEDED) or later; this is %s.\n%s\n' "$$(go env GOVERSION)" "$$out" >&2; exit 1; fi

.PHONY: need-compose
need-compose:
	@if ! command -v docker >/dev/null; then \
	  echo 'Missing: Docker with Compose (https://docs.docker.com/engine/install/). Without it: make dev' >&2; exit 1; fi
	@if ! docker compose version >/dev/null 2>&1; then \
	  echo 'Missing: the Compose plugin of Docker, version 2 or later (https://docs.docker.com/compose/install/linux/).' >&2; exit 1; fi

.PHONY: need-test
need-test: need-go
	@missing=""; \
	if ! command -v "$$(go env CC)" >/dev/null; then \
	  missing="$$missing\n  - a C compiler for the race detector (Debian: apt-get install gcc libc6-dev)"; fi; \
	if [ -z "$${WAYBILL_PG_BIN-}" ] && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && ! command -v initdb >/dev/null; then \
	  missing="$$missing\n  - the PostgreSQL server binaries: initdb, postgres (Debian: apt-get install postgresql; elsewhere: set WAYBILL_PG_BIN to their folder)"; fi; \
	if [ -n "$$missing" ]; then printf "The tests can't run here. Missing:$$missing\n" >&2; exit 1; fi

.PHONY: need-release
need-release: need-go
	@missing=""; for program in git tar gzip zip jq; do command -v $$program >/dev/null || missing="$$missing $$program"; done; \
	if [ -n "$$missing" ]; then echo "Missing:$$missing (Debian: apt-get install$$missing)" >&2; exit 1; fi

.PHONY: clean
clean: ## remove what was built
	@rm -rf $(BIN) $(DIST)

.PHONY: help
help: ## show this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^## / { printf "\n%s\n", substr($$0, 4) } \
	  /^[a-z][a-z-]*:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
