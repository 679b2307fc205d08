#!/bin/sh
# Replaces systemd, which has to be the first process of a machine: runs the command of the unit
# modelgate with the variables that its packages give it. Types of units are left out.
set -eu
state=/var/lib/modelgate.service log=$SERVICE_LOG

pid() { cat "$state" 2>/dev/null || echo 0; }

stop() {
	p=$(pid)
	[ "$p" != 0 ] && kill "$p" 2>/dev/null || return 0
	while kill -0 "$p" 2>/dev/null; do sleep 0.02; done
	rm -f "$state"
}

start() {
	: >"$log.start"
	(
		set -a
		MODELGATE_DATA=/var/lib/modelgate MODELGATE_CONFIG=/etc/modelgate/modelgate.yaml
		. /etc/modelgate/environment
		cd /
		exec setsid modelgate serve >"$log.start" 2>>"$log" </dev/null
	) &
	echo $! >"$state"
	until grep -q /v1 "$log.start"; do # the greeting: it accepts requests, which systemd learns by a message
		kill -0 "$(pid)" 2>/dev/null || { tail -n 3 "$log" >&2; exit 1; }
		sleep 0.02
	done
}

verb=$1
shift
for unit; do
	case $unit in --*) ;; modelgate) ;; *) echo "no unit $unit" >&2; exit 1 ;; esac
done
case $verb in
start | enable) start ;;
stop) stop ;;
restart) stop; start ;;
reload) kill -HUP "$(pid)" ;;
kill) kill -KILL "$(pid)" ;;
is-active) kill -0 "$(pid)" ;;
*) echo "no verb $verb" >&2; exit 1 ;;
esac
