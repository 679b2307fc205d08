#!/bin/sh
# Takes a CPU profile of the gateway under the benchmark's load and puts it
# next to the program, where the compiler finds it (go help build, -pgo).
set -eu
cd "$(dirname "$0")/.."

tools/build.sh
profiles=$(mktemp -d)
trap 'rm -rf "$profiles"' EXIT
bin/modelgate bench --quick --profile "$profiles" >/dev/null
cp "$profiles/cpu.pprof" cmd/modelgate/default.pgo
echo "pgo: cmd/modelgate/default.pgo; the next build takes longer, since it compiles every package again" >&2
