#!/bin/sh
# Sets up what the tests need and runs every test, with the race detector where
# something is concurrent. A tool that is missing is a failure with its remedy, never
# a test left out. With the argument quick it runs a subset in three minutes: package
# tests without the race detector, on SQLite only, and none that run the built program.
set -u
cd "$(dirname "$0")/.." || exit 1

clients=test/clients
failed=""

say() { echo "test: $*"; }

fail() {
	say "$*" >&2
	exit 1
}

# cache_need and temporary_need are megabytes that a complete run writes: to Go's build
# cache if that is empty (13 GB were measured), and to temporary folders at the same time.
cache_need=15000
temporary_need=3000

# free_space DIR: the free megabytes of the file system that DIR is on.
free_space() { df -Pm "$1" 2>/dev/null | awk 'NR == 2 { print $4 }'; }

# check_space stops before anything is written if the run would fill a disk: a full disk
# fails hundreds of tests that have nothing to do with it. What the cache has counts, except
# for a part that is built again.
check_space() {
	cache=$(go env GOCACHE)
	mkdir -p "$cache" || fail "Go's build cache $cache cannot be created; set GOCACHE"
	cached=$(du -sm "$cache" | cut -f 1)
	missing=$((cache_need - cached))
	[ "$missing" -ge 2000 ] || missing=2000
	[ "${1:-}" != quick ] || missing=$((missing / 3))
	wanted=$temporary_need
	if [ "$(df -P "$cache" | awk 'NR == 2 { print $6 }')" = "$(df -P "$TMPDIR" | awk 'NR == 2 { print $6 }')" ]; then
		wanted=$((wanted + missing))
	else
		enough "$cache" "$missing" "free some, or set GOCACHE to a folder of another disk"
	fi
	enough "$TMPDIR" "$wanted" "free some, run go clean -cache if the cache has old builds ($cached MB), or set TMPDIR to a folder of another disk"
}

# enough DIR MEGABYTES REMEDY: the file system of DIR has to have them.
enough() {
	have=$(free_space "$1")
	[ "${have:-0}" -ge "$2" ] || fail "$have MB are free on the disk of $1, and the tests need about $2 MB; $3"
}

# set_up_temporary makes the one folder that everything temporary is in, and removes it at
# the end, also of a run that is interrupted or whose tests leave something behind. Its name
# is short: paths of sockets have at most 107 bytes.
set_up_temporary() {
	TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/mg.XXXXXX") || exit 1
	chmod 711 "$TMPDIR" # root runs PostgreSQL as another user
	export TMPDIR
	output=$TMPDIR/output
	: >"$output"
	trap 'remove_temporary' EXIT
	trap 'exit 130' INT TERM HUP
}

# remove_temporary removes the folder. Modules that a test downloads are read-only, and a
# database that is ending may still write for a moment.
remove_temporary() {
	cd / || return
	chmod -R u+w "$TMPDIR" 2>/dev/null
	rm -rf "$TMPDIR" 2>/dev/null || { sleep 1 && rm -rf "$TMPDIR"; }
}

# need NAME REMEDY: the command has to be there.
need() {
	command -v "$1" >/dev/null 2>&1 || fail "$1 is missing; $2"
}

# at_least HAVE WANT: compares versions such as 1.26.8.
at_least() {
	[ "$(printf '%s\n%s\n' "$2" "$1" | sort -t. -k1,1n -k2,2n -k3,3n | head -n 1)" = "$2" ]
}

check_go() {
	wanted=$(awk '$1 == "go" { print $2 }' go.mod)
	need go "install Go $wanted or later from https://go.dev/dl/"
	have=$(go env GOVERSION | sed 's/^go//; s/[^0-9.].*//')
	at_least "$have" "$wanted" || fail "Go $have is too old; install $wanted or later from https://go.dev/dl/"
	compiler=$(go env CC)
	need "${compiler%% *}" "the race detector needs a C compiler: apt-get install gcc"
	say "Go $have, C compiler $compiler"
}

# agents are coding agents, which the tests run as programs.
agents=test/agents

# set_up_clients installs the client libraries and agents that the tests drive.
set_up_clients() {
	need node "the tests drive the official Node clients: install Node 20 or later"
	need npm "the tests drive the official Node clients: install npm"
	have=$(node --version | sed 's/^v//')
	at_least "$have" 20 || fail "Node $have is too old; install 20 or later"
	say "Node $have, npm $(npm --version 2>/dev/null)"
	set_up_npm "$clients"
	set_up_npm "$agents"
	if [ -z "$without" ]; then
		set_up_python "$clients"
		set_up_python "$agents"
	fi
}

# is_newer DIR FILE...: FILE in DIR is there and newer than all others.
is_newer() {
	dir=$1 made=$1/$2
	shift 2
	[ -f "$made" ] || return 1
	for name in "$@"; do
		[ "$made" -nt "$dir/$name" ] || return 1
	done
}

# set_up_npm DIR: installs the npm packages of the lock file in DIR.
set_up_npm() {
	if is_newer "$1" node_modules/.package-lock.json package-lock.json package.json; then
		say "the npm packages of $1 are installed"
		return
	fi
	say "installing the npm packages of $1"
	(cd "$1" && npm ci --no-audit --no-fund) || fail "npm ci failed in $1; see above"
}

# without matches the tests that need Python, if there is none that can install
# their packages.
without=""

# check_python sees whether there is such a Python. Unless MODELGATE_TEST_PYTHON is
# required, as in .ci/run, the other tests do without it.
check_python() {
	if ! command -v python3 >/dev/null 2>&1; then
		problem="python3 is missing"
	elif ! python3 -c 'import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' 2>/dev/null; then
		problem="$(python3 --version) is not 3.10 to 3.12, or has no venv"
	else
		say "$(python3 --version)"
		return
	fi
	[ "${MODELGATE_TEST_PYTHON:-}" != required ] || fail "$problem; install Python 3.10 to 3.12 with venv"
	without='TestPythonClients|TestAgentsWork/aider'
	report_python
}

# report_python says loudly what is left out without Python.
report_python() {
	[ -z "$without" ] || say "NO PYTHON ($problem): THE PYTHON CLIENTS, LITELLM AND AIDER ARE NOT TESTED; install Python 3.10 to 3.12 with venv" >&2
}

# install_python DIR ARGUMENTS...: runs pip install in DIR/.venv.
install_python() {
	pip="$1/.venv/bin/pip"
	shift
	"$pip" --disable-pip-version-check install --quiet "$@"
}

# set_up_python DIR: installs the pinned Python packages of DIR in DIR/.venv, first
# those of hashed.txt, if it is there, by their hashes.
set_up_python() {
	hashed=""
	[ ! -f "$1/hashed.txt" ] || hashed=hashed.txt
	# shellcheck disable=SC2086 # one argument or none
	if is_newer "$1" .venv/installed requirements.txt $hashed; then
		say "the Python packages of $1 are installed"
		return
	fi
	say "installing the Python packages of $1"
	rm -rf "$1/.venv"
	python3 -m venv "$1/.venv" &&
		{ [ -z "$hashed" ] || install_python "$1" --require-hashes --no-deps --requirement "$1/$hashed"; } &&
		install_python "$1" --requirement "$1/requirements.txt" ||
		fail "pip failed in $1; see above"
	touch "$1/.venv/installed"
}

# set_up_browser sees that there is one: pages are tested in a real browser.
set_up_browser() {
	remedy="the pages are tested in a real browser: apt-get install chromium"
	if ! command -v chromium >/dev/null 2>&1; then
		[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || fail "chromium is missing; $remedy"
		say "installing chromium"
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null || fail "chromium can't be installed; $remedy"
	fi
	say "$(chromium --version 2>/dev/null)"
}

# set_up_engines sees that there are what builds images without a daemon, the proxies of the
# documents, and what reads JSON in their examples.
set_up_engines() {
	for name in buildah nginx caddy jq; do
		command -v "$name" >/dev/null 2>&1 && continue
		remedy="the files in deploy and examples of the documents are tested with it: apt-get install $name"
		[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || fail "$name is missing; $remedy"
		say "installing $name"
		apt-get update -qq && apt-get install -y -qq --no-install-recommends "$name" >/dev/null || fail "$name can't be installed; $remedy"
	done
	say "$(buildah --version), $(nginx -v 2>&1), caddy $(caddy version)"
}

# condense shortens the output of go test -v: a line per package, the names of
# skipped tests, and of packages that fail what their failed tests said. A line
# "failed: " repeats each failed test with the first lines of its message. Of a package that
# took too long it names the tests that were running.
condense() {
	awk '
		function report(package,   i, name, said) {
			for (i = 0; i < n; i++) if (!passed[owner[i]]) print lines[i]
			for (i = 0; i < n; i++) {
				name = owner[i]
				if (passed[name] || name == "timeout" || lines[i] ~ /^( *--- |=+$)/ || spoke[name]++ >= 3) continue
				said = lines[i]
				gsub(/^[ \t]+/, "", said)
				message[name] = message[name] " " said
			}
			if (timeout) print "failed: " package " " slow ": " timeout
			for (i = 0; i < failures; i++) {
				name = failing[i]
				if (name in message || !(name in parent)) print "failed: " package " " name ":" message[name]
				delete message[name]
			}
			for (name in message) print "failed: " package " " name ":" message[name]
		}
		function forget() { n = failures = 0; split("", passed); split("", spoke); split("", message); split("", parent); test = timeout = slow = "" }
		BEGIN { forget() }
		/^=== (RUN|NAME|CONT|PAUSE) / { test = $3; next }
		/^ *--- PASS: / { passed[$3] = 1; next }
		/^ *--- SKIP: / { passed[$3] = 1; print "skipped: " $3; next }
		/^ *--- FAIL: / {
			failing[failures++] = owner[n] = $3
			lines[n++] = $0
			for (up = $3; sub(/\/[^\/]*$/, "", up); ) parent[up] = 1
			next
		}
		/: no recordings in / { print "without recordings: " test }
		/^panic: test timed out after / { test = "timeout"; timeout = $0 }
		test == "timeout" && /^\t\tTest[^ ]* \(/ { slow = slow (slow == "" ? "" : ", ") $1 }
		/^(ok  |\?   )/ { print; fflush(); forget(); next }
		/^FAIL\t/ { report($2); print; fflush(); forget(); next }
		/^(PASS|FAIL)$/ { test = ""; next }
		{ owner[n] = test; lines[n++] = $0 }
		END { report("") }'
}

# step NAME COMMAND...: runs the command, shows and keeps its output, and
# remembers a failure without stopping.
step() {
	name=$1
	shift
	say "$*" | cut -c 1-100
	{ "$@" 2>&1; echo "exit $?" >"$output.status"; } | condense | tee -a "$output"
	[ "$(cat "$output.status")" = "exit 0" ] || failed="$failed $name"
	rm -f "$output.status"
}

count() { grep -c "$1" "$output"; }

# report_skipped says how many tests were skipped. None may be for want of
# recordings where they are.
report_skipped() {
	unrecorded=$(count '^without recordings: ')
	say "skipped: $unrecorded tests for want of recordings, $(($(count '^skipped: ') - unrecorded)) inputs of fuzz targets"
	if [ -d ../shared/recordings ] && [ "$unrecorded" -gt 0 ]; then
		grep '^without recordings: ' "$output" >&2
		failed="$failed recordings"
	fi
}

# report_failed lists the failed tests with their messages.
report_failed() {
	[ "$(count '^failed: ')" = 0 ] && return
	say "failed tests:" >&2
	sed -n 's/^failed: /  /p' "$output" | cut -c 1-600 >&2
}

# report_slowest lists the ten packages that took the longest.
report_slowest() {
	say "slowest packages:"
	awk '($1 == "ok" || $1 == "FAIL") && $3 ~ /^[0-9.]+s$/ { print $3 "\t" $2 }' "$output" | sort -rn | head -n 10
}

# report_recordings says whether the recorded provider traffic is there. It lies
# outside the repository and is the one thing that tests do without.
report_recordings() {
	if [ -d ../shared/recordings ]; then
		say "recorded provider traffic: ../shared/recordings"
	else
		say "no recorded provider traffic in ../shared/recordings: the tests that replay it are left out"
	fi
}

# clean_environment unsets what would configure a gateway under test.
clean_environment() {
	for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' |
		grep -E '^(DATABASE_URL|(DB|OTEL|MODELGATE)_.*|.*_ENABLED)$' |
		grep -vE '^MODELGATE_(BINARY|BINARY_STALE|TEST_[A-Z_]*)$'); do
		say "unset $name"
		unset "$name"
	done
}

# set_up_disk sees whether a small file system can be mounted, to be filled.
set_up_disk() {
	disk=$(mktemp -d) || exit 1
	if mount -t tmpfs -o size=1m tmpfs "$disk" 2>/dev/null; then
		umount "$disk"
	else
		export MODELGATE_TEST_MOUNT=off
		say "A REAL FULL DISK IS NOT TESTED: file systems can't be mounted here; run the tests as root of a machine to have it tested" >&2
	fi
	rmdir "$disk"
}

# set_up_bucket builds the S3 server that buckets are tested with; Go's build cache keeps it.
set_up_bucket() {
	if go tool -modfile=tools/s3.mod -n versitygw >/dev/null 2>"$output.bucket"; then
		say "S3 server: versitygw $(go list -m -modfile=tools/s3.mod -f '{{.Version}}' github.com/versity/versitygw)"
		export MODELGATE_TEST_S3=required
		return
	fi
	tail -n 1 "$output.bucket" >&2
	[ "${MODELGATE_TEST_S3:-}" != required ] || fail "versitygw can't be built; its modules are downloaded once, from the Go module proxy"
	export MODELGATE_TEST_S3=off
	say "A REAL S3 SERVER IS NOT TESTED: versitygw can't be built; its modules are downloaded once, from the Go module proxy" >&2
}

# fast are flags that save processor time: go vet has its own step, and test
# programs need no tables for a debugger.
fast="-vet=off -ldflags=-w"

# package_timeout is how long the tests of one package may take on a loaded machine.
package_timeout=40m

# unwatched are the modules that the race detector, and the checks of pointers that
# come with it, are kept out of: SQLite, which is C translated to Go and took three
# quarters of the time of every test with a database, and compressors, which tests
# feed hundreds of megabytes.
unwatched="modernc.org/... github.com/andybalholm/brotli/... compress/..."

# race NAME PACKAGES_AND_FLAGS...: tests with the race detector.
race() {
	name=$1
	shift
	for module in $unwatched; do
		set -- "-gcflags=$module=-d=checkptr=0 -race=false" "$@"
	done
	# shellcheck disable=SC2086 # one argument per flag
	step "$name" go test -v $fast -timeout "$package_timeout" -race "$@"
}

# concurrent matches Go code that runs at the same time as other code: goroutines,
# locks, parallel tests, servers, databases and other programs.
concurrent='^[[:space:]]*go (func|[A-Za-z_.]+\()|\.Go\(|t\.Parallel\(\)|httptest\.|exec\.Command|http\.Serve|gatewaytest\.|storetest\.|sync\.|synctest\.'

# split_by_concurrency sets sequential to the packages of $inside whose own files and
# tests are sequential, and concurrent to the others. The race detector can find
# nothing in the tests of the first and makes them take five times as long; their
# code runs under it in the tests of the packages that use it. The tests in the root
# read the sources, in which they name what is concurrent.
split_by_concurrency() {
	sequential="" concurrent=""
	for package in $inside; do
		dir=.${package#modelgate}
		if [ "$package" != modelgate ] && cat "$dir"/*.go | grep -qE "$concurrent"; then
			concurrent="$concurrent $package"
		else
			sequential="$sequential $package"
		fi
	done
}

# run_all runs every test: with the race detector where something is concurrent.
run_all() {
	check_python
	set_up_clients >"$output.clients" 2>&1 & # what it installs is needed last
	clients_set_up=$!
	set_up_browser
	set_up_engines
	set_up_disk
	set_up_bucket
	if [ -n "${MODELGATE_BINARY:-}" ]; then
		say "TESTED BINARY: $MODELGATE_BINARY (from MODELGATE_BINARY)"
	fi
	step vet go vet ./...
	split_by_concurrency
	# shellcheck disable=SC2086 # one argument per flag and package
	step sequential go test -v $fast -timeout "$package_timeout" $sequential
	# shellcheck disable=SC2086
	race concurrent $concurrent
	wait "$clients_set_up" || failed="$failed set-up-of-clients"
	cat "$output.clients"
	rm -f "$output.clients"
	# These run the built program and other programs, of which the test cache
	# knows nothing: never take an earlier pass.
	# shellcheck disable=SC2086
	race conformance -count=1 ${without:+-skip "$without"} $outside
}

# run_quick runs package tests in a short form. Half of their processor time was
# garbage collection: thousands of small gateways. Many wait rather than compute, so
# more run at a time than there are processors.
run_quick() {
	say "QUICK: no race detector, PostgreSQL only where a test needs it, no counters in PostgreSQL or Redis, no real S3 server, no benchmark runs, no measuring of tests, nothing else under test/ than its policies; make test runs all"
	# shellcheck disable=SC2086
	step vet go vet $inside
	# shellcheck disable=SC2046,SC2086
	GOGC=400 step tests go test -v $fast -short -p 4 -parallel 4 $(echo "$inside" | grep -vE '/(tools/(bench|faults|mutants)|internal/limits/(pgquota|redisquota))$')
}

case ${1:-} in
"" | quick) ;;
*) fail "usage: tools/test.sh [quick]" ;;
esac

began=$(date +%s)
set_up_temporary
clean_environment
check_go
check_space "${1:-}"
report_recordings
packages=$(go list ./...) || fail "go list failed; see above"
# Policies read the sources: like tests of packages, they need no built program.
inside=$(echo "$packages" | grep -E -v '^modelgate/test/' ; echo modelgate/test/policy)
outside=$(echo "$packages" | grep '^modelgate/test/' | grep -v '/policy$')

if [ "${1:-}" = quick ]; then
	run_quick
else
	run_all
fi

echo
report_slowest
report_skipped
report_python
say "packages: $(count '^ok ') passed, $(count '^FAIL	') failed, $(count '\[no test files\]') without tests"
took=$(($(date +%s) - began))
say "took $((took / 60)) min $((took % 60)) s"
report_failed
if [ -n "$failed" ]; then
	fail "FAILED:$failed"
fi
say "all passed"
