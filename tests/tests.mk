# SPDX-License-Identifier: Apache-2.0
#
# Test programs and the targets that run them. A unit test check_X links the
# objects of the wings named in USE_check_X (proto alone when unset).

T := $(BUILD)/tests

WING_proto := $(PROTO_OBJ)
WING_shim := $(SHIM_OBJ)
WING_broker := $(filter-out %/main.o,$(BROKER_OBJ))
WING_worker := $(filter-out %/main.o,$(WORKER_OBJ))
WING_soft := $(SOFT_OBJ)

UNIT := $(sort $(basename $(notdir $(wildcard tests/unit/check_*.c))))

-include tests/uses.mk
include tests/contract/contract.mk
include tests/ptx/ptx.mk
include tests/api/api.mk
include tests/hostile/hostile.mk
include tests/bench/bench.mk
include tests/gpu/gpu.mk
include tests/gpu/stall/stall.mk

define unit_rule
$(T)/$(1): $(OBJ)/tests/unit/$(1).o $(sort $(WING_proto) \
		$(foreach w,$(USE_$(1)),$(WING_$(w))))
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(CC) $$(LDFLAGS) -rdynamic -o $$@ $$(filter %.o,$$^) $$(PB_LIB) \
		-l:libffi.a -l:liblz4.a -l:libzstd.a -lcheck -lsubunit -lm \
		-lrt -ldl -lpthread
endef
$(foreach u,$(UNIT),$(eval $(call unit_rule,$(u))))
UNIT_BIN := $(addprefix $(T)/,$(UNIT)) $(PTX_BIN)

$(T)/overlap: tests/gpu/overlap.cu
$(T)/vadd: tests/gpu/workloads/vadd.cu
$(T)/overlap $(T)/vadd:
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) -o $@ $<
EXTRA_TESTS += $(T)/overlap $(T)/vadd

.PHONY: tests
tests: all $(UNIT_BIN) $(EXTRA_TESTS)

# demo and check install what is missing first, then start make anew so that
# it finds what was installed.
.PHONY: check check-quick check-built check-quick-built
check check-quick:
	$(Q)$(MAKE) --no-print-directory deps
	$(Q)$(MAKE) --no-print-directory $@-built

CHECK_ENV := MPSSHIM_BUILD=$(abspath $(BUILD)) MPSSHIM_CUDA=$(abspath $(CUDA)) \
	MPSSHIM_SAN=$(SAN)
# ThreadSanitizer kills a process that maps memory at 0x1000_0000_0000.
ifeq ($(SAN),tsan)
CHECK_ENV += MPSSHIM_WINDOWS=0x7e8000000000:256G
endif

check-built: tests examples
	$(Q)$(CHECK_ENV) tests/run.sh $(UNIT_BIN) $(CHECK_PROGRAMS)
check-quick-built: tests examples
	$(Q)$(CHECK_ENV) tests/run.sh -t 60 $(UNIT_BIN) $(QUICK_PROGRAMS)

# The unit tests alone: what sanitizers and valgrind are run on.
.PHONY: check-units check-valgrind
check-units: all $(UNIT_BIN)
	$(Q)$(CHECK_ENV) tests/run.sh $(UNIT_BIN)

# Suites that start other processes, race threads, look at signal masks or
# reserve address space are left to the sanitizers: valgrind follows no exec
# here, runs one thread at a time, keeps a signal for itself, and has no room
# for terabytes.
VALGRIND_UNITS := $(filter-out check_broker% check_mpsrun check_worker% \
	check_crew check_soft_stream check_ring check_chan check_va check_ptx,$(UNIT))
check-valgrind: all $(UNIT_BIN)
	$(Q)$(CHECK_ENV) tests/valgrind.sh $(addprefix $(T)/,$(VALGRIND_UNITS))

.PHONY: lint
lint:
	$(Q)tests/lint.sh

# The worker leaves by _exit() and calls __gcov_dump itself, if it is linked;
# its threads count at the same time. Rows with a file size limit of 0 fail
# here, since the counters are files: the figures come all the same.
.PHONY: coverage
coverage:
	-$(Q)$(MAKE) --no-print-directory BUILD=build-cov OPT=-O0 \
		COVERAGE="--coverage -fprofile-update=atomic \
		-Wl,-u,__gcov_dump" check-built
	$(Q)gcovr -r . --object-directory build-cov \
		-f 'shim/' -f 'server/' -f 'proto/' -e '.*pb-c.*' -s
