# SPDX-License-Identifier: Apache-2.0
#
# What it costs. The programs are plain CUDA programs: never built with the
# sanitizers that ours may have.

BENCH_C := $(addprefix $(T)/bench/,clients count micro start)
BENCH_SO := $(T)/bench/asked.so
EXTRA_TESTS += $(BENCH_C) $(BENCH_SO)
CHECK_PROGRAMS += tests/bench/check_instructions.py tests/bench/check_bench.py
QUICK_PROGRAMS += tests/bench/check_instructions.py tests/bench/check_bench.py

$(T)/bench/micro: $(wildcard tests/bench/micro_*.c) tests/bench/measure.c
$(T)/bench/clients $(T)/bench/start: tests/bench/measure.c

# A tail call would look like a call by the caller's caller.
$(BENCH_C): $(T)/bench/%: tests/bench/%.c $(wildcard tests/bench/*.h) $(LINKS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -std=gnu11 -O2 -g -fno-optimize-sibling-calls \
		$(WARN) $(if $(WERROR),-Werror) -I. -isystem $(CUDA)/include \
		-o $@ $(filter %.c,$^) -L$(LIB)/mpsshim -lcuda -lpthread

$(BENCH_SO): tests/bench/asked.c
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -std=gnu11 -O2 -g -fPIC -shared \
		$(WARN) $(if $(WERROR),-Werror) -isystem $(CUDA)/include \
		-o $@ $<

# After a change that has to cost more, or costs less.
.PHONY: instructions
instructions: all $(T)/bench/count
	$(Q)$(CHECK_ENV) tests/bench/check_instructions.py --record

# SET, MODES, TENANTS, KINDS, SECONDS, REPEAT, RESULTS, DRIVER, ONLY, LIMIT: see
# bench.py.
.PHONY: bench bench-stage
bench: all $(BENCH_C) $(BENCH_SO)
	$(Q)$(CHECK_ENV) tests/bench/bench.py

# What tests/gpu/bench.sh and torture.sh need, for a machine that builds
# nothing.
STAGE := .carry/bench
bench-stage: all $(BENCH_C) $(BENCH_SO) $(T)/torture
	$(call say,STAGE,$(STAGE))
	$(Q)rm -rf $(STAGE)
	$(Q)install -d $(STAGE)/bin $(STAGE)/lib $(STAGE)/tests/bench
	$(Q)install -s $(PROGRAMS) $(STAGE)/bin
	$(Q)install -s $(SHIM) $(SOFT) $(STAGE)/lib
	$(Q)install -s $(filter-out %/count,$(BENCH_C)) $(BENCH_SO) \
		$(STAGE)/tests/bench
	$(Q)install -s $(T)/torture $(STAGE)/tests
