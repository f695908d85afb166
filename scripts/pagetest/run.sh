#!/bin/sh
# Runs the tests of the page, all or those in the named files. Fetches what they need, node_modules, unless it is there from the same package-lock.json.
set -eu
cd "$(dirname "$0")"
if ! cmp -s package-lock.json node_modules/installed.json; then
	npm ci --no-audit --no-fund --silent
	cp package-lock.json node_modules/installed.json
fi
exec node --test "$@"
