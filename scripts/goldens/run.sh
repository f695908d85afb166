#!/bin/sh
# Makes the goldens again that come from PyTorch. Tests read the committed files and need neither this nor PyTorch.
# Uses the system's PyTorch where there is one (Debian: apt-get install python3-torch), else a virtual environment with
# PyTorch from pip in .venv here (some gigabytes).
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-/usr/bin/python3}
if ! "$python" -c 'import torch' 2>/dev/null; then
	[ -d .venv ] || python3 -m venv .venv
	.venv/bin/pip install --quiet torch numpy
	python=.venv/bin/python
fi
export PYTHONDONTWRITEBYTECODE=1
"$python" vit.py ../../model/vit/testdata
"$python" gpt.py ../../model/gpt/testdata
