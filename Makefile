# Every command of the project. Each one sets up what it needs on a fresh machine.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
STAMP := .venv/.stamp
JOBS ?= 2
# Fast tests wait for threads and disks a third of their time: three processes keep two cores busy.
FAST_JOBS ?= 3
SEEDS ?= 2000
FIRST_SEED ?= 0
KILLS ?= 50
SEED ?= 0
RECORDS ?= 100000
MINUTES ?= 30
FRAMES ?= 1000000
PAYLOADS ?= 20000
ROUNDS_OF_FEW_BYTES ?= 20
LIFE ?= 60
EVENTS ?= 40
MEMBERS ?= 50
DRIVERS ?= 8
PARTITIONS ?= 200
MEGABYTES ?= 2048
STEPS ?= out,in,out,kill

# Python compiles each module once, into a folder that `make clean` removes, also where the environment
# says not to: the tests start thousands of processes.
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help venv check format lint types imports fast test demo demo-s3 bench campaign simulations seeds model kills kills-s3 cluster mixed scaling groups history resident drills spark-s3 spark-versions sink pipeline changelogs alerts payloads fuzz image fmt lock clean java

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

venv: $(STAMP) ## set-up: Python environment in .venv, from the lock file

$(STAMP): requirements.lock requirements-build.lock pyproject.toml setup.py $(wildcard logstore/records/native/*.[ch])
	@tools/bootstrap.sh

# All at once, each one's output whole where make can do that (4.0 and later).
check: $(STAMP) ## format, lint, types, import contracts and fast tests: before every push
	@$(MAKE) -j 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) fast types format lint imports

test: $(STAMP) ## everything that must pass, slow tests and planted bugs too: what CI runs
	@$(BIN)/python -m tools.tiers --jobs $(JOBS) \
	  $(if $(FIRST_DAILY_SEED),--first-daily-seed $(FIRST_DAILY_SEED))

format: $(STAMP)
	@$(BIN)/ruff format --check --quiet . || { echo "format: run make fmt" >&2; exit 1; }

lint: $(STAMP)
	@$(BIN)/ruff check --quiet .

types: $(STAMP)
	@$(BIN)/mypy

imports: $(STAMP)
	@$(BIN)/lint-imports --no-logo

fast: $(STAMP)
	@$(BIN)/python -m pytest -q -n $(FAST_JOBS) --dist worksteal --hypothesis-profile=smoke

java: $(STAMP)
	@$(BIN)/python -m tools.java

DEMO = $(BIN)/python -m tools.demo $(if $(DIR),--dir "$(DIR)") $(if $(KEEP),--keep) \
  $(if $(FLIGHTS),--flights $(FLIGHTS)) $(if $(DROP_ONE),--drop-one)

demo: $(STAMP) ## real flights through broker, Kafka client and Spark, each one checked; DIR=d or KEEP=1 keeps all
	@$(DEMO) $(if $(URL),--url "$(URL)") $(if $(REGISTRY),--registry "$(REGISTRY)") \
	  $(foreach setting,$(SETTINGS),--set "$(setting)")

demo-s3: $(STAMP) ## the same in a bucket of versitygw, with DynamoDB Local; on AWS: make demo URL=s3://b/p REGISTRY=dynamodb://t
	@$(DEMO) --local-s3

bench: $(STAMP) java ## measure, beside Apache Kafka in the same run; ARGS="fetch --rounds 5" for some
	@$(BIN)/python -m benchmarks $(ARGS)

campaign: simulations model kills kills-s3 cluster mixed scaling groups history resident drills spark-s3 spark-versions sink pipeline changelogs alerts payloads ## the long runs: many seeds, kill -9, clients among each other, S3 on a bad day

simulations: $(STAMP) ## the simulations over many seeds: SEEDS=2000 FIRST_SEED=0
	@$(BIN)/python -m pytest -q -n $(JOBS) -m "" --timeout=0 tests/simulation \
	  --hypothesis-profile=campaign --seeds $(SEEDS) --first-seed $(FIRST_SEED)

seeds: $(STAMP) ## one simulation's seeds over hours, resumed where it was interrupted: KIND=cluster FIRST=0 COUNT=10000 FILE=build/seeds.jsonl
	@$(BIN)/python -m tests.simulation.campaign $(or $(KIND),cluster) $(or $(FIRST),0) $(or $(COUNT),10000) \
	  $(or $(FILE),build/seeds.jsonl) $(JOBS)

model: $(STAMP) ## every reachable state of the safety rules within large bounds, and every planted bug; prints a table
	@$(BIN)/python -m tests.model --large --planted

kills: $(STAMP) ## real brokers killed, real clients compared: KILLS=50 SEED=0 RECORDS=100000
	@KILLS=$(KILLS) SEED=$(SEED) RECORDS=$(RECORDS) $(BIN)/python -m pytest -q -m clients \
	  --timeout=0 tests/scenarios/test_kill_series.py tests/clients/test_interop_hash.py

cluster: $(STAMP) ## brokers killed, frozen, cut off and restarted in turn: EVENTS=20 of each; BUCKET=1 or WEATHER=1 for a bucket
	@EVENTS=$(or $(EVENTS),20) PARTITIONS=$(or $(PARTITIONS),200) RATE=$(or $(RATE),1000) SEED=$(SEED) \
	  $(if $(BUCKET),BUCKET=1) $(if $(WEATHER),WEATHER=1) \
	  $(BIN)/python -m pytest -q -m clients --timeout=0 tests/scenarios/test_cluster_series.py

mixed: $(STAMP) ## brokers of this version and of the release before, rolled forward and back under load: ROUNDS=5
	@ROUNDS=$(or $(ROUNDS),5) PARTITIONS=$(or $(PARTITIONS),24) RATE=$(or $(RATE),1000) SEED=$(SEED) \
	  $(BIN)/python -m pytest -q -m clients --timeout=0 tests/scenarios/test_mixed_versions.py

scaling: $(STAMP) ## equal processes, 3 -> 6 -> 3 -> 6 -> 3 under load, stopped and killed: STEPS=out,in,out,kill RATE=2000 SEED=0; BUCKET=1 for a bucket
	@STEPS=$(STEPS) RATE=$(or $(RATE),2000) SEED=$(SEED) \
	  $(if $(BUCKET),BUCKET=1) \
	  $(BIN)/python -m pytest -q -s -m clients --timeout=0 tests/scenarios/test_scaling.py

kills-s3: $(STAMP) ## brokers killed with the log in a bucket behind faults: MINUTES=30 LIFE=60 (seconds) SEED=0
	@MINUTES=$(MINUTES) LIFE=$(LIFE) SEED=$(SEED) $(BIN)/python -m pytest -q -m clients \
	  --timeout=0 tests/scenarios/test_kill_series_s3.py

groups: $(STAMP) ## mixed clients in one group, killed and frozen, and their brokers killed: EVENTS=40 MEMBERS=50 PARTITIONS=200 SEED=0
	@for brokers in 1 3; do \
	  BROKERS=$$brokers EVENTS=$(EVENTS) MEMBERS=$(MEMBERS) PARTITIONS=$(PARTITIONS) SEED=$(SEED) \
	  $(BIN)/python -m pytest -q -m clients --timeout=0 tests/scenarios/test_group_series.py \
	  tests/clients/test_kafka_tools.py tests/clients/test_connect_and_streams.py; \
	done

history: $(STAMP) java ## records compacted, optimized, trimmed and read by everything at once: MEGABYTES=2048 SEED=0
	@$(BIN)/python -m tests.scenarios.harness.history_series --spark \
	  --megabytes $(MEGABYTES) --seed $(SEED)

resident: $(STAMP) ## memory of three brokers on a bucket while clients, topics and the registry come and go: MINUTES=60
	@$(BIN)/python -m tests.scenarios.harness.resident --bucket --minutes $(MINUTES) --seed $(SEED) $(ARGS)

drills: $(STAMP) java ## registries lost or put back from every moment of a log, objects that came back: ARGS="--only lost"
	@$(BIN)/python -m tests.scenarios.harness.drills --spark $(ARGS)

spark-s3: $(STAMP) java ## Spark drivers killed with their checkpoints in a bucket: DRIVERS=8 SEED=0; fetches 690 MB of jars once
	@$(BIN)/python -m tests.scenarios.harness.spark_on_s3 --kills $(DRIVERS) --seed $(SEED)

spark-versions: $(STAMP) java ## source and sink in Spark 4.0 and 4.1: fetches 900 MB once
	@$(BIN)/python -m tests.scenarios.harness.older_spark

sink: $(STAMP) java ## Spark copies a topic, its driver, workers and leaders killed: KILLS=100 SEED=0
	@$(BIN)/python -m tests.scenarios.harness.sink_series --kills $(KILLS) --seed $(SEED)

pipeline: $(STAMP) java ## log -> Spark -> log -> Spark -> Delta, a kill every minute: MINUTES=60 SEED=0; ARGS="--no-bucket --every 30"
	@$(BIN)/python -m tests.scenarios.harness.pipeline --minutes $(MINUTES) --seed $(SEED) $(ARGS)

changelogs: $(STAMP) java ## Streams, Connect and a reader of schemas killed while their topics are compacted: MINUTES=60 SEED=0; ARGS="--every 30"
	@$(BIN)/python -m tests.scenarios.harness.changelogs --minutes $(MINUTES) --seed $(SEED) $(ARGS)

alerts: $(STAMP) ## every alert fired by its fault on real brokers under a real Prometheus, and ended: ARGS="--only LogstoreDenied"
	@$(BIN)/python -m tests.scenarios.harness.alerts $(ARGS)

payloads: $(STAMP) java ## ill-formed payloads of each codec, read by Kafka's own classes and judged by Produce: PAYLOADS=20000 (of each) SEED=0; ARGS="--first 20000"
	@$(BIN)/python -m tests.clients.payloads --frames $(PAYLOADS) --seed $(SEED) $(ARGS)

fuzz: $(STAMP) ## three brokers attacked with damaged frames and with few bytes that ask for much, then the native codec, built with sanitizers, beside its twin in Python: MINUTES=30 (of each) FRAMES=1000000 SEED=0
	@$(BIN)/python -m tools.fuzz.brokers --frames $(FRAMES) --minutes $(MINUTES) --seed $(SEED)
	@$(BIN)/python -m tools.fuzz.amplified --rounds $(ROUNDS_OF_FEW_BYTES) --minutes $(MINUTES) --seed $(SEED)
	@$(BIN)/python -m tools.fuzz --minutes $(MINUTES) --seed $(SEED)

image: $(STAMP) ## the image, built by buildah on a base of debootstrap and run, and the commands of compose.yaml; root, Debian
	@$(BIN)/python -m pytest -q -m "" --timeout=0 tests/images/built_image.py tests/images/composed.py

fmt: $(STAMP) ## format the code, and repair what the linter can
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

lock: ## write requirements*.lock again from pyproject.toml; ARGS=--upgrade to move the pins
	@tools/bootstrap.sh lock $(ARGS)

clean: ## remove what was built, measured and installed, .venv too
	rm -rf .venv .uv .bootstrap.lock build dist logstore/records/native/*.so *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
