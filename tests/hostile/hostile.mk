# SPDX-License-Identifier: Apache-2.0
#
# Kills, races and hostile input against a running broker and worker.

EXTRA_TESTS += $(T)/kill_client
CHECK_PROGRAMS += tests/hostile/check_kill.py

# Links like an application: against any library of SONAME libcuda.so.1.
$(T)/kill_client: tests/hostile/kill_client.c $(LINKS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 $(WARN) -isystem $(CUDA)/include -o $@ $< \
		-L$(LIB)/mpsshim -lcuda

# Recorded sessions, changed and played again.
REPLAY_OBJ := $(addprefix $(OBJ)/tests/hostile/,actor.o mutate.o pool.o \
	replay.o session.o toys.o)
RECORD_OBJ := $(addprefix $(OBJ)/tests/hostile/,record.o session.o)
$(T)/replay: $(REPLAY_OBJ) $(PROTO_OBJ) $(SOFT_OBJ)
$(T)/record: $(RECORD_OBJ) $(PROTO_OBJ)
$(T)/replay: HOSTILE_LIBS := -l:liblz4.a -l:libzstd.a -lm
$(T)/replay $(T)/record:
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(PB_LIB) $(HOSTILE_LIBS) -ldl -lpthread
EXTRA_TESTS += $(T)/replay $(T)/record

# The decoders alone, in one process.
DECODE_OBJ := $(addprefix $(OBJ)/tests/hostile/,decode.o mutate.o session.o) \
	$(addprefix $(OBJ)/server/broker/,conn.o loop.o) $(OBJ)/gen/api_sigs.o
$(T)/decode: $(DECODE_OBJ) $(PROTO_OBJ) $(SOFT_OBJ)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(PB_LIB) -l:liblz4.a -l:libzstd.a -lm \
		-ldl -lpthread
EXTRA_TESTS += $(T)/decode

HOSTILE := $(addprefix tests/hostile/check_,bad_input.sh decode.sh full_disk.sh \
	mutated.py no_ring.sh)
CHECK_PROGRAMS += $(HOSTILE)

# The long run: a million frames against running processes, two million
# through the decoders alone, 400,000 code images. SEED= repeats one,
# SAN=asan looks closer.
.PHONY: fuzz
fuzz: tests examples
	$(Q)$(CHECK_ENV) COUNT=$(or $(COUNT),1000000) \
		tests/hostile/check_mutated.py
	$(Q)$(CHECK_ENV) COUNT=$(or $(COUNT),2000000) \
		tests/hostile/check_decode.sh

# Sockets whose memory and calls fail on demand.
$(T)/check_edges: $(OBJ)/tests/hostile/check_edges.o $(PROTO_OBJ) \
		$(addprefix $(OBJ)/server/broker/,conn.o loop.o)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -Wl,--wrap=malloc,--wrap=sendmsg,--wrap=recvmsg \
		-o $@ $^ $(PB_LIB) -lcheck -lsubunit -lm -lrt -lpthread
EXTRA_TESTS += $(T)/check_edges
CHECK_PROGRAMS += $(T)/check_edges

# Talks to a running broker and is its worker.
$(T)/check_attach: $(addprefix $(OBJ)/tests/,hostile/check_attach.o \
		unit/broker_rig.o unit/fake_worker.o) $(PROTO_OBJ)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(PB_LIB) -lcheck -lsubunit \
		-lm -lrt -lpthread
EXTRA_TESTS += $(T)/check_attach
CHECK_PROGRAMS += $(T)/check_attach

# Clients on strings, and who pulls them while workers end.
$(T)/puppet: tests/hostile/puppet.c $(LINKS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 $(WARN) $(if $(WERROR),-Werror) -isystem $(CUDA)/include \
		-o $@ $< -L$(LIB)/mpsshim -lcuda
EXTRA_TESTS += $(T)/puppet
$(T)/faults: $(addprefix tests/hostile/,faults.c puppets.c puppets.h)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -I. $(WARN) $(if $(WERROR),-Werror) -o $@ \
		$(filter %.c,$^)
$(T)/solo: $(addprefix tests/hostile/,solo.c puppets.c puppets.h)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -I. $(WARN) $(if $(WERROR),-Werror) -o $@ \
		$(filter %.c,$^)
EXTRA_TESTS += $(T)/faults $(T)/solo
CHECK_PROGRAMS += $(addprefix tests/hostile/check_,faults.sh solo.sh)
