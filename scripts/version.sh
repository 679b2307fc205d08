#!/bin/sh
# Prints the version of this tree: the latest tag and what came after it, or
# "dev" where there is no git.
git -C "$(dirname "$0")" describe --tags --always --dirty 2>/dev/null || echo dev
