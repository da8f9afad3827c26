/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/sha256.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

/* FIPS 180-4, section 4.2.2. */
static const uint32_t sha256_k[64] __attribute__((aligned(16))) = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t
ror(uint32_t value, unsigned int n)
{
	return value >> n | value << (32 - n);
}

static void
sha256_schedule(uint32_t w[64], const uint8_t *data)
{
	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)data[4 * i] << 24 |
		       (uint32_t)data[4 * i + 1] << 16 |
		       (uint32_t)data[4 * i + 2] << 8 | data[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + (ror(a, 7) ^ ror(a, 18) ^ a >> 3) +
		       w[i - 7] + (ror(b, 17) ^ ror(b, 19) ^ b >> 10);
	}
}

void
sha256_soft(uint32_t state[8], const uint8_t *data, size_t nblocks)
{
	uint32_t w[64], s[8];

	for (; nblocks; nblocks--, data += SHA256_BLOCK) {
		sha256_schedule(w, data);
		memcpy(s, state, sizeof(s));
		for (int i = 0; i < 64; i++) {
			uint32_t t1, t2;

			t1 = s[7] + (ror(s[4], 6) ^ ror(s[4], 11) ^ ror(s[4], 25)) +
			     ((s[4] & s[5]) ^ (~s[4] & s[6])) + sha256_k[i] + w[i];
			t2 = (ror(s[0], 2) ^ ror(s[0], 13) ^ ror(s[0], 22)) +
			     ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
			memmove(s + 1, s, 7 * sizeof(*s));
			s[4] += t1;
			s[0] = t1 + t2;
		}
		for (int i = 0; i < 8; i++)
			state[i] += s[i];
	}
}

#if defined(__x86_64__)
/*
 * The SHA extensions: 8 to 10 times faster, which a start of PyTorch feels
 * (it loads a gigabyte of images). Each step does four rounds on the state
 * halves ABEF and CDGH; m[] is the window of the last 16 schedule words.
 */
__attribute__((target("sha,sse4.1,ssse3"))) static void
sha256_shani(uint32_t state[8], const uint8_t *data, size_t nblocks)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL,
					    0x0405060700010203LL);
	__m128i abef, cdgh, t;

	t = _mm_shuffle_epi32(_mm_loadu_si128((const void *)state), 0xb1);
	cdgh = _mm_shuffle_epi32(_mm_loadu_si128((const void *)(state + 4)),
				 0x1b);
	abef = _mm_alignr_epi8(t, cdgh, 8);
	cdgh = _mm_blend_epi16(cdgh, t, 0xf0);
	for (; nblocks; nblocks--, data += SHA256_BLOCK) {
		__m128i m[4], abef0 = abef, cdgh0 = cdgh;

		for (int i = 0; i < 4; i++)
			m[i] = _mm_shuffle_epi8(
				_mm_loadu_si128((const void *)(data + 16 * i)),
				swap);
		for (int i = 0; i < 16; i++) {
			__m128i w = m[i & 3], k;

			k = _mm_load_si128((const void *)(sha256_k + 4 * i));
			k = _mm_add_epi32(k, w);
			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
			k = _mm_shuffle_epi32(k, 0x0e);
			abef = _mm_sha256rnds2_epu32(abef, cdgh, k);
			/* Words 4i+16 … 4i+19 take the place of 4i … 4i+3. */
			w = _mm_sha256msg1_epu32(w, m[(i + 1) & 3]);
			w = _mm_add_epi32(w, _mm_alignr_epi8(m[(i + 3) & 3],
							     m[(i + 2) & 3], 4));
			m[i & 3] = _mm_sha256msg2_epu32(w, m[(i + 3) & 3]);
		}
		abef = _mm_add_epi32(abef, abef0);
		cdgh = _mm_add_epi32(cdgh, cdgh0);
	}
	t = _mm_shuffle_epi32(abef, 0x1b);
	cdgh = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((void *)state, _mm_blend_epi16(t, cdgh, 0xf0));
	_mm_storeu_si128((void *)(state + 4), _mm_alignr_epi8(cdgh, t, 8));
}

static bool
sha256_has_shani(void)
{
	unsigned int a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) ||
	    !(c & bit_SSSE3))
		return false;
	/* Leaf 7, EBX bit 29: the SHA extensions. */
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29);
}
#endif

sha256_blocks_fn *
sha256_hard(void)
{
#if defined(__x86_64__)
	if (sha256_has_shani())
		return sha256_shani;
#endif
	return NULL;
}

static void
sha256_blocks(uint32_t state[8], const uint8_t *data, size_t nblocks)
{
	/* Two threads may both ask the processor: they find the same. */
	static _Atomic(sha256_blocks_fn *) chosen;
	sha256_blocks_fn *fn = __atomic_load_n((sha256_blocks_fn **)&chosen,
					       __ATOMIC_RELAXED);

	if (!fn) {
		fn = sha256_hard();
		if (!fn)
			fn = sha256_soft;
		__atomic_store_n((sha256_blocks_fn **)&chosen, fn,
				 __ATOMIC_RELAXED);
	}
	fn(state, data, nblocks);
}

void
sha256_init(struct sha256 *sha)
{
	static const uint32_t start[8] = {
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	};

	memcpy(sha->state, start, sizeof(start));
	sha->bytes = 0;
}

void
sha256_update(struct sha256 *sha, const void *data, size_t size)
{
	size_t held = sha->bytes % SHA256_BLOCK, part;
	const uint8_t *p = data;

	sha->bytes += size;
	if (held) {
		part = SHA256_BLOCK - held < size ? SHA256_BLOCK - held : size;
		memcpy(sha->tail + held, p, part);
		p += part;
		size -= part;
		if (held + part < SHA256_BLOCK)
			return;
		sha256_blocks(sha->state, sha->tail, 1);
	}
	sha256_blocks(sha->state, p, size / SHA256_BLOCK);
	part = size % SHA256_BLOCK;
	if (part)
		memcpy(sha->tail, p + size - part, part);
}

void
sha256_final(struct sha256 *sha, uint8_t out_hash[SHA256_SIZE])
{
	static const uint8_t pad[SHA256_BLOCK] = { 0x80 };
	uint64_t bits = sha->bytes * 8;
	size_t held = sha->bytes % SHA256_BLOCK;
	uint8_t length[8];

	for (int i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_update(sha, pad, (held < 56 ? 56 : 120) - held);
	sha256_update(sha, length, sizeof(length));
	for (int i = 0; i < 32; i++)
		out_hash[i] = (uint8_t)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}
