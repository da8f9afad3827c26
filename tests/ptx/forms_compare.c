/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ptx/forms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int
mantissa_bits(const struct form_type *type, unsigned bits)
{
	if (type->kind == 'b')
		return 7;
	return bits == 16 ? 10 : bits == 32 ? 23 : 52;
}

static bool
is_nan(const struct form_type *type, unsigned bits, uint64_t v)
{
	int man = mantissa_bits(type, bits);
	uint64_t magnitude = v & ~(UINT64_C(1) << (bits - 1));
	uint64_t infinity = (magnitude >> man) + 1;

	return infinity == UINT64_C(1) << (bits - 1 - man) &&
	       (magnitude & ((UINT64_C(1) << man) - 1));
}

/* A count of representable values up from the most negative one. */
static int64_t
rank(unsigned bits, uint64_t v)
{
	uint64_t top = UINT64_C(1) << (bits - 1);

	return v & top ? -(int64_t)(v & ~top) : (int64_t)v;
}

static double
value(const struct form_type *type, unsigned bits, uint64_t v)
{
	int man = mantissa_bits(type, bits);
	int exp = (int)(v >> man & ((UINT64_C(1) << (bits - 1 - man)) - 1));
	int bias = (1 << (bits - 2 - (unsigned)man)) - 1;
	double m = (double)(v & ((UINT64_C(1) << man) - 1));

	if (exp)
		m += ldexp(1, man);
	m = ldexp(m, (exp ? exp : 1) - bias - man);
	if (exp == 2 * bias + 1)
		m = INFINITY;
	return v >> (bits - 1) & 1 ? -m : m;
}

/* The number after a word of the class column, or -1. */
static double
class_limit(const char *cls, const char *word)
{
	const char *at = strstr(cls, word);

	return at ? strtod(at + strlen(word), NULL) : -1;
}

static bool
lane_equal(const struct form *form, const struct form_type *type,
	   unsigned bits, uint64_t got, uint64_t want)
{
	double ulp = class_limit(form->cls, "ulp ");
	double absolute = class_limit(form->cls, "abs ");
	bool nan = is_nan(type, bits, want);

	if (got == want || nan || is_nan(type, bits, got))
		return nan == is_nan(type, bits, got);
	if (ulp >= 0 &&
	    fabs((double)rank(bits, got) - (double)rank(bits, want)) <= ulp)
		return true;
	return absolute >= 0 &&
	       fabs(value(type, bits, got) - value(type, bits, want)) <=
		       absolute;
}

bool
form_word_equal(const struct form *form, unsigned k, uint64_t got,
		uint64_t want)
{
	const struct form_type *type = form->out[k];
	unsigned bits = type->bits / type->lanes, lane;
	uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;

	if (got == want || !strcmp(form->cls, "exact"))
		return got == want;
	if (type->kind != 'f' && type->kind != 'b')
		return false;
	for (lane = 0; lane < type->lanes; lane++) {
		if (!lane_equal(form, type, bits,
				got >> lane * bits & mask,
				want >> lane * bits & mask))
			return false;
	}
	return true;
}
