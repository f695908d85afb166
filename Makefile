# make test   everything that CI does, and before it what a fresh Debian machine lacks
# make build  the program, as build/shoal
# make wasm   the peer for browsers, compressed, into wasm/web/dist; a program that is built afterwards has it inside
# make gen    writes generated files anew
# make long   the tests that take minutes: the default run, memory of 64 million parameters, many simultaneous starts, deaths
#             of any two of five, networks that are cut for long, speeds of joins, with a slow peer, on slow links, with packing, and as planned
# make dist   archives of the program for linux, darwin and windows, in build/dist
# make compare   trains one run in each way to share it out, in a minute, and writes docs/strategies.md
# make growth    trains with more and more peers, and larger and larger models, in some minutes, and writes docs/growth.md
# make faults    kills and stops peers at every point of a step, in half an hour, and writes the tables of docs/faults.md
# make bench-browser   compares products of matrices in a browser with other libraries and this CPU, in minutes, and writes
#                      docs/browser-speed.md
# make bench     compares products, ops and training steps with OpenBLAS and PyTorch, in minutes after some gigabytes from PyPI, and
#                writes the tables of docs/bench.md
# make bench-wire   compares streams and collectives with plain TCP and gloo, in minutes, and writes its tables into docs/bench.md
# make bench-mesh   compares training on several peers with one peer, and with PyTorch's DDP and FSDP2, in half an hour after the same
#                   gigabytes, and writes the tables of docs/bench.md
# make numerics  compares ways to sum gradients, in minutes, and writes the table in docs/numerics.md

SHELL := /bin/bash
.DEFAULT_GOAL := build
export GOFLAGS += -mod=readonly

# Packages whose bits the code paths of the CPU must not change.
NUMBERS   := ./kernel/... ./model/... ./fsdp/...
# Each writes its folder's generated files, or compares them.
GENERATORS := $(shell find . -name generate.sh -not -path './build/*')
# Tests of cmd/shoal whose peers are tabs of browsers.
TABS      := ^TestTab
# A run of seconds, for the check that the number of processes does not change the result.
SMALL     := --run examples/small.yaml --timeout 3m --json

# $(call step,name,command) runs one step of the tests and tells its time.
define step
@echo "== $(1)"; start=$$SECONDS; { $(2); } || { echo "== $(1): FAILED" >&2; exit 1; }; \
	echo "== $(1): ok, $$((SECONDS - start)) s"
endef

.NOTPARALLEL:
.PHONY: test build wasm gen dist long compare growth faults bench bench-browser bench-mesh bench-wire numerics install-needs check-format check-vet check-static check-generated check-imports check-browser \
	check-platforms check-noasm check-arm64 check-interop check-unit check-testnet check-page check-tabs

# With this a test that finds no browser fails, rather than being skipped.
test: export SHOAL_BROWSER := 1
test: WASM_FLAGS := -quick
test: install-needs check-format check-generated check-vet check-static check-imports check-platforms check-browser \
	check-noasm check-arm64 check-interop wasm check-testnet check-page check-unit check-tabs
	@echo "== all ok"

build:
	go build -o build/shoal ./cmd/shoal

# In a minute or two, nearly all of it for the compression, which a peer that has not changed is spared.
wasm:
	$(call step,the browser's peer,go run ./scripts/buildwasm $(WASM_FLAGS))

gen:
	for g in $(GENERATORS); do "$$g" || exit 1; done

# Archives to install from: the same bytes from the same commit and Go.
dist: wasm
	go run ./scripts/dist

long: wasm build
	go test -count=1 ./cmd/shoal -run 'TestDefaultRun|TestMemoryOf64Million|TestEightStartAtOnce|Killed|TestBrokenPath|TestUnplugged|TestStoppedForLong|TestJoinSpeed|TestSlowPeerSpeed|TestPlanSpeed|TestSlowLink|TestPackingPays|TestTabsEndWithOneHash|TestTabMemory|TestTabStoppedForLong' -long -v -timeout 30m
	SHOAL_LONG=1 scripts/pagetest/run.sh long.test.mjs

# Ways to share out a run, compared: the tables and the plot of docs/strategies.md.
compare: build
	go run ./scripts/compare --program build/shoal

# Cost by the number of peers and by the model's size: the tables and the plot of docs/growth.md.
growth: build
	go run ./scripts/growth --program build/shoal

# Every role and phase, killed and stopped: the tables in docs/faults.md.
faults: build
	go run ./scripts/faults --program build/shoal

# kernel/wasm in Chromium, TensorFlow.js, ONNX Runtime Web and AVX2, compared: docs/browser-speed.md.
bench-browser: install-needs
	cd scripts/benchbrowser && npm ci --ignore-scripts --no-audit --no-fund --silent
	go run ./scripts/benchbrowser

# Products, ops and training steps, OpenBLAS and PyTorch, compared: the tables in docs/bench.md.
bench: install-needs
	scripts/venv.sh build/venv-bench scripts/bench/requirements.txt
	go run ./scripts/bench

# Streams and collectives, plain TCP and gloo, compared: tables in docs/bench.md.
bench-wire: install-needs
	scripts/venv.sh build/venv-bench scripts/bench/requirements.txt
	go run ./scripts/benchwire

# Several peers and one, PyTorch's distributed training and ours, compared: the tables in docs/bench.md.
bench-mesh: install-needs build
	scripts/venv.sh build/venv-bench scripts/bench/requirements.txt
	go run ./scripts/benchmesh

# Ways to sum gradients, compared: the table in docs/numerics.md.
numerics:
	go test -count=1 -run '^TestNumerics$$' -v . -numerics

# Go, a C compiler for the race detector, Python for the interop tests, Chromium, Firefox and Node for the browser's, the compiler
# that makes its kernels, and an emulator for arm64's; any Go from 1.21 on fetches the version in go.mod by itself.
install-needs:
	@need=""; command -v go >/dev/null || need="golang-go"; \
	command -v gcc >/dev/null || command -v clang >/dev/null || need="$$need gcc libc6-dev"; \
	python3 -c 'import ensurepip, venv' 2>/dev/null || need="$$need python3-venv"; \
	[ -n "$$CHROMIUM" ] || command -v chromium >/dev/null || command -v google-chrome >/dev/null || need="$$need chromium"; \
	[ -n "$$FIREFOX" ] || command -v firefox-esr >/dev/null || command -v firefox >/dev/null || need="$$need firefox-esr"; \
	command -v node >/dev/null || need="$$need nodejs"; command -v npm >/dev/null || need="$$need npm"; \
	command -v clang-19 >/dev/null && command -v wasm-ld-19 >/dev/null || need="$$need clang-19 lld-19"; \
	command -v qemu-aarch64 >/dev/null || need="$$need qemu-user"; \
	if [ -n "$$need" ]; then \
		if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
			echo "make test needs: $$need" >&2; exit 1; \
		fi; \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends ca-certificates $$need; \
	fi

check-format:
	$(call step,gofmt,bad=$$(gofmt -l .) && [ -z "$$bad" ] || { echo "not formatted: $$bad"; exit 1; })

check-generated:
	$(call step,generated files,for g in $(GENERATORS); do "$$g" --check || exit 1; done)

check-vet:
	$(call step,go vet,go vet ./... && GOOS=js GOARCH=wasm go vet . ./wasm ./peer ./kernel/wasm)

check-static:
	$(call step,staticcheck,go tool staticcheck ./... && GOOS=js GOARCH=wasm $$(go tool -n staticcheck) . ./wasm ./kernel/wasm)

check-imports:
	$(call step,import rules,go test -count=1 -short ./internal/deptest)

# Types only: compiling for another platform takes minutes on a machine that has never done it. scripts/dist compiles.
check-platforms:
	$(call step,types on other platforms,go test -count=1 -run TestOtherPlatforms ./internal/deptest)

check-browser:
	$(call step,build for the browser,go test -count=1 -run TestBuildsForBrowser ./internal/deptest)
	$(call step,tests in Node,PATH="$$PATH:$$(go env GOROOT)/lib/wasm" GOOS=js GOARCH=wasm go test -count=1 ./wasm)

check-noasm:
	$(call step,tests without assembly,go test -vet=off -tags noasm -shuffle=on $(NUMBERS))

# NEON and plain Go as arm64 computes them, in an emulator, whose speed (TestPeak) is nobody's. kernel/ref is held to the
# fingerprint of other machines, the rest to kernel/ref.
check-arm64: export GOARCH := arm64
check-arm64: export CGO_ENABLED := 0
check-arm64:
	$(call step,arm64 in an emulator,go vet ./kernel/cpu/... && \
		go test -vet=off -exec qemu-aarch64 -run Pinned ./kernel/ref && \
		go test -vet=off -exec qemu-aarch64 -short -skip 'Peak|Suite/^-3$$' ./kernel/cpu/gemm ./kernel/cpu)

# Against other programs that read and write the same files. Elsewhere these tests are skipped without their needs, but
# not here. The environment stays in build/venv.
check-interop:
	$(call step,interop with safetensors and numpy,scripts/venv.sh build/venv scripts/requirements.txt && \
		go test -count=1 -run TestInterop -v ./internal/safetensors | tee build/interop.log && \
		grep -q -e '--- PASS: TestInterop' build/interop.log)

# Separate processes on this machine: four of them must end with the same model as one.
check-testnet: build
	$(call step,testnet of 4 processes, \
		build/shoal testnet $(SMALL) --peers 4 --report build/report-4 > build/four.json && \
		build/shoal testnet $(SMALL) --peers 1 --report build/report-1 > build/one.json && \
		grep '"state_hash"' build/four.json && \
		cmp <(grep -o '"state_hash": "[0-9a-f]\{64\}"' build/four.json) <(grep -o '"state_hash": "[0-9a-f]\{64\}"' build/one.json))

# The page in real browsers, at first over a server and a peer that are invented.
check-page: wasm build
	$(call step,the page,scripts/pagetest/run.sh)

# Last, so that its lines are the last ones that one sees. Tests with processes have the machine for themselves: the race
# detector slows their processes down, and finds in package shoal what it would find there. It would find nothing in the
# numbers of kernel's ops. Vet and internal/deptest have been here before.
check-unit:
	$(call step,tests of the kernels,go test -vet=off -shuffle=on -timeout 15m $$(go list ./kernel/... | grep -v /bits))
	$(call step,tests,go test -race -vet=off -shuffle=on -timeout 15m ./kernel/cpu -run 'Split|Workers|Suite/^-3$$' && \
		go test -race -vet=off -shuffle=on -timeout 15m $$(go list ./... | grep -v -e /cmd/shoal -e shoal/kernel -e internal/deptest))
	$(call step,tests with processes,go test -vet=off -shuffle=on -timeout 15m -skip '$(TABS)' ./cmd/shoal)

check-tabs:
	$(call step,tests with tabs,go test -timeout 15m -run '$(TABS)' ./cmd/shoal)
