#!/usr/bin/env bash
# An error response is a failed command.
PATH=$SEARCH exec curl --silent --show-error --fail-with-body --max-time 60 "$@"
