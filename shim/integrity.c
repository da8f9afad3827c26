/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The integrity answer: HMAC-MD2 over what a runtime library can check.
 *
 * At start-up a runtime asks three times, with its version + 0, + 1 and + 2.
 * The first two have constant answers. The third is an HMAC (RFC 2104) with
 * MD2 (RFC 1319) over version numbers, process, thread, the addresses of the
 * two tables concerned and every visible device; the runtime computes the
 * same from what the entry points told it and stops when the two differ.
 */
#include "shim/integrity.h"

#include <string.h>

#define MD2_BLOCK 16

/* RFC 1319's substitution table, from the digits of pi. */
static const uint8_t md2_pi[256] = {
	0x29, 0x2e, 0x43, 0xc9, 0xa2, 0xd8, 0x7c, 0x01,
	0x3d, 0x36, 0x54, 0xa1, 0xec, 0xf0, 0x06, 0x13,
	0x62, 0xa7, 0x05, 0xf3, 0xc0, 0xc7, 0x73, 0x8c,
	0x98, 0x93, 0x2b, 0xd9, 0xbc, 0x4c, 0x82, 0xca,
	0x1e, 0x9b, 0x57, 0x3c, 0xfd, 0xd4, 0xe0, 0x16,
	0x67, 0x42, 0x6f, 0x18, 0x8a, 0x17, 0xe5, 0x12,
	0xbe, 0x4e, 0xc4, 0xd6, 0xda, 0x9e, 0xde, 0x49,
	0xa0, 0xfb, 0xf5, 0x8e, 0xbb, 0x2f, 0xee, 0x7a,
	0xa9, 0x68, 0x79, 0x91, 0x15, 0xb2, 0x07, 0x3f,
	0x94, 0xc2, 0x10, 0x89, 0x0b, 0x22, 0x5f, 0x21,
	0x80, 0x7f, 0x5d, 0x9a, 0x5a, 0x90, 0x32, 0x27,
	0x35, 0x3e, 0xcc, 0xe7, 0xbf, 0xf7, 0x97, 0x03,
	0xff, 0x19, 0x30, 0xb3, 0x48, 0xa5, 0xb5, 0xd1,
	0xd7, 0x5e, 0x92, 0x2a, 0xac, 0x56, 0xaa, 0xc6,
	0x4f, 0xb8, 0x38, 0xd2, 0x96, 0xa4, 0x7d, 0xb6,
	0x76, 0xfc, 0x6b, 0xe2, 0x9c, 0x74, 0x04, 0xf1,
	0x45, 0x9d, 0x70, 0x59, 0x64, 0x71, 0x87, 0x20,
	0x86, 0x5b, 0xcf, 0x65, 0xe6, 0x2d, 0xa8, 0x02,
	0x1b, 0x60, 0x25, 0xad, 0xae, 0xb0, 0xb9, 0xf6,
	0x1c, 0x46, 0x61, 0x69, 0x34, 0x40, 0x7e, 0x0f,
	0x55, 0x47, 0xa3, 0x23, 0xdd, 0x51, 0xaf, 0x3a,
	0xc3, 0x5c, 0xf9, 0xce, 0xba, 0xc5, 0xea, 0x26,
	0x2c, 0x53, 0x0d, 0x6e, 0x85, 0x28, 0x84, 0x09,
	0xd3, 0xdf, 0xcd, 0xf4, 0x41, 0x81, 0x4d, 0x52,
	0x6a, 0xdc, 0x37, 0xc8, 0x6c, 0xc1, 0xab, 0xfa,
	0x24, 0xe1, 0x7b, 0x08, 0x0c, 0xbd, 0xb1, 0x4a,
	0x78, 0x88, 0x95, 0x8b, 0xe3, 0x63, 0xe8, 0x6d,
	0xe9, 0xcb, 0xd5, 0xfe, 0x3b, 0x00, 0x1d, 0x39,
	0xf2, 0xef, 0xb7, 0x0e, 0x66, 0x58, 0xd0, 0xe4,
	0xa6, 0x77, 0x72, 0xf8, 0xeb, 0x75, 0x4b, 0x0a,
	0x31, 0x44, 0x50, 0xb4, 0x8f, 0xed, 0x1f, 0x1a,
	0xdb, 0x99, 0x8d, 0x33, 0x9f, 0x11, 0x83, 0x14,
};

static const uint8_t hmac_key[MD2_BLOCK] = {
	0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52,
	0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f,
};

/* The answer to version + 0; that to version + 1 differs in one byte. */
static const uint8_t constant_answer[INTEGRITY_SIZE] = {
	0x5c, 0x67, 0xcb, 0x03, 0x1c, 0x18, 0x41, 0x33,
	0xe8, 0xd1, 0x4c, 0x1f, 0xaa, 0x83, 0xd3, 0x8e,
};
#define CONSTANT_ODD_INDEX 7
#define CONSTANT_ODD_BYTE 0x18

struct md2 {
	uint8_t state[48];
	uint8_t checksum[MD2_BLOCK];
	uint8_t last;           /* last byte of the checksum */
	uint8_t pending[MD2_BLOCK];
	size_t used;            /* bytes in pending */
};

static void
md2_mix(struct md2 *md2, const uint8_t block[MD2_BLOCK])
{
	uint8_t t = 0;

	for (unsigned i = 0; i < MD2_BLOCK; i++) {
		md2->state[16 + i] = block[i];
		md2->state[32 + i] = block[i] ^ md2->state[i];
	}
	for (unsigned round = 0; round < 18; round++) {
		for (unsigned i = 0; i < sizeof(md2->state); i++)
			t = md2->state[i] ^= md2_pi[t];
		t += round;
	}
}

static void
md2_block(struct md2 *md2, const uint8_t block[MD2_BLOCK])
{
	for (unsigned i = 0; i < MD2_BLOCK; i++)
		md2->last = md2->checksum[i] ^= md2_pi[block[i] ^ md2->last];
	md2_mix(md2, block);
}

static void
md2_add(struct md2 *md2, const void *data, size_t size)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < size; i++) {
		md2->pending[md2->used++] = bytes[i];
		if (md2->used == MD2_BLOCK) {
			md2_block(md2, md2->pending);
			md2->used = 0;
		}
	}
}

static void
md2_end(struct md2 *md2, uint8_t out_digest[INTEGRITY_SIZE])
{
	uint8_t checksum[MD2_BLOCK];
	uint8_t pad = (uint8_t)(MD2_BLOCK - md2->used);

	for (unsigned i = pad; i > 0; i--)
		md2_add(md2, &pad, 1);
	memcpy(checksum, md2->checksum, sizeof(checksum));
	md2_mix(md2, checksum);
	memcpy(out_digest, md2->state, INTEGRITY_SIZE);
}

void
integrity_md2(const void *data, size_t size,
	      uint8_t out_digest[INTEGRITY_SIZE])
{
	struct md2 md2 = { .used = 0 };

	md2_add(&md2, data, size);
	md2_end(&md2, out_digest);
}

static void
hmac_pad(struct md2 *md2, uint8_t pad)
{
	uint8_t block[MD2_BLOCK];

	for (unsigned i = 0; i < MD2_BLOCK; i++)
		block[i] = hmac_key[i] ^ pad;
	md2_add(md2, block, sizeof(block));
}

static void
add_u32(struct md2 *md2, uint32_t value)
{
	uint8_t bytes[4];

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(value >> 8 * i);
	md2_add(md2, bytes, sizeof(bytes));
}

static void
add_u64(struct md2 *md2, uint64_t value)
{
	add_u32(md2, (uint32_t)value);
	add_u32(md2, (uint32_t)(value >> 32));
}

static void
add_message(struct md2 *md2, const struct integrity_input *input,
	    const struct integrity_device *devices, size_t count)
{
	add_u32(md2, input->driver_version);
	add_u32(md2, input->version);
	add_u32(md2, input->pid);
	add_u32(md2, input->thread);
	add_u64(md2, input->cudart_table);
	add_u64(md2, input->integrity_table);
	add_u64(md2, input->function);
	add_u64(md2, input->unix_seconds);
	for (size_t i = 0; i < count; i++) {
		md2_add(md2, devices[i].uuid, sizeof(devices[i].uuid));
		add_u32(md2, (uint32_t)devices[i].pci_domain);
		add_u32(md2, (uint32_t)devices[i].pci_bus);
		add_u32(md2, (uint32_t)devices[i].pci_device);
	}
}

void
integrity_answer(const struct integrity_input *input,
		 const struct integrity_device *devices, size_t count,
		 uint8_t out_answer[INTEGRITY_SIZE])
{
	struct md2 inner = { .used = 0 }, outer = { .used = 0 };
	uint8_t digest[INTEGRITY_SIZE];

	if (input->version % 10 < 2) {
		memcpy(out_answer, constant_answer, INTEGRITY_SIZE);
		if (input->version % 10 == 1)
			out_answer[CONSTANT_ODD_INDEX] = CONSTANT_ODD_BYTE;
		return;
	}
	hmac_pad(&inner, 0x36);
	add_message(&inner, input, devices, count);
	md2_end(&inner, digest);
	hmac_pad(&outer, 0x5c);
	md2_add(&outer, digest, sizeof(digest));
	md2_end(&outer, out_answer);
}
