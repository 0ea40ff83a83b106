# Everything happens in .venv, which is made on first use and reused until a requirement changes.
#
#   PORT      port of the web page (make run)
#   ARGS      further arguments of the command that is run
#   PIP_ARGS  further arguments of every "pip install", e.g. another package index
#   PYTHON    the Python to make .venv with; by default the first suitable one on the PATH

PORT ?= 8501
ARGS ?=
PIP_ARGS ?=
PYTHON ?=

CANDIDATES = $(or $(PYTHON),python3.13 python3.12 python3.11 python3)
VENV := .venv
PY := $(VENV)/bin/python
PIP_INSTALL = $(PY) -m pip install --disable-pip-version-check $(PIP_ARGS)

export PIP_ARGS

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test fast lint bench gpu-check clean venv runtime dev fetch chromium

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo '  Options: PORT=8600, ARGS="...", PIP_ARGS="...", PYTHON=/path/to/python3'

run: runtime fetch ## Install what is missing and open the microscope in the browser
	$(PY) -m streamlit run app.py --server.port $(PORT) --server.headless false --server.showEmailPrompt false \
		--browser.gatherUsageStats false $(ARGS)

test: dev chromium lint fetch ## Install what is missing, check style and types, run every test
	$(PY) -m pytest $(ARGS)

fast: dev ## Run the tests that need neither the real target nor a browser
	$(PY) -m pytest -m "not slow and not browser" $(ARGS)

lint: dev ## Check style, format and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: runtime fetch ## Measure decoding on this machine
	$(PY) -m benchmarks.bench_decode $(ARGS)

gpu-check: runtime ## Check and measure the kernels on this machine's GPU
	$(PY) -m benchmarks.gpu_check $(ARGS)

clean: ## Remove .venv and the caches of the tools; runs and the fetched target stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

fetch: runtime
	@$(PY) -m eagle3_viz fetch

# A suitable Python is 3.11 or newer and can make a virtual environment with pip in it.
venv:
	@if $(PY) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then exit 0; fi; \
	for candidate in $(CANDIDATES); do \
		version=$$($$candidate -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) \
			|| continue; \
		if ! $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
			reasons="$$reasons  $$candidate is Python $$version, 3.11 or newer is needed\n"; \
		elif ! $$candidate -c 'import venv, ensurepip' 2>/dev/null; then \
			reasons="$$reasons  $$candidate has no venv or ensurepip (Debian, Ubuntu:"; \
			reasons="$$reasons apt install python$$version-venv)\n"; \
		else \
			echo "Making $(VENV) with $$candidate (Python $$version)"; \
			trap 'rm -rf $(VENV); exit 130' INT TERM; \
			$$candidate -m venv --clear $(VENV) && exit 0; \
			rm -rf $(VENV); exit 1; \
		fi; \
	done; \
	echo "No suitable Python found among: $(CANDIDATES)" >&2; \
	printf '%b' "$$reasons" >&2; \
	echo "Install Python 3.11 or newer with its venv module, or name one: make PYTHON=/path/to/python3" >&2; \
	exit 1

# The key of an installation: the Python, pip's further arguments and the contents of the requirement
# files named after it.
KEY = $(PY) -c 'import hashlib, os, pathlib, sys; print(hashlib.sha256(b"".join( \
	[sys.version.encode(), os.environb[b"PIP_ARGS"], \
	*(pathlib.Path(name).read_bytes() for name in sys.argv[1:])])).hexdigest())'

# A stamp holds the key of the last installation that succeeded. pip writes a package's INSTALLER
# file last: a package without one was interrupted while it was copied, and is installed again.
# $(1) name of the stamp, $(2) requirement files that make up the key, $(3) commands, no commas
define install
	@key=$$($(KEY) $(2)) || exit 1; stamp=$(VENV)/installed-$(1); \
	if [ "$$(cat $$stamp 2>/dev/null)" = "$$key" ]; then exit 0; fi; \
	rm -f $$stamp; \
	for info in $(VENV)/lib/python*/site-packages/*.dist-info; do \
		[ -f "$$info/INSTALLER" ] || rm -rf "$$info"; \
	done; \
	{ $(3); } || { echo "The installation did not finish. Once its cause is gone: make $(MAKECMDGOALS)" >&2; exit 1; }; \
	echo "$$key" > $$stamp
endef

# Shown before the download that it spares: PyTorch's usual build for Linux on x86 is for NVIDIA GPUs.
define advise_cpu
if [ "$$(uname -sm)" = "Linux x86_64" ] && [ -z "$$PIP_ARGS" ] && ! command -v nvidia-smi >/dev/null; then \
	echo "There seems to be no NVIDIA GPU here, and this build of torch brings several GB for one."; \
	echo "To do without them, press Ctrl-C and name PyTorch's index of CPU wheels, whose address is"; \
	echo "on its \"Get Started\" page: make $(MAKECMDGOALS) PIP_ARGS=\"--extra-index-url ADDRESS\""; \
fi
endef

# torch comes first, because it is by far the longest download.
runtime: venv
	$(call install,runtime,requirements.txt,\
		echo "Installing torch: 200 MB or several GB by platform" \
		&& { $(advise_cpu); } \
		&& grep '^torch[^a-z]' requirements.txt | $(PIP_INSTALL) --progress-bar on -r /dev/stdin \
		&& echo "Installing the other requirements; this takes some minutes" \
		&& $(PIP_INSTALL) --progress-bar on -r requirements.txt)

dev: runtime
	$(call install,dev,requirements-dev.txt requirements.txt,\
		echo "Installing what the tests and checks need" \
		&& $(PIP_INSTALL) --progress-bar on -r requirements-dev.txt)

chromium:
	@if command -v chromium >/dev/null; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then \
		echo "The browser tests need Chromium and this system has no apt-get to install it with." >&2; \
		echo "Install it so that the command chromium starts it, or run: make fast" >&2; exit 1; \
	fi; \
	if [ "$$(id -u)" = 0 ]; then as_root=; \
	elif command -v sudo >/dev/null; then as_root=sudo; \
	else \
		echo "The browser tests need Chromium; installing it takes root, and there is no sudo." >&2; \
		echo "As root run: apt-get install chromium, or run: make fast" >&2; exit 1; \
	fi; \
	echo "Installing Debian's chromium for the browser tests"; \
	$$as_root apt-get update -qq && \
	$$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
