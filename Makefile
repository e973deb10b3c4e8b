# What people and CI run. `make clean` removes .venv, var and what was built.

SHELL := /bin/bash
# The first of these that is new enough makes the environment.
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
INSTALL := $(PYTHON) tools/install.py .venv
AUDITOR := pip-audit==2.10.1
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
# Every process would compile all modules again, and tests start many.
unexport PYTHONDONTWRITEBYTECODE

# The documentation, which the service shows at /docs/. Its API reference is generated from the code.
SITE := src/tonne/channels/public_pages/site/documentation/index.html.gz
SITE_SOURCES := $(shell find docs tools/docs deploy examples clients -type f -not -name '*.pyc' 2>/dev/null) $(shell find src/tonne -name '*.py' 2>/dev/null) \
	CHANGELOG.md CONTRIBUTING.md SECURITY.md tonne.example.toml

.PHONY: run test test-integration test-random docs setup lint format translations clients pages audit bench chaos conformance mutants lock clean

# The documentation is built in the background, once the service answers.
run: .venv/runtime.done
	@$(BIN)/python -m tools.docs.background & exec $(BIN)/tonne serve --demo

# How many processes run tests at once.
WORKERS := auto

# Tests that need the documentation build it.
test: .venv/dev.done
	@$(BIN)/python -m tests.browser.chromium
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q

# Needs other programs, such as nginx, and installs them where it can.
test-integration: .venv/dev.done $(SITE)
	@$(BIN)/python -m tests.integration.programs
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -q -m integration tests/integration

# All tests in another order, and those with random data for ten times as long. `make test-random SEED=1` repeats an order.
SEED := $(shell echo $$RANDOM)
test-random: .venv/dev.done $(SITE)
	@$(BIN)/python -m tests.browser.chromium
	ROUNDS=10 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q --shuffle=$(SEED)

docs: $(SITE)

setup: .venv/dev.done

# On a busy machine, mypy's own processes do not start within the 3 s that it waits (exit code 2): then it works alone.
lint: .venv/dev.done
	@$(BIN)/ruff format --check --quiet . || { echo "Run 'make format' to put the files above into shape."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --num-workers 2 || { [ $$? = 2 ] && $(BIN)/mypy; }

format: .venv/dev.done
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

# Extracts the messages of pages, mails and PDFs and updates the catalogues of all languages. docs/languages.md says more.
translations: .venv/dev.done
	@$(BIN)/python -m tests.support.catalogues

# Writes the generated files of the Python and TypeScript clients anew, after a change of the API.
clients: .venv/dev.done
	@$(BIN)/python -m clients.generate

# Writes the generated tables of docs/errors.md, docs/command-line.md and docs/conformance.md, and what --help prints,
# anew, after a change of errors, commands or conformance checks.
pages: .venv/dev.done
	@$(BIN)/python -m tools.docs.generated

# Looks up known vulnerabilities of the locked versions. Needs the internet, so CI does not run it; fails without.
audit: .venv/dev.done
	@for file in uv build docs runtime otel pkcs11 sentry dev failover; do \
		echo "requirements/$$file.txt:"; \
		$(BIN)/uv tool run --quiet $(AUDITOR) --strict --progress-spinner off --disable-pip --require-hashes \
			-r requirements/$$file.txt || exit 1; \
	done

bench: .venv/dev.done
	@$(BIN)/python -m bench all

chaos: .venv/dev.done
	@$(BIN)/python -m chaos

# Proves from outside, sentence by sentence, that the service keeps its interface; with real limits of time, about a minute.
conformance: .venv/dev.done
	@$(BIN)/python -m tests.conformance --report-dir build/conformance

# Proves that the conformance suite is sharp: breaks one sentence of the interface after the other in a copy of the code,
# and prints which of these mutants the suite does not notice. Takes up to an hour. `ONLY="metadata payments"` tries few.
mutants: .venv/dev.done
	@$(BIN)/python -m tests.mutants $(ONLY)

lock: .venv/dev.done
	@$(LOCK) requirements/uv.in -o requirements/uv.txt
	@$(LOCK) requirements/runtime.in -o requirements/runtime.txt
	@$(LOCK) requirements/build.in -c requirements/runtime.txt -o requirements/build.txt
	@$(LOCK) requirements/docs.in -c requirements/runtime.txt -o requirements/docs.txt
	@$(LOCK) requirements/otel.in -c requirements/runtime.txt -o requirements/otel.txt
	@$(LOCK) requirements/sentry.in -c requirements/runtime.txt -o requirements/sentry.txt
	@$(LOCK) requirements/pkcs11.in -c requirements/runtime.txt -o requirements/pkcs11.txt
	@$(LOCK) requirements/dev.in -c requirements/runtime.txt -c requirements/build.txt -c requirements/docs.txt \
		-c requirements/uv.txt -o requirements/dev.txt
	@$(LOCK) requirements/failover.in -o requirements/failover.txt
	@$(BIN)/python -m tests.integration.node_packages

clean:
	@rm -rf .venv var build src/tonne/channels/public_pages/site/documentation src/tonne/channels/public_pages/site/documentation.lock

# Fast if nothing that the site shows has changed.
$(SITE): $(SITE_SOURCES) | .venv/docs.done
	@$(BIN)/python -m tools.docs
	@touch $@

.venv/runtime.done: requirements/runtime.txt requirements/uv.txt tools/install.py
	@[ -n "$(PYTHON)" ] || { echo "Tonne needs Python 3.11 or newer: install it, then run make again." >&2; exit 1; }
	@echo "Setting up .venv ..."
	@$(INSTALL) requirements/runtime.txt
	@touch $@

.venv/docs.done: requirements/docs.txt .venv/runtime.done
	@$(INSTALL) requirements/docs.txt
	@touch $@

.venv/dev.done: requirements/dev.txt requirements/build.txt requirements/docs.txt .venv/runtime.done
	@$(INSTALL) requirements/build.txt requirements/docs.txt requirements/dev.txt
	@touch .venv/docs.done $@
