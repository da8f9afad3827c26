# SPDX-License-Identifier: Apache-2.0
#
# Which wings' objects a unit test links besides proto's.

USE_check_image := shim
USE_check_integrity := shim
USE_check_procaddr := shim
USE_check_tables := shim
USE_check_worker_parts := worker
USE_check_worker_journal := worker
USE_check_worker_hold := worker
USE_check_worker_slow := worker
USE_check_worker_traits := worker

# Tests that talk to a running worker.
RIG := $(addprefix $(OBJ)/,tests/unit/worker_rig.o gen/api_sigs.o)
$(addprefix $(T)/check_worker,$(addprefix _,batch gate hostile image overlap queue start)) \
	$(T)/check_worker: $(RIG)
USE_check_chan := shim
USE_check_crew := shim
USE_check_heap := shim
USE_check_pages := shim
USE_check_range := shim
USE_check_stage := shim
USE_check_pointer := shim
USE_check_va := shim
USE_check_visible := shim

USE_check_broker_parts := broker

# Tests that talk to a running broker and are its worker.
BROKER_RIG := $(addprefix $(OBJ)/tests/unit/,broker_rig.o fake_worker.o)
$(addprefix $(T)/,check_broker check_broker_ipc check_broker_mapping check_broker_memory \
	check_broker_worker check_mpsrun): $(BROKER_RIG)
$(T)/check_mpsrun: $(OBJ)/shim/start.o

USE_check_soft := soft
USE_check_soft_ask := soft
USE_check_soft_fault := soft
USE_check_soft_graph := soft
USE_check_soft_green := soft
USE_check_soft_image := soft
USE_check_soft_ledger := soft
USE_check_soft_mem := soft
USE_check_soft_module := soft
USE_check_soft_stream := soft
USE_check_soft_tex := soft
USE_check_soft_twin := soft
