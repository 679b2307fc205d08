#!/bin/sh
# Prints the version of this tree, a semantic one: the latest tag and what came
# after it; before the first tag 0.1.0-dev with the commit; only 0.1.0-dev where
# there is no git.
cd "$(dirname "$0")" || exit 1
first=0.1.0-dev
if tagged=$(git describe --tags --dirty 2>/dev/null); then
	echo "${tagged#v}"
elif commit=$(git describe --always --dirty 2>/dev/null); then
	echo "$first+$(echo "$commit" | tr - .)"
else
	echo "$first"
fi
