# SPDX-License-Identifier: Apache-2.0
#
# Who waits for a neighbour, and who makes a third wait: beside.c runs both,
# timed.so notes the calls of the program between them; loader.c loads again
# and again.

STALL := $(T)/beside $(T)/loader $(T)/rest $(T)/timed.so
EXTRA_TESTS += $(STALL)
CHECK_PROGRAMS += tests/gpu/check_stall.sh tests/gpu/check_no_devices.sh

$(T)/beside $(T)/loader $(T)/rest: $(T)/%: tests/gpu/stall/%.c \
		tests/gpu/stall/stall.h $(LINKS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -std=gnu11 -O2 -g $(WARN) \
		$(if $(WERROR),-Werror) -Wno-deprecated-declarations -I. \
		-isystem $(CUDA)/include -o $@ $< -L$(LIB)/mpsshim -lcuda

# Never built with a sanitizer: it is preloaded. Under the name of the driver
# library, so that who opens that one gets this.
$(T)/timed.so: tests/gpu/stall/timed.c tests/gpu/stall/timed.h $(GEN_STAMP)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -std=gnu11 -O1 -g -fPIC -shared $(WARN) \
		$(if $(WERROR),-Werror) -Wno-deprecated-declarations -I. -I$(GEN) \
		-isystem $(CUDA)/include -ftls-model=initial-exec \
		-Wl,-soname,libcuda.so.1 -o $@ $< $(GEN)/timed_entry.c \
		-ldl -lpthread
