# SPDX-License-Identifier: Apache-2.0
#
# Programs that a newcomer runs. The .cu files are built by nvcc with its
# default flags and know nothing of this project.

E := $(BUILD)/examples
EXAMPLES := $(E)/vecadd_driver $(E)/vecadd $(E)/streams

.PHONY: examples demo demo-built
examples: $(EXAMPLES)

# Any library of SONAME libcuda.so.1 will do to link against.
$(E)/vecadd_driver: examples/vecadd.c $(LINKS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 $(WARN) -isystem $(CUDA)/include -o $@ $< \
		-L$(LIB)/mpsshim -lcuda

$(E)/%: examples/%.cu
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) -o $@ $<

demo:
	$(Q)$(MAKE) --no-print-directory deps
	$(Q)$(MAKE) --no-print-directory demo-built
demo-built: all examples
	$(Q)MPSSHIM_BUILD=$(abspath $(BUILD)) examples/two_tenants.sh
