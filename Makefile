# nave: see README.md. The targets that matter: build, test, demo, lint, bench.

VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
KUBERNETES := $(shell sed -n 's/^.*k8s.io\/kubernetes v1/v1/p' go.mod)

# Kubernetes learns its version from the linker; without it clients see v0.0.0.
KUBE_VERSION := k8s.io/component-base/version
LDFLAGS := -s -w -X nave/pkg/version.number=$(VERSION) \
	-X $(KUBE_VERSION).gitVersion=$(KUBERNETES) -X $(KUBE_VERSION).gitMajor=1 -X $(KUBE_VERSION).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))

# One set of build flags for everything, so that the build cache holds each package once.
export GOFLAGS := -trimpath

.PHONY: all build generate test lint demo bench clean tools

all: build

tools:
	@scripts/check-tools.sh

generate: tools
	go generate ./manifests

build: generate
	go build -ldflags '$(LDFLAGS)' -o bin/nave ./cmd/nave

test: build
	go test -timeout 40m ./...

lint: generate
	@test -z "$$(gofmt -l cmd pkg manifests scripts test)" || { echo "gofmt: run gofmt -w on:"; gofmt -l cmd pkg manifests scripts test; exit 1; }
	go vet ./...
	go tool staticcheck ./...

demo: build
	@scripts/demo.sh

bench: build
	go run ./test/perf

clean:
	rm -rf bin
