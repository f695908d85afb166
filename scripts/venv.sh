#!/bin/sh
# Makes the Python environment of the interop tests, build/venv, from scripts/requirements.txt. Does nothing if it is
# there and of the same requirements.
set -eu
cd "$(dirname "$0")/.."
if cmp -s scripts/requirements.txt build/venv/requirements.txt; then
	exit 0
fi
rm -rf build/venv
"${PYTHON:-python3}" -m venv build/venv
build/venv/bin/pip install --quiet --requirement scripts/requirements.txt
cp scripts/requirements.txt build/venv/requirements.txt
