#!/bin/sh
# venv.sh FOLDER REQUIREMENTS makes a Python environment in FOLDER of what the file REQUIREMENTS names. Does nothing if it is
# there and of the same requirements.
set -eu
cd "$(dirname "$0")/.."
if cmp -s "$2" "$1/requirements.txt"; then
	exit 0
fi
rm -rf "$1"
"${PYTHON:-python3}" -m venv "$1"
"$1/bin/pip" install --quiet --requirement "$2"
cp "$2" "$1/requirements.txt"
