#!/bin/sh
# Builds static binaries for every platform into dist/, with their checksums.
# The same commit and the same Go give the same bytes on any machine.
set -eu
cd "$(dirname "$0")/.."

version=$(tools/version.sh)
rm -rf dist
mkdir -p dist
for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
	binary="modelgate-$version-$(echo "$platform" | tr / -)"
	echo "release: dist/$binary"
	CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} GOFLAGS= GOAMD64=v1 GOARM64=v8.0 \
		go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.version=$version" -o "dist/$binary" ./cmd/modelgate
done

cd dist
if command -v sha256sum >/dev/null 2>&1; then
	sha256sum modelgate-* >SHA256SUMS
else
	shasum -a 256 modelgate-* >SHA256SUMS
fi
cat SHA256SUMS
