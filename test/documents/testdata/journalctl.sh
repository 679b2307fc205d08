#!/bin/sh
# Replaces the journal of systemd: prints what the service printed.
set -eu
cat "$SERVICE_LOG.start" "$SERVICE_LOG"
