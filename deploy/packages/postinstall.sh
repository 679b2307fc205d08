#!/bin/sh
# Makes the user and the data folder after installation, on every distribution.
set -eu
if ! getent passwd modelgate >/dev/null 2>&1; then
	if command -v useradd >/dev/null 2>&1; then
		useradd --system --user-group --home-dir /var/lib/modelgate --shell /usr/sbin/nologin modelgate
	else # of BusyBox
		addgroup -S modelgate
		adduser -S -D -H -h /var/lib/modelgate -s /sbin/nologin -G modelgate modelgate
	fi
fi
mkdir -p /var/lib/modelgate
chown modelgate:modelgate /var/lib/modelgate
chmod 700 /var/lib/modelgate
chown root:modelgate /etc/modelgate/modelgate.yaml
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart modelgate.service
fi
