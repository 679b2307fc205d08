#!/bin/sh
# Checks what a compiler does not. Versions of linters are pinned in tools/tools.mod,
# so that they stay out of the program's own go.mod.
set -eu
cd "$(dirname "$0")/.."

unformatted=$(gofmt -l $(git ls-files '*.go' 2>/dev/null || find . -name '*.go' -not -path './*/node_modules/*'))
if [ -n "$unformatted" ]; then
	echo "lint: not formatted, run gofmt -w on:" >&2
	echo "$unformatted" >&2
	exit 1
fi
go vet ./...
# Not omitzero: the documents of the control plane read from omitempty which fields are optional.
if outdated=$(go fix -omitzero=false -diff ./...) && [ -z "$outdated" ]; then :; else
	echo "$outdated" >&2
	echo "lint: older forms of Go, run go fix -omitzero=false ./..." >&2
	exit 1
fi
go tool -modfile=tools/tools.mod staticcheck ./...

# Known vulnerabilities are listed on the network. Without it, the rest counts, unless
# MODELGATE_LINT_VULNERABILITIES=required.
status=0
found=$(go tool -modfile=tools/tools.mod govulncheck ./... 2>&1) || status=$?
case $status in
0) ;;
3) # vulnerabilities that the program reaches
	echo "$found" >&2
	echo "lint: update the modules with vulnerabilities" >&2
	exit 1
	;;
*)
	echo "$found" | tail -n 1 >&2
	[ "${MODELGATE_LINT_VULNERABILITIES:-}" != required ] || exit 1
	echo "lint: KNOWN VULNERABILITIES WERE NOT LOOKED UP, since their list cannot be read" >&2
	;;
esac
echo "lint: fine"
