# SPDX-License-Identifier: Apache-2.0
#
# Programs and scripts that show unmodified runtimes and libraries, and any
# program at all, under the shim.

API_C := $(addprefix $(T)/,answers graphs guest_cost guest_cuda libraries refusals \
	register threads)
API_FACTS := $(addprefix $(T)/,attributes backlog batches copies globals graphs_if graphs_memops graphs_memory graphs_moved ipc ipc_tokens launch_set linker \
	mapped mapped_parts memops memory_host memory_pool memory_vmm nvml pageable queries tensor textures waits)
CUDADEVRT := $(firstword $(wildcard $(CUDA)/lib64/libcudadevrt.a $(CUDA)/lib/libcudadevrt.a))
API_CODE := $(addprefix $(T)/register-,none.fatbin speed.fatbin size.fatbin) \
	$(T)/sass $(T)/assert $(T)/vecadd-rdc $(T)/graphs_rt \
	$(T)/managed_rt $(if $(CUDADEVRT),$(T)/libcudadevrt.a)
EXTRA_TESTS += $(API_C) $(API_FACTS) $(API_CODE)
CHECK_PROGRAMS += $(addprefix tests/api/check_,answers.sh backlog.sh cudart.sh graphs.sh guest.sh ipc.sh shared.sh \
	libraries.sh memory.sh mps_control.sh refusals.sh waits.sh)

# Unmodified programs: never built with the sanitizers that ours may have.
$(API_C): $(T)/%: tests/api/%.c
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -std=gnu11 -O2 -g $(WARN) \
		$(if $(WERROR),-Werror) -isystem $(CUDA)/include -o $@ $< \
		$(API_LIB) -ldl -lpthread
$(T)/graphs $(T)/guest_cuda $(T)/refusals $(T)/threads: $(LINKS)
$(T)/graphs $(T)/guest_cuda $(T)/refusals $(T)/threads: API_LIB := -L$(LIB)/mpsshim -lcuda

# Linked by name, as programs of others are.
$(T)/ipc $(T)/ipc_tokens: tests/api/peer.h
$(API_FACTS): $(T)/%: tests/api/%.c tests/api/facts.h tests/api/words.h \
		$(LINKS) $(NVML)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -std=gnu11 -O2 -g $(WARN) \
		$(if $(WERROR),-Werror) -I. -isystem $(CUDA)/include -o $@ $< \
		-L$(LIB)/mpsshim -lcuda

$(T)/register-%.fatbin: tests/api/register.cu
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) -fatbin -gencode arch=compute_75,code=compute_75 \
		-compress-mode=$* -o $@ $<

# Machine code and no PTX.
$(T)/sass: tests/api/sass.cu
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) -gencode arch=compute_90,code=sm_90 -o $@ $<

# Linked device code: its registration lists further fatbins, and only those
# hold PTX.
$(T)/vecadd-rdc: examples/vecadd.cu
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) -rdc=true -o $@ $<

# To be linked with by the driver.
$(T)/libcudadevrt.a: $(CUDADEVRT)
	$(call say,CP,$@)
	$(Q)mkdir -p $(@D)
	$(Q)cp $< $@

$(T)/graphs_rt $(T)/managed_rt: $(T)/%: tests/api/%.cu
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) -gencode arch=compute_75,code=compute_75 -o $@ $<

$(T)/assert: tests/api/assert.cu
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) -o $@ $<
