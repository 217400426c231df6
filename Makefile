# Troupe. `make` alone prints the targets.

GO          ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 20s
FAULTTIME   ?= 20s
SOAKTIME    ?= $(or $(TROUPE_SOAK),30m)
UPGRADETIME ?= 2m
SEEDS       ?= 1000
CLUSTER_SEEDS ?= 100

.DEFAULT_GOAL := help
.PHONY: help build run test check race fmt vet staticcheck tidy fuzz fault histories upgrade soak bench clean

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/troupe
	@$(GO) build -trimpath -ldflags "-s -w" -o bin/troupe ./cmd/troupe

run: build ## summarise this project's documents with real subagents, on an embedded server
	@bin/troupe run "Summarise this document" --each 'docs/*.md' --each README.md --model builtin/extractive --merge hierarchical_summary

test: ## the whole test suite
	$(GO) test ./...

check: fmt vet staticcheck tidy race ## the whole gate: format, vet, staticcheck, tidy, layers, race tests

race: ## the whole test suite under the race detector
	$(GO) test -race ./...

fmt: ## fail if a file is not formatted
	@files=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$files" || { echo "not gofmt-ed:"; echo "$$files"; exit 1; }

vet: ## go vet
	$(GO) vet ./...

staticcheck: ## staticcheck
	$(GO) run $(STATICCHECK) ./...

tidy: ## fail if go.mod or go.sum is not tidy
	$(GO) mod tidy -diff

fuzz: ## run every fuzz test for FUZZTIME
	@for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			$(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done; \
	done

fault: ## break processes at random moments for FAULTTIME a scene, and short histories, then check every invariant
	TROUPE_FAULT=$(FAULTTIME) TROUPE_SEEDS=60 TROUPE_CLUSTER_SEEDS=8 $(GO) test -count=1 -parallel 4 -timeout 30m -v ./test/fault/... ./test/history

histories: ## play SEEDS short histories on one server and CLUSTER_SEEDS on three, and check every invariant
	TROUPE_SEEDS=$(SEEDS) TROUPE_CLUSTER_SEEDS=$(CLUSTER_SEEDS) $(GO) test -count=1 -timeout 60m -v -run '^TestHistory' ./test/history

upgrade: ## replace hosts of the previous version by this one and back, under load, for UPGRADETIME
	TROUPE_UPGRADE=$(UPGRADETIME) $(GO) test -count=1 -timeout 30m -v ./test/upgrade

soak: ## work and kill for SOAKTIME, then compare memory, goroutines, consumers and disk with the beginning
	TROUPE_SOAK=$(SOAKTIME) $(GO) test -count=1 -timeout 3h -run '^TestSoak$$' -v ./test/fault

bench: build ## measure Troupe against the ceiling that JetStream sets
	@bin/troupe bench

clean: ## remove what was built
	@rm -rf bin
