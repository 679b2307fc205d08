#!/bin/sh
# Checks what a compiler does not. The linter's version is pinned in tools/tools.mod,
# so that it stays out of the program's own go.mod.
set -eu
cd "$(dirname "$0")/.."

unformatted=$(gofmt -l $(git ls-files '*.go' 2>/dev/null || find . -name '*.go' -not -path './*/node_modules/*'))
if [ -n "$unformatted" ]; then
	echo "lint: not formatted, run gofmt -w on:" >&2
	echo "$unformatted" >&2
	exit 1
fi
go vet ./...
go tool -modfile=tools/tools.mod staticcheck ./...
echo "lint: fine"
