#!/bin/sh
# Replaces the installer of packages, whose packages are tested in test/release: puts the program
# of a version in place, and restarts the service as the package does.
set -eu
[ "$1" = install ]
for package; do :; done # the last argument
version=$(basename "$package" | sed 's/^modelgate-\(.*\)-amd64\.deb$/\1/')
ln -sfn "$VERSIONS/$version" "$(dirname "$0")/modelgate"
systemctl restart modelgate
