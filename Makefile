# The commands people type. `make` alone lists them.
# Everything that is built or downloaded goes below PETRA_CACHE, never into this directory.
export PETRA_CACHE ?= $(HOME)/.cache/petracache
export CARGO_TARGET_DIR ?= $(PETRA_CACHE)/cargo

.DEFAULT_GOAL := help
.PHONY: help demo demo-down test test-code test-wire test-cluster scale-test fuzz bench lint format advisories images crds golden

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1|\2/' | column -t -s'|'

demo: ## start a local Kubernetes, install the chart, run a PetraCluster, lose a pod and keep its data
	@e2e/demo.sh

demo-down: ## end what `make demo` left running
	@e2e/demo.sh down

test: ## everything: format, lints, unit, golden, wire, image, chart and cluster tests
	@e2e/test.sh

test-code: ## what needs no Kubernetes: format, lints, unit, golden and wire tests, real clients
	@e2e/test.sh code

test-wire: ## memcached's own tests, memcapable and nine real clients, against the node
	@e2e/test.sh wire

test-cluster: ## chart, image and cluster tests only
	@e2e/test.sh cluster

fuzz: ## look for bytes that break the node (TARGET=connection SECONDS=300; all targets, 300 s each)
	@node/fuzz/run.sh --seconds $(or $(SECONDS),300) $(TARGET)

scale-test: ## the operator with a thousand PetraClusters of fake nodes (ARGS="--clusters 100" for fewer)
	@e2e/scale.sh $(ARGS)

bench: ## measure a node side by side with memcached (ARGS="--case NAME --seconds 5 --rounds 3" for one case)
	@e2e/bench.sh $(ARGS)

lint: ## format check, clippy, shellcheck, licences of dependencies
	@e2e/test.sh lint

format: ## rewrite the Rust sources in the project's format
	@cargo fmt --all

advisories: ## known vulnerabilities of dependencies (downloads the RustSec database)
	@e2e/test.sh advisories

images: ## the container images, as OCI archives below PETRA_CACHE/lab/images
	@e2e/test.sh images

crds: ## write crds/ again from operator/src/crd.rs
	@cargo build -q --release --workspace --bins && $(CARGO_TARGET_DIR)/release/petra-operator crd > crds/petraclusters.petracache.io.yaml

golden: ## write the golden files again; read the diff before you commit it
	@UPDATE_GOLDEN=1 cargo test -q --release --workspace --test golden
	@e2e/chart.sh update
