/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hostile/mutate.h"

#include <string.h>

#include "proto/frame.h"

uint64_t
dice_roll(struct dice *dice)
{
	uint64_t x = dice->state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint64_t
dice_below(struct dice *dice, uint64_t n)
{
	return dice_roll(dice) % n;
}

static const uint64_t edges[] = {
	0, 1, 2, 7, 8, 31, 32, 33, 63, 64, 127, 128, 255, 256, 4095, 4096,
	0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff,
	0x100000000, 0x7fffffffffff, 0x800000000000, 0x7fffffffffffffff,
	0x8000000000000000, 0xffffffffffffffff, 0xfffffffffffffff8,
};

/* A little-endian number of 1 to 8 bytes somewhere. */
static void
set_number(struct dice *dice, uint8_t *bytes, size_t size)
{
	uint64_t value = edges[dice_below(dice, sizeof(edges) /
						sizeof(edges[0]))];
	size_t width = (size_t)1 << dice_below(dice, 4);

	if (size < width)
		width = 1;
	memcpy(bytes + dice_below(dice, size - width + 1), &value, width);
}

static size_t
cut_out(struct dice *dice, uint8_t *bytes, size_t size)
{
	size_t at = dice_below(dice, size);
	size_t n = 1 + dice_below(dice, size - at < 16 ? size - at : 16);

	memmove(bytes + at, bytes + at + n, size - at - n);
	return size - n;
}

static size_t
double_up(struct dice *dice, uint8_t *bytes, size_t size, size_t cap)
{
	size_t at = dice_below(dice, size);
	size_t n = 1 + dice_below(dice, size - at < 64 ? size - at : 64);

	if (size + n > cap)
		return size;
	memmove(bytes + at + n, bytes + at, size - at);
	return size + n;
}

static void
swap_pieces(struct dice *dice, uint8_t *bytes, size_t size)
{
	size_t n = 1 + dice_below(dice, size < 16 ? size : 8);
	size_t a = dice_below(dice, size - n + 1);
	size_t b = dice_below(dice, size - n + 1);
	uint8_t kept[16];

	memcpy(kept, bytes + a, n);
	memmove(bytes + a, bytes + b, n);
	memcpy(bytes + b, kept, n);
}

static size_t
lengthen(struct dice *dice, uint8_t *bytes, size_t size, size_t cap)
{
	size_t n = 1 + dice_below(dice, 64);

	if (size + n > cap)
		return size;
	for (size_t i = 0; i < n; i++)
		bytes[size + i] = (uint8_t)dice_roll(dice);
	return size + n;
}

static size_t
change_once(struct dice *dice, uint8_t *bytes, size_t size, size_t cap)
{
	if (!size)
		return lengthen(dice, bytes, size, cap);
	switch (dice_below(dice, 16)) {
	case 0:
		return cut_out(dice, bytes, size);
	case 1:
		return double_up(dice, bytes, size, cap);
	case 2:
		swap_pieces(dice, bytes, size);
		return size;
	case 3:
		return dice_below(dice, size);
	case 4:
		return lengthen(dice, bytes, size, cap);
	case 5:
	case 6:
	case 7:
	case 8:
		set_number(dice, bytes, size);
		return size;
	case 9:
	case 10:
		bytes[dice_below(dice, size)] = (uint8_t)dice_roll(dice);
		return size;
	default:
		bytes[dice_below(dice, size)] ^=
			(uint8_t)(1u << dice_below(dice, 8));
		return size;
	}
}

size_t
mutate_bytes(struct dice *dice, uint8_t *bytes, size_t size, size_t cap)
{
	/* One change mostly: it gets past the first check more often. */
	uint64_t n = dice_below(dice, 4) ? 1 : 1 + dice_below(dice, 6);

	while (n--)
		size = change_once(dice, bytes, size, cap);
	return size;
}

size_t
mutate_frame(struct dice *dice, uint8_t *frame, size_t size, size_t cap)
{
	struct frame_header header;
	const size_t head = sizeof(header);

	if (size < head || !dice_below(dice, 32))
		return mutate_bytes(dice, frame, size, cap);
	memcpy(&header, frame, head);
	if (!dice_below(dice, 16)) {
		if (dice_below(dice, 2))
			header.type = (uint8_t)dice_below(dice, 8);
		else
			header.lane ^= 1;
		memcpy(frame, &header, head);
		return size;
	}
	size = head + mutate_bytes(dice, frame + head, size - head, cap - head);
	header.size = (uint32_t)(size - head);
	memcpy(frame, &header, head);
	return size;
}
