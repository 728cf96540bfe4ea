# akv: see README.md. Variants build side by side in build/<variant>/.
#   make [VARIANT=release|asan|ubsan|tsan] [CC=gcc|clang] [V=1]
VERSION := $(shell cat VERSION)
VARIANT ?= release
BUILD   ?= build/$(VARIANT)
PREFIX  ?= /usr/local
CC      ?= gcc
AR      ?= ar

WARN     := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
OPT_release := -O2 -g
OPT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT_ubsan   := -O1 -g -fsanitize=undefined -fno-sanitize-recover=undefined
OPT_tsan    := -O1 -g -fsanitize=thread
# -ffp-contract=off: the numerics are spelled out with explicit fma (akv-numerics(7))
CFLAGS_ALL := -std=c11 -D_GNU_SOURCE -DAKV_VERSION='"$(VERSION)"' -fPIC -fvisibility=hidden -ffp-contract=off -fexcess-precision=standard \
              -Ilib -I. $(WARN) $(OPT_$(VARIANT)) $(CFLAGS)
LIBS     := -lzstd -lxxhash -lcrypto -ljansson -lpcre2-8 -lutf8proc -lpthread
LDFLAGS_ALL := $(OPT_$(VARIANT)) $(LDFLAGS)
ifneq (,$(findstring clang,$(CC)))
CFLAGS_ALL := $(filter-out -fexcess-precision=standard,$(CFLAGS_ALL))
endif

LIB_SRC  := $(sort $(wildcard lib/*/*.c kernels/*.c))
LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o)
TOOLS    := $(patsubst cmd/akv_%.c,akv-%,$(sort $(wildcard cmd/akv_*.c)))
CMD_OBJ  := $(patsubst %.c,$(BUILD)/%.o,$(filter-out cmd/akv_%.c,$(sort $(wildcard cmd/*.c))))
UNITS    := $(patsubst tests/unit/%.c,%,$(sort $(wildcard tests/unit/test_*.c)))
TESTTOOLS := $(patsubst tests/tools/%.c,%,$(sort $(wildcard tests/tools/*.c)))
Q := $(if $(V),,@)

all: lib tools
lib: $(BUILD)/libakv.a $(BUILD)/libakv.so
tools: $(TOOLS:%=$(BUILD)/%)
units: $(UNITS:%=$(BUILD)/tests/%) $(TESTTOOLS:%=$(BUILD)/tests/%)

$(BUILD)/kernels/avx2%.o: ISA := -mavx2 -mfma -mf16c

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $<")
	$(Q)$(CC) $(CFLAGS_ALL) $(ISA) -MMD -MP -c -o $@ $<

$(BUILD)/libakv.a: $(LIB_OBJ)
	$(if $(V),,@echo "  AR $@")
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/libakv.so: $(LIB_OBJ)
	$(if $(V),,@echo "  LD $@")
	$(Q)$(CC) -shared -Wl,-soname,libakv.so.0 -Wl,--no-undefined $(LDFLAGS_ALL) -o $@ $^ $(LIBS)
	$(Q)ln -sf libakv.so $(BUILD)/libakv.so.0

# the tools see only akv.h and run in place through $$ORIGIN
$(BUILD)/akv-%: $(BUILD)/cmd/akv_%.o $(CMD_OBJ) $(BUILD)/libakv.so
	$(if $(V),,@echo "  LD $@")
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) -L$(BUILD) -lakv -ljansson -Wl,-rpath,'$$ORIGIN' -Wl,-rpath,'$$ORIGIN/../lib'

# unit tests see the internals and link the archive
$(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(BUILD)/libakv.a
	$(if $(V),,@echo "  LD $@")
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ -lcmocka $(LIBS)
$(BUILD)/tests/%: $(BUILD)/tests/tools/%.o $(BUILD)/libakv.a
	$(if $(V),,@echo "  LD $@")
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)

clean:
	rm -rf build

.PHONY: all lib tools units clean
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
