/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/err.h"

struct setting {
	const char *name;
	unsigned readers;
	/* Which values: one of these, or a list of them. */
	const char *const *words;
	bool list;
	/* Or a number. */
	uint64_t low, high;
	/* Or what this accepts. */
	bool (*good)(const char *text);
	const char *takes; /* in words */
};

static const char *const perf_words[] = {
	"no_ring", "no_post", "no_cache", "no_pin", "no_share", "no_word",
	"no_swap", "no_line", "no_backlog", NULL,
};
static const char *const no_broker_words[] = {
	"start", "native", "error", NULL,
};
static const char *const switch_words[] = { "0", "1", NULL };
static const char *const levels[] = { "error", "warn", "info", "debug", NULL };

static bool
is_one_of(const char *const *words, const char *text, size_t size)
{
	for (; *words; words++)
		if (strlen(*words) == size && !memcmp(*words, text, size))
			return true;
	return false;
}

static bool
is_list_of(const char *const *words, const char *text)
{
	while (*text) {
		size_t size = strcspn(text, ",");

		if (size && !is_one_of(words, text, size))
			return false;
		text += size + (text[size] == ',');
	}
	return true;
}

static bool
is_number(const char *text, uint64_t low, uint64_t high, const char **out_end)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	*out_end = end;
	return *text >= '0' && *text <= '9' && !errno && value >= low &&
	       value <= high;
}

static bool
is_size(const char *text)
{
	const char *end;

	if (!is_number(text, 1, UINT64_C(1) << 46, &end))
		return false;
	return !*end || (strchr("KkMmGg", *end) && !end[1]);
}

static bool
is_capability(const char *text)
{
	return text[0] >= '5' && text[0] <= '9' && text[1] == '.' &&
	       text[2] >= '0' && text[2] <= '9' && !text[3];
}

/* A whole number of 2 MiB, as the driver maps memory. */
static bool
is_windows_number(const char **text, uint64_t *out)
{
	static const char units[] = "KMGT";
	const char *unit;
	unsigned shift;
	char *end;

	errno = 0;
	*out = strtoull(*text, &end, 0);
	if (end == *text || errno || **text == '-')
		return false;
	unit = *end ? strchr(units, *end) : NULL;
	shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
	*text = end + (unit != NULL);
	if (*out >> (63 - shift))
		return false;
	*out <<= shift;
	return *out && *out % (UINT64_C(2) << 20) == 0;
}

/* BASE:SIZE,… of which the worker makes two parts, of 3 to 1. */
static bool
is_windows(const char *text)
{
	uint64_t base, size;

	do {
		if (!is_windows_number(&text, &base) || *text++ != ':' ||
		    !is_windows_number(&text, &size) ||
		    size < UINT64_C(8) << 20)
			return false;
	} while (*text == ',' && *++text);
	return !*text;
}

/* LEVEL, LEVEL:FILE or :FILE; whoever cannot write there would say nothing. */
static bool
is_log(const char *text)
{
	size_t size = strcspn(text, ":");
	_cleanup_close_ int fd = -1;

	if (size && !is_one_of(levels, text, size))
		return false;
	if (!text[size] || !text[size + 1])
		return true;
	fd = open(text + size + 1, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC |
		  O_NOCTTY, 0600);
	/* Of descriptors there may be more at another time. */
	return fd >= 0 || errno == EMFILE || errno == ENFILE;
}

static const struct setting settings[] = {
	{ "MPSSHIM_PERF", SETTINGS_SHIM | SETTINGS_BROKER, .words = perf_words,
	  .list = true, .takes = "a list of no_ring, no_post, no_cache, "
	  "no_pin, no_share, no_word, no_swap, "
	  "no_line, no_backlog" },
	{ "MPSSHIM_NO_BROKER", SETTINGS_SHIM, .words = no_broker_words,
	  .takes = "start, native or error" },
	{ "MPSSHIM_LOG", SETTINGS_SHIM | SETTINGS_BROKER, .good = is_log,
	  .takes = "error, warn, info or debug, and :FILE, a file that can be "
	  "written" },
	{ "MPSSHIM_LOG_MB", SETTINGS_SHIM | SETTINGS_BROKER,
	  .high = UINT64_C(1) << 20, .takes = "a number of MiB; 0: no bound" },
	{ "MPSSHIM_SOLO", SETTINGS_SHIM, .words = switch_words,
	  .takes = "0 or 1" },
	{ "MPSSHIM_SYNC_FREE", SETTINGS_SHIM, .words = switch_words,
	  .takes = "0 or 1" },
	{ "MPSSHIM_WAIT_WARN_S", SETTINGS_SHIM, .high = UINT64_C(1) << 20,
	  .takes = "a number of seconds; 0: never" },
	{ "MPSSHIM_IDLE_S", SETTINGS_SHIM, .high = UINT64_C(1) << 30,
	  .takes = "a number of seconds" },
	{ "MPSSHIM_HANDOVER_S", SETTINGS_BROKER, .high = UINT64_C(1) << 20,
	  .takes = "a number of seconds; 0: never" },
	{ "MPSSHIM_SOLO_MAX", SETTINGS_BROKER, .high = 4096,
	  .takes = "a number of programs" },
	{ "MPSSHIM_BALLAST_MB", SETTINGS_BROKER, .high = UINT64_C(1) << 20,
	  .takes = "a number of MiB" },
	{ "MPSSHIM_OVERLAP", SETTINGS_BROKER, .words = switch_words,
	  .takes = "0 or 1" },
	{ "MPSSHIM_LANES", SETTINGS_BROKER, .low = 1, .high = 64,
	  .takes = "a number from 1 to 64" },
	{ "MPSSHIM_WINDOWS", SETTINGS_BROKER, .good = is_windows,
	  .takes = "BASE:SIZE,..., multiples of 2 MiB, as 0x7e8000000000:256G" },
	{ "SOFTCUDA_DEVICES", SETTINGS_SOFT, .high = 16,
	  .takes = "a number up to 16" },
	{ "SOFTCUDA_SMS", SETTINGS_SOFT, .low = 1, .high = 1024,
	  .takes = "a number from 1 to 1024" },
	{ "SOFTCUDA_THREADS", SETTINGS_SOFT, .low = 1, .high = 256,
	  .takes = "a number from 1 to 256" },
	{ "SOFTCUDA_MEMORY", SETTINGS_SOFT, .good = is_size,
	  .takes = "a size, as 512M or 4G" },
	{ "SOFTCUDA_CONTEXT", SETTINGS_SOFT, .good = is_size,
	  .takes = "a size, as 512M" },
	{ "SOFTCUDA_CC", SETTINGS_SOFT, .good = is_capability,
	  .takes = "a compute capability from 5.0 to 9.9" },
};

static bool
accepts(const struct setting *s, const char *text)
{
	const char *end;

	if (s->good)
		return s->good(text);
	if (s->words)
		return s->list ? is_list_of(s->words, text)
			       : is_one_of(s->words, text, strlen(text));
	return is_number(text, s->low, s->high, &end) && !*end;
}

bool
settings_good(unsigned readers, char *why, size_t size)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
		const struct setting *s = &settings[i];
		const char *text = s->readers & readers ? getenv(s->name) :
							  NULL;

		if (!text || !*text || accepts(s, text))
			continue;
		snprintf(why, size, "%s=%.80s: it takes %s", s->name, text,
			 s->takes);
		return false;
	}
	return true;
}

bool
settings_of_start(const char *entry, bool software)
{
	size_t size = strcspn(entry, "=");

	if (!strncmp(entry, "SOFTCUDA_", 9))
		return software;
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		if (strlen(settings[i].name) == size &&
		    !memcmp(settings[i].name, entry, size))
			return settings[i].readers == SETTINGS_BROKER;
	return false;
}
