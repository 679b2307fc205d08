#!/bin/sh
# Fails if a response has an error status, so that an example with an error is noticed,
# unless LENIENT is set.
case $0 in /*) here=$(dirname "$0") ;; *) here=$(pwd)/$(dirname "$0") ;; esac
PATH=$(echo "$PATH" | sed "s,^$here:,,") exec curl ${LENIENT---fail-with-body} "$@"
