# SPDX-License-Identifier: Apache-2.0
#
# Programs that a real driver and ours are compared with.

FIDELITY := $(T)/fidelity
EXTRA_TESTS += $(FIDELITY)
CHECK_PROGRAMS += tests/gpu/check_fidelity.sh tests/gpu/check_torture.sh

# Never built with the sanitizers that ours may have: it runs on any driver.
# Rows with every argument of a kind, NULL among them, are their purpose.
$(FIDELITY): $(wildcard tests/gpu/fidelity/*.[ch]) $(GEN)/fidelity_names.h
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -std=gnu11 -O1 -g $(WARN) \
		$(if $(WERROR),-Werror) -Wno-nonnull -I. -I$(GEN) \
		-isystem $(CUDA)/include -o $@ $(filter %.c,$^) -ldl

# Every function but twins with a thread's default stream.
$(GEN)/fidelity_names.h: proto/exports-13.0.txt
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)sed '/_pt[sd][sz]$$/d;s/.*/"&",/' $< >$@

# Answers, not verdicts: for a machine with a GPU.
$(T)/questions: $(addprefix $(OBJ)/tests/,gpu/questions.o contract/drv.o)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) -lm -ldl -lpthread
EXTRA_TESTS += $(T)/questions

# Never built with the sanitizers that ours may have.
$(T)/torture: tests/gpu/torture.c tests/api/facts.h $(LINKS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -std=gnu11 -O2 -g $(WARN) \
		$(if $(WERROR),-Werror) -I. -isystem $(CUDA)/include -o $@ $< \
		-L$(LIB)/mpsshim -lcuda
EXTRA_TESTS += $(T)/torture
