#!/bin/sh
# Builds bin/modelgate for this machine. Needs Go alone.
set -eu
cd "$(dirname "$0")/.."

if ! command -v go >/dev/null 2>&1; then
	echo "build: no Go on this machine; install the version that go.mod names from https://go.dev/dl/" >&2
	exit 1
fi
echo "build: bin/modelgate (the first build takes a minute or two)" >&2
mkdir -p bin
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-X main.version=$(scripts/version.sh)" -o bin/modelgate ./cmd/modelgate
