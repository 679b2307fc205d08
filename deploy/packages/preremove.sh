#!/bin/sh
# Stops the service before it is removed, but not before an upgrade. The data stays.
set -eu
case "${1:-}" in
remove | purge | 0 | "")
	if [ -d /run/systemd/system ]; then
		systemctl disable --now modelgate.service || true
	fi
	;;
esac
