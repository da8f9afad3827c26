# SPDX-License-Identifier: Apache-2.0
#
# `make demo` and `make check` do everything, set-up included; `make help`
# lists the rest. Outputs live in build/ (build-asan/ and build-tsan/ with
# SAN=asan and SAN=tsan); everything runs from there, uninstalled.

SAN ?=
BUILD := build$(if $(SAN),-$(SAN))
PREFIX ?= /usr/local
DESTDIR ?=
# Ask for warnings as errors (CI does): make WERROR=1
WERROR ?=

CUDA_HOME ?= $(firstword $(wildcard /usr/local/cuda .deps/cuda))
CUDA := $(or $(CUDA_HOME),.deps/cuda)
NVCC := $(CUDA)/bin/nvcc
PYTHON ?= python3
PROTOC_C ?= protoc-c

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-6s %s\n' '$(1)' '$(2)';)

WARN := -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wvla
SAN_FLAGS_asan := -fsanitize=address,undefined -fno-sanitize-recover=undefined
SAN_FLAGS_tsan := -fsanitize=thread
SAN_FLAGS := $(SAN_FLAGS_$(SAN))
OPT := $(if $(SAN),-O1,-O2)
CPPFLAGS := -D_GNU_SOURCE -I. -I$(BUILD)/gen -isystem $(CUDA)/include
CFLAGS := -std=gnu11 $(OPT) -g -fPIC -fno-omit-frame-pointer \
	-ffile-prefix-map=$(CURDIR)/= $(WARN) $(if $(WERROR),-Werror) \
	$(SAN_FLAGS) $(COVERAGE)
LDFLAGS := $(SAN_FLAGS) $(COVERAGE)
ifneq ($(SAN),)
CPPFLAGS += -DMPSSHIM_SANITIZED
endif

# Debian's static protobuf-c and libffi are position independent enough for
# executables, and for libraries with a version script.
PB_LIB := -l:libprotobuf-c.a

GEN := $(BUILD)/gen
OBJ := $(BUILD)/obj
APIGEN := proto/apigen
GEN_C := api_sigs shim_entry shim_procaddr shim_reasons wkr_driver wkr_dispatch
GEN_STAMP := $(GEN)/.stamp

objs = $(patsubst %.c,$(OBJ)/%.o,$(wildcard $(1)))

PROTO_OBJ := $(call objs,proto/*.c) $(OBJ)/gen/proto/wire.pb-c.o
SHIM_ALL := $(call objs,shim/*.c) $(patsubst %.S,$(OBJ)/%.o,$(wildcard shim/*.S))
SHIM_OBJ := $(filter-out $(OBJ)/shim/mpsrun.o,$(SHIM_ALL)) \
	$(addprefix $(OBJ)/gen/,shim_entry.o shim_procaddr.o shim_reasons.o api_sigs.o)
BROKER_OBJ := $(call objs,server/broker/*.c)
CTL_OBJ := $(addprefix $(OBJ)/server/ctl/,ask.o json.o main.o table.o)
MPS_OBJ := $(addprefix $(OBJ)/server/ctl/,ask.o mps.o mps_command.o)
WORKER_OBJ := $(call objs,server/worker/*.c server/fatbin.c) \
	$(addprefix $(OBJ)/gen/,wkr_driver.o wkr_dispatch.o api_sigs.o)
SOFT_OBJ := $(call objs,server/soft/*.c server/fatbin.c)

LIB := $(BUILD)/lib
BIN := $(BUILD)/bin
SHIM := $(LIB)/libmpsshim.so
SOFT := $(LIB)/libsoftcuda.so
LINKS := $(LIB)/mpsshim/libcuda.so.1 $(LIB)/mpsshim/libcuda.so
# In a directory that mpsrun adds where NVIDIA's cannot work.
NVML := $(LIB)/mpsshim/nvml/libnvidia-ml.so.1
# NVIDIA's name, in a directory that nobody has in PATH unasked.
CONTROL := $(BUILD)/mps/nvidia-cuda-mps-control
PROGRAMS := $(addprefix $(BIN)/,mpsctl mpsd mpsd-worker mpsrun)

.PHONY: all
all: $(PROGRAMS) $(CONTROL) $(SHIM) $(SOFT) $(LINKS) $(NVML)

# ---- generated ------------------------------------------------------------

$(GEN_STAMP): proto/cuda.api $(wildcard $(APIGEN)/*.py) \
		$(wildcard proto/*.tsv proto/*.txt) proto/wire.proto Makefile
	$(call say,GEN,proto/cuda.api)
	$(Q)mkdir -p $(GEN)
	$(Q)$(PYTHON) $(APIGEN)/apigen.py --out $(GEN) proto/cuda.api
	$(Q)$(PROTOC_C) --c_out=$(GEN) proto/wire.proto
	$(Q)touch $@

GENERATED := $(addprefix $(GEN)/,$(addsuffix .c,$(GEN_C))) \
	$(GEN)/proto/wire.pb-c.c
$(GENERATED): $(GEN_STAMP) ;

# Every object may include generated headers.
$(OBJ)/%.o: %.c $(GEN_STAMP)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(CFLAGS_$(subst /,_,$(basename $<))) -MMD -MP -c -o $@ $<

$(OBJ)/%.o: %.S
	$(call say,AS,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -fPIC -c -o $@ $<

$(OBJ)/gen/%.o: $(GEN)/%.c $(GEN_STAMP)
	$(call say,CC,$(GEN)/$*.c)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $(GEN)/$*.c

# ---- products -------------------------------------------------------------

# The shim is a guest: initial-exec TLS, no lazy unload, nothing exported but
# the driver's names.
$(SHIM_OBJ): CFLAGS += -fvisibility=hidden -ftls-model=initial-exec
$(SHIM): $(SHIM_OBJ) $(PROTO_OBJ)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,libcuda.so.1 \
		-Wl,--version-script=$(GEN)/shim.map -Wl,-z,nodelete \
		$(if $(SAN),,-Wl$(comma)-z$(comma)defs) \
		-o $@ $(SHIM_OBJ) $(PROTO_OBJ) $(PB_LIB) -lpthread -ldl
comma := ,

$(LINKS): $(SHIM)
	$(call say,LN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)ln -sfn ../libmpsshim.so $@

$(GEN)/nvml_refused.c: shim/nvml/refused.txt Makefile
	$(call say,GEN,$<)
	$(Q)mkdir -p $(@D)
	$(Q)sed -n -e '1i/* generated from $<: do not edit */\n#include "shim/nvml/nvml.h"' \
		-e 's/^nvml.*/enum nvml_code &(void);\nenum nvml_code\n&(void)\n{\n\treturn nvml_refused();\n}/p' \
		$< >$@

NVML_OBJ := $(OBJ)/shim/nvml/nvml.o $(OBJ)/gen/nvml_refused.o
$(NVML): $(NVML_OBJ) $(PROTO_OBJ) shim/nvml/nvml.map
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,libnvidia-ml.so.1 \
		-Wl,--version-script=shim/nvml/nvml.map -Wl,-z,nodelete \
		$(if $(SAN),,-Wl$(comma)-z$(comma)defs) \
		-o $@ $(NVML_OBJ) $(PROTO_OBJ) $(PB_LIB) -lpthread -ldl

# The executor's arithmetic must not be contracted or assumed to round to
# nearest.
$(SOFT_OBJ): CFLAGS += -ffp-contract=off -frounding-math
$(SOFT): $(SOFT_OBJ) server/soft/softcuda.map
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,libsoftcuda.so \
		-Wl,--version-script=server/soft/softcuda.map -Wl,-z,nodelete \
		-Wl,-Bsymbolic $(if $(SAN),,-Wl$(comma)-z$(comma)defs) \
		-o $@ $(SOFT_OBJ) -l:liblz4.a -l:libzstd.a -lm -lpthread

$(BIN)/mpsd: $(BROKER_OBJ) $(PROTO_OBJ)
$(BIN)/mpsctl: $(CTL_OBJ) $(PROTO_OBJ)
$(BIN)/mpsrun: $(OBJ)/shim/mpsrun.o $(OBJ)/shim/start.o $(PROTO_OBJ)
$(BIN)/mpsd-worker: $(WORKER_OBJ) $(PROTO_OBJ)
$(BIN)/mpsd-worker: LIBS := -l:libffi.a -l:liblz4.a -l:libzstd.a -ldl
$(CONTROL): $(MPS_OBJ) $(PROTO_OBJ)
$(PROGRAMS) $(CONTROL):
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(PB_LIB) $(LIBS) -lpthread

include tests/tests.mk
include examples/examples.mk

# ---- set-up, install, house-keeping ----------------------------------------

.PHONY: deps install uninstall clean help
deps:
	$(Q)sh tests/setup/deps.sh $(CUDA)

D := $(DESTDIR)$(PREFIX)
install: all
	$(Q)install -d $(D)/bin $(D)/lib/mpsshim/mps $(D)/lib/mpsshim/nvml \
		$(D)/share/doc/mpsshim
	$(Q)install -m 644 README.md LICENSE proto/COVERAGE.md \
		$(D)/share/doc/mpsshim
	$(Q)install -m 755 $(PROGRAMS) $(D)/bin
	$(Q)install -m 755 $(CONTROL) $(D)/lib/mpsshim/mps
	$(Q)install -m 755 $(SHIM) $(SOFT) $(D)/lib
	$(Q)install -m 755 $(NVML) $(D)/lib/mpsshim/nvml
	$(Q)ln -sfn ../libmpsshim.so $(D)/lib/mpsshim/libcuda.so.1
	$(Q)ln -sfn ../libmpsshim.so $(D)/lib/mpsshim/libcuda.so

uninstall:
	$(Q)rm -f $(addprefix $(D)/bin/,$(notdir $(PROGRAMS)))
	$(Q)rm -f $(D)/lib/libmpsshim.so $(D)/lib/libsoftcuda.so
	$(Q)rm -rf $(D)/lib/mpsshim $(D)/share/doc/mpsshim

clean:
	$(Q)rm -rf build build-asan build-tsan build-clang build-cov

help:
	@echo 'make demo            several unmodified programs share one context'
	@echo 'make check           every test; last line: N passed, N failed, N skipped'
	@echo 'make check-quick     the quick part of it, under a minute'
	@echo 'make                 build into build/'
	@echo 'make deps            install what a build needs (demo and check do)'
	@echo 'make install         PREFIX=$(PREFIX) DESTDIR='
	@echo 'make uninstall       what install has put there, likewise'
	@echo 'make SAN=asan check  the tests under AddressSanitizer and UBSan;'
	@echo '                     SAN=tsan: ThreadSanitizer'
	@echo 'make bench           what it costs, beside native and NVIDIA MPS'
	@echo 'make lint            formatting rules, layers, shell scripts'
	@echo 'make coverage        line coverage of handwritten code'

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)
