# akv: see README.md. Variants build side by side in build/<variant>/.
#   make [VARIANT=release|asan|ubsan|tsan] [CC=gcc|clang] [V=1]; make help lists the targets
VERSION := $(shell cat VERSION)
SONAME  := libakv.so.$(firstword $(subst ., ,$(VERSION)))
VARIANT ?= release
BUILD   ?= build/$(VARIANT)
PREFIX  ?= /usr/local
DESTDIR ?=
ifeq ($(origin CC),default)
CC := gcc
endif
AR ?= ar
Q := $(if $(V),,@)
say = $(if $(V)$(QUIET),,@echo "  $(1)")
QUIET := $(findstring s,$(firstword -$(MAKEFLAGS)))

# One job a core unless -j says otherwise; sub-makes share the jobs of the first.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif
MAKEFLAGS += --no-print-directory --no-builtin-rules

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
OPT_release := -O2 -g
OPT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT_ubsan   := -O1 -g -fsanitize=undefined -fno-sanitize-recover=undefined
OPT_tsan    := -O1 -g -fsanitize=thread
OPT_fuzz    := $(OPT_asan) -fsanitize=fuzzer-no-link
ifeq (,$(OPT_$(VARIANT)))
$(error VARIANT=$(VARIANT): choose release, asan, ubsan or tsan; fuzz is what make fuzz uses)
endif

# -ffp-contract=off: the numerics are spelled out with explicit fma (akv-numerics(7))
FLOAT := -ffp-contract=off $(if $(findstring clang,$(CC)),,-fexcess-precision=standard)
CFLAGS_ALL := -std=c11 -D_GNU_SOURCE -DAKV_VERSION='"$(VERSION)"' -fPIC -fvisibility=hidden $(FLOAT) \
              -Ilib -I. $(WARN) $(OPT_$(VARIANT)) $(CFLAGS)
LDFLAGS_ALL := $(OPT_$(VARIANT)) -Wl,--as-needed $(LDFLAGS)
LIBS := -lzstd -lxxhash -lcrypto -ljansson -ljq -lpcre2-8 -lutf8proc -lpthread -lm -ldl

LIB_OBJ  := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard lib/*/*.c kernels/*.c)))
TOOLS    := $(patsubst cmd/akv_%.c,akv-%,$(sort $(wildcard cmd/akv_*.c)))
# cmd/NAME_*.c is of akv-NAME alone, the rest of cmd/ of every tool.
own = $(sort $(wildcard cmd/$(1:akv-%=%)_*.c))
CMD_OBJ  := $(patsubst %.c,$(BUILD)/%.o,$(filter-out cmd/akv_%.c $(foreach t,$(TOOLS),$(call own,$t)),$(sort $(wildcard cmd/*.c))))
UNITS    := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/unit/test_*.c)))
UNIT_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/unit/test_%.c,$(sort $(wildcard tests/unit/*.c))))
TESTTOOLS := $(patsubst tests/tools/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/tools/*.c)))
FUZZERS  := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
# What calls a fuzz target: clang's libFuzzer, or our own program that runs it over files.
FUZZ_MAIN := $(if $(filter fuzz,$(VARIANT)),-fsanitize=fuzzer,$(BUILD)/tests/fuzz/replay.o)
MAN      := $(sort $(wildcard man/*.[1-8]))
JQ       := $(sort $(wildcard examples/*.jq examples/*/*.jq))

all: lib tools
lib: $(BUILD)/libakv.a $(BUILD)/libakv.so
tools: $(TOOLS:%=$(BUILD)/%)
units: $(UNITS) $(TESTTOOLS) $(FUZZERS) $(BUILD)/tests/fault.so

# --- what is compiled how ---------------------------------------------------------------------------------------------

AVX2 := -mavx2 -mfma -mf16c
AVX512 := $(AVX2) -mavx512f -mavx512bw -mavx512vnni
$(BUILD)/kernels/avx2%.o: ISA := $(AVX2)
$(BUILD)/kernels/avx512%.o: ISA := $(AVX512)
# No fuzz target computes; instrumented kernels take minutes to compile.
$(BUILD)/kernels/%.o: SAN := $(if $(filter fuzz,$(VARIANT)),-fno-sanitize=all)

# What normalise.c takes in as it is.
NORMALISE := $(sort $(wildcard lib/chat/normalise/*.jq))
$(BUILD)/lib/chat/normalise.o: $(NORMALISE)

# Objects of other flags or of another compiler are never mixed: the file changes when they do.
$(BUILD)/.flags: FORCE | bootstrap
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(CC) $(CFLAGS_ALL))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(CC) $(CFLAGS_ALL))' >$@

$(BUILD)/%.o: %.c $(BUILD)/.flags | bootstrap
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) $(CFLAGS_ALL) $(ISA) $(SAN) -MMD -MP -c -o $@ $<

$(BUILD)/libakv.a: $(LIB_OBJ)
	$(call say,AR $@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/libakv.so: $(LIB_OBJ)
	$(call say,LD $@)
	$(Q)$(CC) -shared -Wl,-soname,$(SONAME) -Wl,--no-undefined $(LDFLAGS_ALL) -o $@ $^ $(LIBS)
	$(Q)ln -sf libakv.so $(BUILD)/$(SONAME)

# The tools see only akv.h and run in place, as built and as installed, through $$ORIGIN.
$(BUILD)/akv-%: $(BUILD)/cmd/akv_%.o $(CMD_OBJ) $(BUILD)/libakv.so
	$(call say,LD $@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) -L$(BUILD) -lakv -ljansson -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../lib'

$(foreach t,$(TOOLS),$(eval $(BUILD)/$t: $(patsubst %.c,$(BUILD)/%.o,$(call own,$t))))

# Unit tests see the internals and link the archive.
$(UNITS): $(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(UNIT_OBJ) $(BUILD)/libakv.a
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ -lcmocka $(LIBS)

$(TESTTOOLS): $(BUILD)/tests/%: $(BUILD)/tests/tools/%.o $(BUILD)/libakv.a
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)

$(FUZZERS): $(BUILD)/tests/%: $(BUILD)/tests/fuzz/%.o $(filter %.o,$(FUZZ_MAIN)) $(BUILD)/libakv.a
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) $(filter -%,$(FUZZ_MAIN)) -o $@ $^ $(LIBS)

# Preloaded into a tool it makes calls on files fail; a sanitizer would have to be there before it.
$(BUILD)/tests/fault.so: tests/fault/fault.c $(BUILD)/.flags
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -fsanitize% -fno-sanitize%,$(CFLAGS_ALL) $(LDFLAGS_ALL)) -shared -o $@ $< -lpthread -ldl

# Installs the packages that a build needs, or says which are missing; silent when there are none.
bootstrap:
	@scripts/bootstrap

# --- tests ------------------------------------------------------------------------------------------------------------

# The demo model is fetched once; without it the tests that need it are skipped and counted.
check: all units
	@test -n "$(AKV_FAST)" || scripts/get-model || echo "check: the tests that need the demo model are skipped" >&2
	@AKV_BUILD=$(BUILD) CC='$(CC)' tests/run

asan ubsan tsan:
	@$(MAKE) VARIANT=$@ BUILD=build/$@ AKV_FAST=1 check

# Another real model, 253 MB, is fetched for this only; `make check` takes it when it is there.
check-long:
	@scripts/get-model gemma || echo "check-long: the tests that need gemma-3-270m are skipped" >&2
	@AKV_LONG=1 $(MAKE) check
	@$(MAKE) asan
	@$(MAKE) ubsan
	@$(MAKE) tsan
	@$(MAKE) CC=clang BUILD=build/clang AKV_FAST=1 check

# Every call on files goes wrong, processes are killed: all of what check does a slice of.
fault: all units
	@AKV_LONG=1 AKV_TIMEOUT=7200 AKV_BUILD=$(BUILD) tests/run $(notdir $(basename $(sort $(wildcard tests/cli/fault_*.sh))))

# TIME seconds of libFuzzer in all, over seeds that the tools of this build make.
fuzz: all $(BUILD)/tests/mkmodel
	@$(MAKE) CC=clang VARIANT=fuzz BUILD=build/fuzz fuzzers
	@AKV_BUILD=$(BUILD) tests/fuzz/run $(or $(TIME),60)

fuzzers: $(FUZZERS)

lint: all
	@scripts/bootstrap lint
	@AKV_BUILD=$(BUILD) scripts/lint

# --- the demo ---------------------------------------------------------------------------------------------------------

model: | bootstrap
	@scripts/get-model

# akv beside llama.cpp, which is compiled first; ROWS="prefill-512 start" chooses.
bench-peer: all units
	@AKV_BUILD=$(BUILD) scripts/bench-peer $(ROWS)

demo: all $(if $(MODEL),,model)
	@AKV_BUILD=$(BUILD) scripts/demo $(if $(MODEL),"$$(realpath -- '$(MODEL)')")

# --- install ----------------------------------------------------------------------------------------------------------

D := $(DESTDIR)$(PREFIX)

install: all
	$(Q)install -d $(D)/bin $(D)/lib/pkgconfig $(D)/include
	$(Q)for f in $(TOOLS); do install -m 755 $(BUILD)/$$f $(D)/bin/ || exit 1; done
	$(Q)install -m 755 $(BUILD)/libakv.so $(D)/lib/libakv.so.$(VERSION)
	$(Q)ln -sf libakv.so.$(VERSION) $(D)/lib/$(SONAME)
	$(Q)ln -sf $(SONAME) $(D)/lib/libakv.so
	$(Q)install -m 644 $(BUILD)/libakv.a $(D)/lib/
	$(Q)install -m 644 lib/akv.h $(D)/include/
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' lib/akv.pc.in >$(D)/lib/pkgconfig/akv.pc
	$(Q)chmod 644 $(D)/lib/pkgconfig/akv.pc
	$(Q)for f in $(MAN); do install -D -m 644 $$f $(D)/share/man/man$${f##*.}/$${f#man/} || exit 1; done
	$(Q)for f in $(JQ); do install -D -m 644 $$f $(D)/share/akv/$${f##*/} || exit 1; done
	$(Q)for f in $(NORMALISE); do install -D -m 644 $$f $(D)/share/akv/normalise/$${f##*/} || exit 1; done

uninstall:
	$(Q)for f in $(TOOLS); do rm -f $(D)/bin/$$f; done
	$(Q)rm -f $(D)/lib/libakv.so $(D)/lib/$(SONAME) $(D)/lib/libakv.so.$(VERSION) $(D)/lib/libakv.a $(D)/lib/pkgconfig/akv.pc $(D)/include/akv.h
	$(Q)for f in $(MAN); do rm -f $(D)/share/man/man$${f##*.}/$${f#man/}; done
	$(Q)rm -rf $(D)/share/akv

# --- the rest ---------------------------------------------------------------------------------------------------------

clean:
	rm -rf build

print-config:
	@printf '%-9s %s\n' version '$(VERSION)' variant '$(VARIANT)' build '$(BUILD)' prefix '$(PREFIX)' \
	    cc '$(CC) ($(shell $(CC) --version 2>/dev/null | head -n 1))' cflags '$(subst ','\'',$(CFLAGS_ALL))' avx2 '$(AVX2)' avx512 '$(AVX512)' \
	    ldflags '$(LDFLAGS_ALL)' libs '$(LIBS)' soname '$(SONAME)' tools '$(TOOLS)' tests '$(notdir $(UNITS))'

help:
	@echo "all lib tools    build into $(BUILD)"
	@echo "check            all tests (AKV_FAST=1: without the slow ones); check-long: every variant and both compilers"
	@echo "asan ubsan tsan  the fast tests under a sanitizer"
	@echo "fuzz             TIME=60 seconds of libFuzzer over hostile models, tokenizers, templates, streams and JSON"
	@echo "fault            every call on files goes wrong, processes are killed at random (check does a part of it)"
	@echo "lint             format, static analysis, the rules of the tree, man pages"
	@echo "demo model       the demonstration (MODEL=path.gguf: with a model of yours); only fetch its model"
	@echo "bench-peer       speed beside llama.cpp, which it compiles first (ROWS=...; see scripts/bench-peer)"
	@echo "install          to DESTDIR + PREFIX ($(PREFIX)); uninstall"
	@echo "print-config clean help"

FORCE:
.PHONY: all lib tools units bootstrap check check-long fault asan ubsan tsan fuzz fuzzers lint model bench-peer demo install uninstall clean print-config help FORCE
.SECONDARY:
.DELETE_ON_ERROR:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
