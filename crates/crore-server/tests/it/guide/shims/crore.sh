#!/usr/bin/env bash
# Runs crore. A server or a worker, which a reader runs in a terminal of its own, starts in the background: the call
# returns as soon as it is ready. A new server replaces the previous one, as after Ctrl-C.

start() { # NAME READY ARGUMENTS...
  local log="$PAGE/$1.log" ready="$2"
  : > "$log"
  "$CRORE_BINARY" "${@:3}" < /dev/null >> "$log" 2>&1 &
  echo $! > "$PAGE/$1.pid"
  until grep -q "$ready" "$log"; do
    kill -0 $! 2> /dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.05
  done
}

stop() { # NAME
  local pid
  pid=$(cat "$PAGE/$1.pid" 2> /dev/null) || return 0
  kill "$pid" 2> /dev/null || return 0
  # A second signal: jobs that still run are not waited for.
  timeout 1 tail --pid="$pid" -f /dev/null || kill "$pid" 2> /dev/null
  tail --pid="$pid" -f /dev/null
}

case "$1:$*" in
  worker:*\ ls*) exec "$CRORE_BINARY" "$@" ;;
  serve:* | dev:*) stop worker; stop server; start server 'listens on' "$@" ;;
  worker:*) stop worker; start worker 'running handlers' "$@" ;;
  *) exec "$CRORE_BINARY" "$@" ;;
esac
