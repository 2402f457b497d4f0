# The interface to the workspace. Every target installs what it needs and is missing, then calls cargo.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Pingora's compression library is built with cmake. Debian's package, or the wheel where there is no root.
CMAKE := $(shell command -v cmake 2>/dev/null)

ROUTING_OUT ?= target/routing

.PHONY: help setup demo build test lint doc bench cost bench-routing bench-routing-full bench-orientation bench-regret fuzz deploy-check

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: ## Install what the build needs beyond Rust and a C compiler
ifeq ($(CMAKE),)
	@.ci/install-cmake
endif

demo: setup ## A gateway over four simulated endpoints, in one process
	PATH="$(HOME)/.local/bin:$$PATH" cargo run --release --locked -p spillway -- demo

build: setup ## The release binary, target/release/spillway
	PATH="$(HOME)/.local/bin:$$PATH" cargo build --release --locked -p spillway

test: setup ## Unit, property and end-to-end tests
	PATH="$(HOME)/.local/bin:$$PATH" cargo test --workspace --locked

lint: setup ## Format and clippy, warnings denied
	cargo fmt --all --check
	PATH="$(HOME)/.local/bin:$$PATH" cargo clippy --workspace --all-targets --locked -- -D warnings

doc: setup ## API documentation, warnings denied
	PATH="$(HOME)/.local/bin:$$PATH" RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --document-private-items

bench: setup ## Benchmarks of scan, hash, pick and page parsing
	PATH="$(HOME)/.local/bin:$$PATH" cargo bench --profile dist --locked -p spillway-picker -p spillway

cost: setup ## CPU, memory and latency against bare Pingora, Envoy and nginx; COST_ARGS=--quick for a first look
	PATH="$(HOME)/.local/bin:$$PATH" loadtest/cost/run.py $(COST_ARGS)

bench-routing: setup ## Routing claims recomputed in virtual time, 15 minutes on two cores; ROUTING_ARGS such as --only B4,S6 --seeds 2
	PATH="$(HOME)/.local/bin:$$PATH" cargo run --release --locked -p spillway-bench -- routing --out $(ROUTING_OUT) $(ROUTING_ARGS)

bench-routing-full: setup ## Every scenario under every load in virtual time
	PATH="$(HOME)/.local/bin:$$PATH" cargo run --release --locked -p spillway-bench -- routing --full --out $(ROUTING_OUT)-full $(ROUTING_ARGS)

bench-orientation: setup ## The simulator against figures of an earlier one
	PATH="$(HOME)/.local/bin:$$PATH" cargo run --release --locked -p spillway-bench -- routing --scenarios loadtest/scenarios/orientation --out $(ROUTING_OUT)-orientation $(ROUTING_ARGS)

bench-regret: setup ## The default policy where servers say little, against the best of each case
	PATH="$(HOME)/.local/bin:$$PATH" cargo run --release --locked -p spillway-bench -- routing --full --scenarios loadtest/scenarios/regret --out $(ROUTING_OUT)-regret $(ROUTING_ARGS)

fuzz: setup ## The fuzz functions, FUZZ_SECONDS each (20)
	PATH="$(HOME)/.local/bin:$$PATH" FUZZ_SECONDS=$${FUZZ_SECONDS:-20} cargo test --locked -p spillway --test fuzz -- --nocapture

deploy-check: build ## All under deploy/: manifests, unit, rules, dashboard, image (as root)
	.ci/deploy
	PATH="$(HOME)/.local/bin:$$PATH" .ci/image

.PHONY: bench-live bench-peers

SCENARIO ?= B3
PEERS := spillway:adaptive,spillway:round_robin,sglang-router:cache_aware,sglang-router:cache_aware+balance-abs-threshold=8,vllm-router:cache_aware,vllm-router:cache_aware+balance-abs-threshold=8,envoy:least_request,nginx:least_conn

bench-live: build ## SCENARIO (B3) in real time beside virtual time; LIVE_ARGS, such as --seconds 40
	PATH="$(HOME)/.local/bin:$$PATH" cargo run --release --locked -p spillway-bench -- live --scenario $(SCENARIO) --controls $(LIVE_ARGS)

bench-peers: build ## SCENARIO (B3) behind Spillway, SGLang's and vLLM's router, Envoy and nginx
	loadtest/peers/install
	PATH="$(HOME)/.local/bin:$$PATH" cargo run --release --locked -p spillway-bench -- live --scenario $(SCENARIO) --arms $(PEERS) --time-scale 2 $(LIVE_ARGS)
