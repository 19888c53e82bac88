# SPDX-License-Identifier: Apache-2.0
# monokube: `sudo make demo` and `sudo make test` install what they need, build and run.
# make help lists the targets.

# What a fresh Debian 12 lacks: the one list. To build, then to test and demonstrate.
DEPS_BUILD := gcc clang-14 llvm-14 bpftool make pkg-config libbpf-dev libelf-dev zlib1g-dev \
	libnl-3-dev libnl-genl-3-dev libnl-route-3-dev libuv1-dev libjson-c-dev libyaml-dev \
	uthash-dev libssl-dev libnghttp2-dev libc-ares-dev libseccomp-dev linux-libc-dev libc6-dev \
	dpkg-dev ca-certificates
DEPS_TEST := libnghttp2-14 openssl curl check libsubunit-dev libclang-rt-14-dev iproute2 ipset iputils-ping iperf3 jq python3 python3-yaml socat \
	tcpdump ethtool iptables nftables containernetworking-plugins procps util-linux xz-utils \
	clang-format-14 shellcheck pyflakes3 qemu-system-x86 cpio \
	containerd runc podman python3-grpcio python3-protobuf protobuf-compiler \
	nmap hping3 python3-scapy
DEPS = $(DEPS_BUILD) $(DEPS_TEST)

BUILD ?= build
CC ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
BPF_CLANG ?= clang-14
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
V ?= 0
Q := $(if $(filter 1,$(V)),,@)

# SAN=1: AddressSanitizer and UndefinedBehaviorSanitizer, in a tree of its own. -O1 with lines alone
# compiles in 0.57 of the time, but the compiler then knows too little of lengths to warn of them.
ifeq ($(SAN),1)
BUILD := build/san
CFLAGS ?= -O1 -g1 -Wno-format-truncation
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else ifeq ($(FUZZ),1)
BUILD := build/fuzz
CC := clang-14
SANITIZE := -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined
else
# ENLARGED=1: as if a later version had made sessions longer (test/lab/t_upgrade.sh)
ifeq ($(ENLARGED),1)
BUILD := build/enlarged
VARIANT := -DMK_TEST_ENLARGED_SESSION
endif
HARDEN := -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
endif

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
	-Wwrite-strings -Wformat=2 -Wundef
PKGS := libbpf libnl-3.0 libnl-route-3.0 libuv-static json-c yaml-0.1 libseccomp libssl libnghttp2 libcares zlib
CFLAGS ?= -O2 -g
ALL_CFLAGS = -std=gnu17 $(CFLAGS) $(WARN) $(HARDEN) $(SANITIZE) -fPIE -D_GNU_SOURCE $(VARIANT) \
	-Isrc -Iinclude -I$(BUILD)/include -isystem build/deps/include -isystem /usr/include/libnl3
LDFLAGS += $(SANITIZE) -Wl,-z,relro,-z,now,-z,noexecstack
# Libraries that src/deps/build makes once from Debian's source packages; `make clean` leaves them
BUILT := $(addprefix build/deps/lib/,libcurl.a libmicrohttpd.a)
# All libraries are linked statically; of the tests and the sanitizers' builds only libc is shared
STATIC_LIBS = $(BUILT) $(filter-out -lpthread -ldl -lrt,$(shell pkg-config --static --libs $(PKGS))) -lresolv
LIBS = -Wl,-Bstatic $(STATIC_LIBS) -Wl,-Bdynamic -ldl -lpthread

SRCS := $(sort $(shell find src -mindepth 2 -name '*.c'))
OBJS := $(SRCS:src/%.c=$(BUILD)/obj/%.o)
BPF_SRCS := $(wildcard bpf/*.bpf.c)
BPF_OBJS := $(filter-out $(BUILD)/bpf/ndp.bpf.o,$(BPF_SRCS:bpf/%.bpf.c=$(BUILD)/bpf/%.bpf.o))
BPF6_OBJS := $(BPF_SRCS:bpf/%.bpf.c=$(BUILD)/bpf6/%.bpf.o)
SKELS := $(BUILD)/include/datapath.skel.h $(BUILD)/include/datapath6.skel.h
GENERATED := $(SKELS) $(BUILD)/include/cni_conf_template.h
LIB := $(BUILD)/libmonokube.a
TEST_C := $(wildcard test/unit/test_*.c test/bpf/test_*.c)
TEST_BINS := $(TEST_C:test/%.c=$(BUILD)/test/%) $(BUILD)/test/wire/follow
# main() of each folder's tests; for test/kernels, one program runs all BPF tests and loads them once
TEST_MAINS := $(BUILD)/test/unit/main.o $(BUILD)/test/bpf/main.o
BPF_ALL := $(BUILD)/test/bpf/all
TEST_SUPPORT := $(filter-out $(TEST_C) %/main.c,$(wildcard test/unit/*.c test/bpf/*.c))
TEST_SUPPORT_OBJS := $(TEST_SUPPORT:test/%.c=$(BUILD)/test/%.o)

.PHONY: docs fuzz fuzz-short fuzzers all deps help test demo chaos mutants image cluster unit lint lint-flags format perf perf-scale evaluation clean distclean test-bins system-bins perf-bins
.DELETE_ON_ERROR:
.SECONDARY:

all: $(BUILD)/monokube ## build build/monokube

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

deps: ## install the Debian packages that are missing
	@have=$$(dpkg-query -W -f '$${db:Status-Status} $${Package}\n' $(DEPS) 2>/dev/null | \
		sed -n 's/^installed //p' | tr '\n' ' '); \
	missing=; for package in $(DEPS); do \
		case " $$have" in *" $$package "*) ;; *) missing="$$missing $$package" ;; esac; done; \
	if [ -n "$$missing" ]; then \
		echo "installing: $$missing"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi

$(BUILT): build/deps/lib/lib%.a: src/deps/build src/deps/apt.sh
	@echo "  DEPS    $@ from Debian's source package, once"
	$(Q)src/deps/build $*

# One static file is agent, CNI plugin and tool. It has a fixed address: relocation would be a tenth
# of a CNI call, and the kubelet starts it for each pod. The linker warns of functions in libuv,
# libnl and OpenSSL that use NSS; nothing here calls them. Code and constants in
# one segment (noseparate-code) save twenty page faults and a sixth of a start. monokube.debug is
# the same with symbols; the map names each library, for the licences in the image.
ifeq ($(SANITIZE),)
$(BUILD)/monokube: $(BUILD)/obj/main.o $(LIB) $(BUILT)
	@echo "  LD      $@"
	$(Q)$(CC) $(LDFLAGS) -static -no-pie -Wl,-z,noseparate-code -Wl,--gc-sections -Wl,--no-warnings -Wl,-Map=$@.map \
		-o $@.debug $< $(LIB) $(STATIC_LIBS)
	$(Q)! nm -u $@.debug | grep ' U ' | grep -v __tls_get_addr # hidden by --no-warnings
	$(Q)strip -o $@ $@.debug
else
# whose runtime needs a shared libc
$(BUILD)/monokube: $(BUILD)/obj/main.o $(LIB) $(BUILT)
	@echo "  LD      $@"
	$(Q)$(CC) $(LDFLAGS) -pie -o $@ $< $(LIB) $(LIBS)
endif

# From an archive the linker takes the first definition and is silent about a second one.
$(LIB): $(OBJS)
	@echo "  AR      $@"
	$(Q)twice=$$(nm --defined-only $^ | awk '$$2 == "T" { print $$3 }' | sort | uniq -d); \
		[ -z "$$twice" ] || { echo "defined twice:" $$twice; exit 1; }
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/obj/%.o: src/%.c | $(GENERATED)
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# these include the headers of the two libraries
$(filter $(BUILD)/obj/cluster/% $(BUILD)/obj/http/%,$(OBJS)): | $(BUILT)

# ---- BPF: per family, the objects linked into one (shared maps), embedded as a skeleton

BPF_COMPILE = $(BPF_CLANG) -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror -Wno-unused-function \
	-D__$(shell uname -m)__ $(VARIANT) -Iinclude -I/usr/include/$(shell $(CC) -print-multiarch) -MMD -MP -c

$(BUILD)/%.bpf.o: %.bpf.c
	@mkdir -p $(@D)
	@echo "  BPF     $<"
	$(Q)$(BPF_COMPILE) -DMK_FAMILY=4 -o $@ $<

$(BUILD)/bpf6/%.bpf.o: bpf/%.bpf.c
	@mkdir -p $(@D)
	@echo "  BPF6    $<"
	$(Q)$(BPF_COMPILE) -DMK_FAMILY=6 -o $@ $<

$(BUILD)/bpf/datapath.o: $(BPF_OBJS)
	@echo "  BPFLINK $@"
	$(Q)$(BPFTOOL) gen object $@ $^

$(BUILD)/bpf/datapath6.o: $(BPF6_OBJS)
	@mkdir -p $(@D)
	@echo "  BPFLINK $@"
	$(Q)$(BPFTOOL) gen object $@ $^

$(SKELS): $(BUILD)/include/%.skel.h: $(BUILD)/bpf/%.o
	@mkdir -p $(@D)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

# the template as a C string: the agent needs no file beside itself
$(BUILD)/include/cni_conf_template.h: cni-conf/10-monokube.conflist
	@mkdir -p $(@D)
	$(Q)sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$$/\\n"/' $< > $@

# ---- tests

$(BUILD)/test/%.o: test/%.c | $(GENERATED) $(BUILT)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -Itest -MMD -MP -c -o $@ $<

$(TEST_BINS): $(BUILD)/test/%: $(BUILD)/test/%.o $(LIB) $(TEST_SUPPORT_OBJS) $(TEST_MAINS)
	@echo "  CCLD    $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(filter $(@D)/%.o,$(TEST_SUPPORT_OBJS) $(TEST_MAINS)) \
		$(LIB) -lcheck -lsubunit -lm -lrt $(LIBS)

# the last two load it for nodes of their own
BPF_OWN_NODE := test/bpf/test_floods.c test/bpf/test_keeps_source.c test/bpf/test_uplinks.c
BPF_SUITES := $(patsubst test/%.c,$(BUILD)/test/%.o,$(filter-out $(BPF_OWN_NODE),$(filter test/bpf/%,$(TEST_C))) $(BPF_OWN_NODE))
$(BPF_ALL): $(BPF_SUITES) $(LIB) $(TEST_SUPPORT_OBJS) $(TEST_MAINS)
	@echo "  CCLD    $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $(BPF_SUITES) $(filter $(@D)/%.o,$(TEST_SUPPORT_OBJS) $(TEST_MAINS)) \
		$(LIB) -lcheck -lsubunit -lm -lrt $(LIBS)

# worlds of test/policy/worlds.py through the compiler of policies
POLICY_RUNNER := $(addprefix $(BUILD)/test/policy/,runner.o cluster.o connection.o flow.o node.o packet.o walk.o)
$(BUILD)/test/policy/runner: $(POLICY_RUNNER) $(BUILD)/test/unit/policy_rows.o $(LIB)
	@echo "  CCLD    $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIB) $(LIBS)

# first packets of made-up flows, for test/lab/t_floods.sh
$(BUILD)/test/lab/flood: test/lab/flood.c
	@mkdir -p $(@D)
	@echo "  CCLD    $@"
	$(Q)$(CC) -std=gnu17 $(CFLAGS) $(WARN) -D_GNU_SOURCE -o $@ $<

# every program below perf/: one that no longer compiles fails the tests
PERF_BINS := $(addprefix $(BUILD)/,$(patsubst %.bpf,%.bpf.o,$(basename $(wildcard perf/*.c perf/*/*.c))))

UNIT_BINS := $(filter $(BUILD)/test/unit/%,$(TEST_BINS))
test-bins: system-bins $(UNIT_BINS)
system-bins: $(filter-out $(UNIT_BINS),$(TEST_BINS)) $(BPF_ALL) $(BUILD)/test/policy/runner $(BUILD)/test/lab/flood perf-bins
perf-bins: $(PERF_BINS)

# what a real API server sent, for tests and fuzzers
build/recordings: test/wire/recordings.tar.xz
	$(Q)rm -rf $@ && mkdir -p build && tar -xJf $< -C build -m

$(TEST_BINS): | build/recordings

# ---- fuzzers: libFuzzer is clang's, so they have a tree of their own (build/fuzz)

FUZZ_C := $(wildcard test/fuzz/fuzz_*.c)
FUZZERS := $(FUZZ_C:test/fuzz/%.c=$(BUILD)/test/fuzz/%)

$(BUILD)/test/fuzz/fuzz_%: test/fuzz/fuzz_%.c test/fuzz/mutate_json.c $(wildcard test/fuzz/*.h) $(LIB)
	@mkdir -p $(@D)
	@echo "  CCLD    $@"
	$(Q)$(CC) $(ALL_CFLAGS) -Wno-missing-prototypes -Itest $(LDFLAGS) -fsanitize=fuzzer -o $@ $< \
		$(if $(filter cni published watch,$*),test/fuzz/mutate_json.c) $(LIB) $(LIBS)

$(BUILD)/test/fuzz/packets: test/fuzz/packets.c $(wildcard test/fuzz/packets_*.h) $(LIB) $(TEST_SUPPORT_OBJS)
	@mkdir -p $(@D)
	@echo "  CCLD    $@"
	$(Q)$(CC) $(ALL_CFLAGS) -Itest -MMD -MP $(LDFLAGS) -o $@ $< \
		$(filter $(BUILD)/test/bpf/%.o,$(TEST_SUPPORT_OBJS)) $(LIB) -lcheck -lsubunit -lm -lrt $(LIBS)

fuzzers: $(FUZZERS)

fuzz fuzz-short: deps ## hostile input: minutes (fuzz-short: seconds) of every fuzzer, on the kept corpus
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) FUZZ=1 fuzzers
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/test/fuzz/packets
	$(Q)test/progress $@ test/fuzz/run $(if $(filter fuzz-short,$@),short)

# the datapath alone, on the test fixture
$(BUILD)/perf/packet $(BUILD)/perf/tables: $(BUILD)/perf/%: perf/%.c $(LIB) $(TEST_SUPPORT_OBJS)
	@mkdir -p $(@D)
	@echo "  CCLD    $@"
	$(Q)$(CC) $(ALL_CFLAGS) -Itest -MMD -MP $(LDFLAGS) -o $@ $< \
		$(filter $(BUILD)/test/bpf/%.o,$(TEST_SUPPORT_OBJS)) $(LIB) -lcheck -lsubunit -lm -lrt $(LIBS)

# the agent's look at its sessions, and one change among many Services, on the unit tests' fixture
$(BUILD)/perf/sweep $(BUILD)/perf/scale_change: $(BUILD)/perf/%: perf/%.c $(LIB) $(TEST_SUPPORT_OBJS)
	@mkdir -p $(@D)
	@echo "  CCLD    $@"
	$(Q)$(CC) $(ALL_CFLAGS) -Itest -MMD -MP $(LDFLAGS) -o $@ $< $(addprefix $(BUILD)/test/unit/,sync_fixture.o list_feed.o) \
		$(LIB) -lcheck -lsubunit -lm -lrt $(LIBS)

# the agent's part of network policies, on the unit tests' fixture
$(BUILD)/perf/policies/scale: $(BUILD)/perf/%: perf/%.c $(LIB) $(TEST_SUPPORT_OBJS)
	@mkdir -p $(@D)
	@echo "  CCLD    $@"
	$(Q)$(CC) $(ALL_CFLAGS) -Itest -MMD -MP $(LDFLAGS) -o $@ $< $(addprefix $(BUILD)/test/unit/,policy_tables_fixture.o list_feed.o) \
		$(LIB) -lcheck -lsubunit -lm -lrt $(LIBS)

$(BUILD)/perf/load $(BUILD)/perf/policies/queue: $(BUILD)/perf/%: perf/%.c
	@mkdir -p $(@D)
	@echo "  CCLD    $@"
	$(Q)$(CC) -std=gnu17 $(CFLAGS) $(WARN) -D_GNU_SOURCE -o $@ $<

$(BUILD)/perf/scale_%: perf/scale_%.c $(BUILD)/test/unit/list_feed.o $(LIB)
	@mkdir -p $(@D)
	@echo "  CCLD    $@"
	$(Q)$(CC) $(ALL_CFLAGS) -Itest -MMD -MP $(LDFLAGS) -o $@ $< $(BUILD)/test/unit/list_feed.o $(LIB) $(LIBS)

test: deps ## everything: unit, BPF programs, labs; closes with `N passed, N failed`
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) all $(if $(KERNELS_TURN),system-bins,test-bins)
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) ENLARGED=1 all
	$(Q)test/run

unit: ## unit tests and the API client's (with SAN=1 under the sanitizers)
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) all $(UNIT_BINS) $(BUILD)/test/wire/follow
	$(Q)test/run --build $(BUILD) unit wire

chaos: deps ## faults at random under load, SECONDS=300, or KILLS=100 of the agent; SCENARIO=clusters; SEED=N: the same choices
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) all
	$(Q)CHAOS_SECONDS=$(or $(SECONDS),300) SCENARIO=$(or $(SCENARIO),node) test/progress chaos test/chaos/run

floods: deps ## FLOOD=10000000 first packets by each way, TCP and UDP, beside 1,000 connections
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) all $(BUILD)/test/lab/flood
	$(Q)FLOOD=$(or $(FLOOD),10000000) test/lab/t_floods.sh

mutants: deps ## every rule of Services taken out of a copy, one at a time: is there a row that fails? Minutes
	$(Q)test/progress mutants test/mutants/run $(ENTRIES)

demo: deps ## two clusters on this machine, IPv4 and IPv6: every path, with real clients
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) all
	$(Q)test/lab/demo

cluster: image ## two nodes of Debian's Kubernetes on this machine: monokube by its manifest, every path, what happens in operation; 20 minutes
	$(Q)test/progress cluster test/e2e/cluster

image: deps ## an OCI archive of what runs, build/monokube-image.tar; prints its digest
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) all
	$(Q)manifests/image/build $(BUILD)/monokube --archive $(BUILD)/monokube-image.tar

perf: deps ## beside a routed peer and bare wires, policies, chains, clusters, CNI calls, ns per packet; QUICK=1: minutes, no goal judged; KUBE_PROXY=FILE
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) all perf-bins $(BUILD)/test/lab/flood
	$(Q)status=0; test/progress compare perf/compare $(if $(QUICK),--quick) || status=$$?; \
		test/progress policies perf/policies/compare $(if $(QUICK),--quick) || status=$$?; \
		test/progress chains perf/chains/compare $(if $(QUICK),--quick) || status=$$?; \
		test/progress clusters perf/clusters/compare $(if $(QUICK),--quick) || status=$$?; \
		test/progress chain-events perf/chains/events $(if $(QUICK),--rounds 5) || status=$$?; \
		test/progress cni perf/cni $(if $(QUICK),10 --quick) || status=$$?; \
		MK_POLICIES=1 test/progress cni-policies perf/cni $(if $(QUICK),10 --quick) || status=$$?; \
		MK_FUNCTIONS=1 test/progress cni-functions perf/cni $(if $(QUICK),10 --quick) || status=$$?; \
		test/progress load-time perf/policies/load_time $(if $(QUICK),1) || status=$$?; \
		$(if $(QUICK),,test/progress flood perf/policies/flood || status=$$?;) \
		perf/plot || status=$$?; \
		test/progress datapath perf/datapath $(if $(QUICK),1) || status=$$?; \
		$(if $(QUICK),,$(BUILD)/perf/sweep || status=$$?;) exit $$status

perf-scale: deps ## 10,000 Services with 100,000 endpoints; 10,000 pods with 1,000 policies: start, one change, memory
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) all perf-bins $(BUILD)/test/wire/follow
	$(Q)perf/scale_read $(BUILD)
	$(Q)test/progress scale perf/scale
	$(Q)perf/policies/scale

evaluation: deps ## the kinds of figures that evaluate a network provider, a quarter of an hour: perf/EVALUATION.md; QUICK=1: two minutes, no page
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) all perf-bins
	$(Q)test/progress evaluation perf/evaluation $(if $(QUICK),--quick --output $(BUILD)/evaluation.json)
	$(Q)test/progress scaling perf/scaling $(if $(QUICK),--rounds 2 --output $(BUILD)/scaling.json)
	$(Q)$(if $(QUICK),,perf/plot >/dev/null && test/docs evaluation perf/EVALUATION.md perf/evaluation && \
		test/docs scaling perf/EVALUATION.md perf/scaling)

docs: ## write the tables of settings, metrics and rules into the pages that show them
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/test/unit/test_config $(BUILD)/test/unit/test_metrics
	$(Q)test/docs settings src/config/README.md $(BUILD)/test/unit/test_config
	$(Q)test/docs metrics src/agent/README.md $(BUILD)/test/unit/test_metrics
	$(Q)test/docs mutants test/mutants/RULES.md test/mutants/run

lint: ## formatting, shell and Python scripts, warnings of the other compiler
	$(Q)test/lint

# what test/lint has to give the other compiler
lint-flags: $(GENERATED) $(BUILT)
	@echo "flags: $(ALL_CFLAGS)"

format: ## rewrite C and BPF sources in the project's style
	$(Q)git ls-files '*.c' '*.h' | xargs clang-format-14 -i

clean: ## remove what was built, but for the libraries of src/deps/build
	$(Q)find build -mindepth 1 -maxdepth 1 ! -name deps -exec rm -rf {} + 2>/dev/null || [ ! -e build ]

distclean: ## remove build/: the next make fetches the newest libraries
	$(Q)rm -rf build

-include $(POLICY_RUNNER:.o=.d) $(OBJS:.o=.d) $(BUILD)/obj/main.d $(BPF_OBJS:.o=.d) $(BPF6_OBJS:.o=.d) $(TEST_BINS:=.d) $(TEST_MAINS:.o=.d) $(TEST_SUPPORT_OBJS:.o=.d)
