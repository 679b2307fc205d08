#!/bin/sh
# Installs modelgate VERSION: downloads the binary for this machine, checks it, and puts it into
# a folder of your PATH. Run `sh install.sh --help` for its options.
set -eu

version="VERSION"
address="ADDRESS"
to=""

usage() {
	cat <<END
Usage: sh install.sh [--to FOLDER] [--from ADDRESS]

  --to FOLDER     where the binary goes; /usr/local/bin for root, ~/.local/bin otherwise
  --from ADDRESS  where the files of the release are, an address or a folder
END
}

fail() {
	echo "install: $*" >&2
	exit 1
}

while [ $# -gt 0 ]; do
	case "$1" in
	--to) to=${2:?--to needs a folder} && shift 2 ;;
	--from) address=${2:?--from needs an address} && shift 2 ;;
	-h | --help) usage && exit 0 ;;
	*) usage >&2 && exit 2 ;;
	esac
done
[ -n "$address" ] || fail "this script does not know where the release is; give its address with --from"
if [ -z "$to" ]; then
	to=$HOME/.local/bin
	[ "$(id -u)" != 0 ] || to=/usr/local/bin
fi

case "$(uname -s)" in
Linux) os=linux ;;
Darwin) os=darwin ;;
*) fail "there is no binary for $(uname -s); build it from source" ;;
esac
case "$(uname -m)" in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) fail "there is no binary for $(uname -m); build it from source" ;;
esac
name=modelgate-$version-$os-$arch

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# fetch NAME: gets a file of the release.
fetch() {
	case "$address" in
	*://*)
		if command -v curl >/dev/null 2>&1; then
			curl --fail --silent --show-error --location --output "$folder/$1" "$address/$1"
		elif command -v wget >/dev/null 2>&1; then
			wget --quiet --output-document "$folder/$1" "$address/$1"
		else
			fail "neither curl nor wget is installed"
		fi
		;;
	*) cp "$address/$1" "$folder/$1" ;;
	esac || fail "$address/$1 cannot be read"
}

fetch SHA256SUMS
fetch "$name"
wanted=$(awk -v name="$name" '$2 == name { print $1 }' "$folder/SHA256SUMS")
[ -n "$wanted" ] || fail "SHA256SUMS has no line for $name"
if command -v sha256sum >/dev/null 2>&1; then
	have=$(sha256sum "$folder/$name")
else
	have=$(shasum -a 256 "$folder/$name")
fi
[ "${have%% *}" = "$wanted" ] || fail "$name is not the file that SHA256SUMS describes; nothing was installed"

mkdir -p "$to"
chmod 755 "$folder/$name"
mv "$folder/$name" "$to/.modelgate.new"
mv "$to/.modelgate.new" "$to/modelgate" # at once, so that a running one is not cut
echo "installed $to/modelgate $version"
case ":$PATH:" in
*":$to:"*) ;;
*) echo "$to is not in your PATH; add it, or run $to/modelgate" ;;
esac
