# SPDX-License-Identifier: Apache-2.0
#
# Programs that load a driver library: the contract programs, the PTX forms,
# the calls with zeros and the questions to cuGetProcAddress; and the scripts
# that run them here. tests/gpu/build.sh builds the first two alone.

# Every other source there is a program.
CONTRACT_PARTS := drv held neighbour descriptor
CONTRACT_LIB := $(CONTRACT_PARTS:%=$(OBJ)/tests/contract/%.o)
CONTRACT := $(patsubst tests/contract/%.c,$(T)/contract/%,$(filter-out \
	$(CONTRACT_PARTS:%=tests/contract/%.c),$(wildcard tests/contract/*.c)))
FORMS_OBJ := $(call objs,tests/ptx/forms*.c) $(OBJ)/tests/contract/drv.o
DRIVER_TESTS := $(T)/forms $(T)/test_zeros $(T)/check_procaddr_real

$(CONTRACT): $(T)/contract/%: $(OBJ)/tests/contract/%.o $(CONTRACT_LIB)
$(T)/forms: $(FORMS_OBJ)
$(T)/check_procaddr_real: $(OBJ)/tests/api/check_procaddr_real.o
$(T)/test_zeros: $(OBJ)/gen/test_zeros.o
$(CONTRACT) $(DRIVER_TESTS):
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) -lm -ldl -lpthread
$(GEN)/test_zeros.c: $(GEN_STAMP) ;

tests: $(CONTRACT) $(DRIVER_TESTS)

CHECK_PROGRAMS += $(T)/check_procaddr_real tests/api/check_exports.sh \
	tests/api/check_zeros.sh tests/contract/check_shim.sh \
	tests/contract/check_soft.sh \
	tests/ptx/check_forms.sh tests/unit/apigen/run.py
QUICK_PROGRAMS += $(T)/check_procaddr_real tests/api/check_exports.sh \
	tests/ptx/check_forms.sh tests/unit/apigen/run.py
