# SPDX-License-Identifier: Apache-2.0
#
# Suites of the PTX executor alone, without the driver side.

PTX_SUITES := $(basename $(notdir $(wildcard tests/ptx/check_ptx*.c)))
PTX_BIN := $(addprefix $(T)/,$(PTX_SUITES))
PTX_PARTS := $(OBJ)/tests/ptx/ptx_harness.o $(call objs,server/soft/ptx_*.c)

$(PTX_BIN): $(T)/%: $(OBJ)/tests/ptx/%.o $(PTX_PARTS)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lcheck -lsubunit -lm -lrt -lpthread
$(PTX_BIN:$(T)/%=$(OBJ)/tests/ptx/%.o): CFLAGS += -ffp-contract=off \
	-frounding-math
