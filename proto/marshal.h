/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of a call to bytes and back, driven by the signature table.
 * The shim packs calls and unpacks replies; the worker the other way round.
 *
 * One signature (generated from proto/cuda.api) describes every parameter.
 * Call bytes, in parameter order, little-endian, without padding:
 *   VALUE, FLOAT, DOUBLE, HANDLE, NEW_HANDLE   8 bytes
 *   STRING, BYTES    u32 length (UINT32_MAX: the pointer was NULL), bytes;
 *                    a STRING's length counts its terminating NUL
 *   OUT_VALUE        u8: 1 if the caller gave a pointer
 *   OUT_BYTES        u32 capacity in bytes (UINT32_MAX: NULL)
 *   INOUT_BYTES      as BYTES; the reply carries it back
 * Reply bytes, for each OUT_* and INOUT_* parameter with a pointer, in order:
 *   OUT_VALUE        8 bytes
 *   OUT_BYTES, INOUT_BYTES   u32 length <= capacity, bytes
 * Every length is checked here, once, against what is left of the frame.
 */
#ifndef PROTO_MARSHAL_H
#define PROTO_MARSHAL_H

#include <stddef.h>
#include <stdint.h>

enum wire_kind {
	WIRE_VALUE,        /* scalar by value of `size` bytes */
	WIRE_FLOAT,
	WIRE_DOUBLE,
	WIRE_HANDLE,       /* client handle of `handle` kind; 0 allowed with
			    * WIRE_NULLABLE; CUstream also takes 1 and 2 */
	WIRE_NEW_HANDLE,   /* out pointer to a handle; the id is minted by
			    * the client and travels with the call */
	WIRE_STRING,       /* const char * */
	WIRE_BYTES,        /* const T *, `size` bytes times argument `count` */
	WIRE_OUT_VALUE,    /* T * to a scalar of `size` bytes */
	WIRE_OUT_BYTES,    /* T *, `size` bytes times argument `count` */
	WIRE_INOUT_BYTES,  /* T *, read and written */
};

enum {
	WIRE_NULLABLE = 1, /* the driver accepts NULL here */
	WIRE_SIGNED = 2,   /* a VALUE to sign-extend */
};

#define WIRE_NO_COUNT 0xff
#define WIRE_MAX_PARAMS 24
/* An argument block never exceeds this: bulk data goes through staging. */
#define WIRE_MAX_ARGS (60u * 1024u)

struct wire_param {
	uint8_t kind;      /* enum wire_kind */
	uint8_t flags;
	uint8_t handle;    /* enum handle_kind */
	uint8_t count;     /* index of the count parameter or WIRE_NO_COUNT */
	uint32_t size;     /* bytes of one element */
};

enum wire_class {
	WIRE_LOCAL,        /* never on the wire */
	WIRE_SYNC_ORDERED, /* replied to; keeps its place in the ring */
	WIRE_SYNC_UNORDERED,
	WIRE_POST,         /* no reply */
};

struct wire_sig {
	const char *name;
	uint8_t class_;    /* enum wire_class */
	uint8_t nparams;
	const struct wire_param *params;
};

/* One unpacked argument, worker side. */
struct wire_arg {
	uint64_t value;    /* VALUE (extended), float bits, handle */
	const void *data;  /* STRING, BYTES, INOUT: bytes in the frame copy,
			    * 8-aligned; NULL when the pointer was NULL */
	size_t size;       /* bytes of data; capacity of OUT_BYTES */
	void *out;         /* OUT_*, INOUT: result buffer in the arena,
			    * zeroed; NULL when the caller gave NULL */
	size_t out_size;   /* bytes to send back; OUT_BYTES starts at size */
};

/* Bounded bump allocator for one frame; reset by its owner between frames. */
struct wire_arena {
	uint8_t *base;
	size_t size, used;
};
void *wire_arena_alloc(struct wire_arena *arena, size_t size);

/*
 * argv[i] points at native argument i (as for ffi_call). Returns the bytes
 * written, or -EMSGSIZE when cap is too small.
 */
long wire_pack_call(const struct wire_sig *sig, void *const argv[],
		    uint8_t *buf, size_t cap);
/* 0; -EBADMSG when the bytes do not fit the signature; -ENOMEM. */
int wire_unpack_call(const struct wire_sig *sig, const uint8_t *buf,
		     size_t size, struct wire_arg *args,
		     struct wire_arena *arena);
long wire_pack_reply(const struct wire_sig *sig, const struct wire_arg *args,
		     uint8_t *buf, size_t cap);
/* Store results through the caller's own pointers. Nothing is stored unless
 * the whole reply fits the signature. 0 or -EBADMSG. */
int wire_unpack_reply(const struct wire_sig *sig, const uint8_t *buf,
		      size_t size, void *const argv[]);

#endif
