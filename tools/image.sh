#!/bin/sh
# Builds container images for the platforms that are named, or for linux/amd64 and
# linux/arm64. They stay in the local storage of docker or buildah as modelgate:VERSION-ARCH.
# modelgate:VERSION is the one image or, of several platforms, buildah's manifest of all; docker
# keeps none without a registry. Needs Go, and docker with a running daemon or buildah; ENGINE
# chooses between them. BINARIES is a folder with programs that were built before, named
# modelgate-ARCH. The same commit and version of Go give the same files.
set -eu
cd "$(dirname "$0")/.."

fail() {
	echo "image: $*" >&2
	exit 1
}

# engine is what builds: what ENGINE names, docker if its daemon answers, otherwise buildah.
if [ -n "${ENGINE:-}" ]; then
	engine=$ENGINE
	case $engine in
	docker | buildah) command -v "$engine" >/dev/null 2>&1 || fail "$engine is missing" ;;
	*) fail "ENGINE must be docker or buildah, not $engine" ;;
	esac
elif docker info >/dev/null 2>&1; then
	engine=docker
elif command -v buildah >/dev/null 2>&1; then
	engine=buildah
else
	fail "no docker daemon answers and buildah is missing; start docker, or apt-get install buildah"
fi

version=$(tools/version.sh)
revision=$(git rev-parse HEAD 2>/dev/null) || revision=unknown
seconds=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
created=$(date -u -d "@$seconds" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r "$seconds" +%Y-%m-%dT%H:%M:%SZ)
tag=$(echo "$version" | tr + -)

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp deploy/image/Containerfile "$context"

# build ARCH ARGUMENTS...: builds the image of one platform.
build() {
	arch=$1
	shift
	set -- "$@" --platform "linux/$arch" --file "$context/Containerfile" --build-arg "ROOT=root-$arch.tar" \
		--label "org.opencontainers.image.title=modelgate" \
		--label "org.opencontainers.image.description=A gateway in front of model providers" \
		--label "org.opencontainers.image.licenses=Apache-2.0" \
		--label "org.opencontainers.image.version=$version" \
		--label "org.opencontainers.image.revision=$revision" \
		--label "org.opencontainers.image.created=$created" \
		--tag "modelgate:$tag-$arch"
	case $engine in
	docker) SOURCE_DATE_EPOCH=$seconds docker build "$@" "$context" ;;
	buildah) # The format of docker has health checks; that of OCI has none.
		buildah build --format docker --isolation chroot --timestamp "$seconds" "$@" "$context"
		;;
	esac
}

# program ARCH: puts the program of one platform into the context.
program() {
	if [ -n "${BINARIES:-}" ]; then
		cp "$BINARIES/modelgate-$1" "$context"
		return
	fi
	CGO_ENABLED=0 GOOS=linux GOARCH=$1 go build -trimpath -buildvcs=false \
		-ldflags "-s -w -buildid= -X main.version=$version -X main.commit=$(git rev-parse HEAD 2>/dev/null || true)" -o "$context/modelgate-$1" ./cmd/modelgate
}

[ $# -gt 0 ] || set -- linux/amd64 linux/arm64
for platform in "$@"; do
	case $platform in
	linux/amd64 | linux/arm64) ;;
	*) fail "unknown platform $platform; use linux/amd64 or linux/arm64" ;;
	esac
done
for platform in "$@"; do
	arch=${platform#linux/}
	echo "image: building for linux/$arch with $engine" >&2
	program "$arch"
	(cd tools/deploy && go run ./rootfs "$context/modelgate-$arch" "$seconds") >"$context/root-$arch.tar"
	rm "$context/modelgate-$arch"
	build "$arch"
	[ $# -gt 1 ] || $engine tag "modelgate:$tag-$arch" "modelgate:$tag"
	rm "$context/root-$arch.tar"
	echo "image: modelgate:$tag-$arch" >&2
done
if [ $# -gt 1 ] && [ "$engine" = buildah ]; then
	buildah manifest rm "modelgate:$tag" >/dev/null 2>&1 || buildah rmi "modelgate:$tag" >/dev/null 2>&1 || true # of an earlier build
	buildah manifest create "modelgate:$tag" >/dev/null
	for platform in "$@"; do
		buildah manifest add "modelgate:$tag" "containers-storage:localhost/modelgate:$tag-${platform#linux/}" >/dev/null
	done
	echo "image: modelgate:$tag" >&2
fi
