#!/bin/sh
# Builds bin/modelgate for this machine. Needs only Go.
set -eu
cd "$(dirname "$0")/.."

if ! command -v go >/dev/null 2>&1; then
	echo "build: no Go on this machine; install the version that go.mod names from https://go.dev/dl/" >&2
	exit 1
fi
echo "build: bin/modelgate (the first build takes a minute or two)" >&2
# -s -w leave out what only a debugger reads; stack traces and profiles are the same.
mkdir -p bin
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$(tools/version.sh) -X main.commit=$(git rev-parse HEAD 2>/dev/null || true)" -o bin/modelgate ./cmd/modelgate
