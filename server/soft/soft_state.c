/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process state of the software device: options, initialisation, poison.
 */
#include "server/soft/soft.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/soft/soft_ctx.h"
#include "server/soft/soft_ledger.h"
#include "server/soft/soft_sched.h"

struct soft_state soft;
__thread struct soft_thread soft_self;

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

struct fault_rule {
	uint64_t ordinal;          /* N-th grid, 0: by name */
	char kernel[128];
	CUresult code;
};

static struct fault_rule fault_rules[16];
static unsigned fault_rule_count;
static _Atomic uint64_t grids_started;

static const struct {
	const char *word;
	unsigned bits;
} relax_words[] = {
	{ "all", ~0u },
	{ "free", SOFT_RELAX_FREE },
	{ "green", SOFT_RELAX_GREEN },
	{ "hol", SOFT_RELAX_HOL },
	{ "limit", SOFT_RELAX_LIMIT },
	{ "load", SOFT_RELAX_LOAD },
	{ "local", SOFT_RELAX_LOCAL },
	{ "queue", SOFT_RELAX_QUEUE },
	{ "stall", SOFT_RELAX_STALL },
	{ "unload", SOFT_RELAX_UNLOAD },
};

uint64_t
soft_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t
soft_new_id(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add(&last, 1) + 1;
}

void
soft_log(const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "libsoftcuda: %s\n", line);
}

static unsigned long
option_number(const char *name, unsigned long fallback, unsigned long low,
	      unsigned long high)
{
	const char *text = getenv(name);
	char *end;
	unsigned long value;

	if (!text || !*text)
		return fallback;
	value = strtoul(text, &end, 10);
	if (*end || value < low || value > high) {
		soft_log("%s=%s ignored: not a number from %lu to %lu", name,
			 text, low, high);
		return fallback;
	}
	return value;
}

static size_t
option_bytes(const char *name, size_t fallback)
{
	const char *text = getenv(name);
	char *end;
	unsigned long long value;
	unsigned shift = 0;

	if (!text || !*text)
		return fallback;
	value = strtoull(text, &end, 10);
	switch (*end) {
	case 'K': case 'k': shift = 10; end++; break;
	case 'M': case 'm': shift = 20; end++; break;
	case 'G': case 'g': shift = 30; end++; break;
	}
	if (*end || !value || value > (1ull << 46) >> shift) {
		soft_log("%s=%s ignored: not a size", name, text);
		return fallback;
	}
	return (size_t)(value << shift);
}

static void
relax_word(const char *word)
{
	for (size_t i = 0; i < sizeof(relax_words) / sizeof(*relax_words); i++)
		if (!strcmp(word, relax_words[i].word)) {
			soft.relax |= relax_words[i].bits;
			return;
		}
	soft_log("SOFTCUDA_RELAX: unknown word %s", word);
}

static void
fault_word(const char *word)
{
	struct fault_rule rule = { 0 };
	unsigned long long n;
	unsigned code;

	if (sscanf(word, "init=%u", &code) == 1) {
		soft.init_fault = (CUresult)code;
		return;
	}
	if (sscanf(word, "alloc:%llu", &n) == 1) {
		soft.alloc_fault = n;
		return;
	}
	if (!strcmp(word, "wild")) {
		soft.wild = true;
		return;
	}
	if (sscanf(word, "load:%63s", soft.load_fault) == 1 ||
	    sscanf(word, "use:%63s", soft.use_fault) == 1)
		return;
	if (sscanf(word, "launch:%llu=%u", &n, &code) == 2 && n)
		rule.ordinal = n;
	else if (sscanf(word, "kernel:%127[^=]=%u", rule.kernel, &code) != 2)
		code = 0;
	rule.code = (CUresult)code;
	if (!code || fault_rule_count ==
	    sizeof(fault_rules) / sizeof(*fault_rules)) {
		soft_log("SOFTCUDA_FAULT: cannot use %s", word);
		return;
	}
	fault_rules[fault_rule_count++] = rule;
}

static void
each_word(const char *name, void (*use)(const char *word))
{
	const char *text = getenv(name);
	char copy[1024], *save = NULL;

	if (!text)
		return;
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *word = strtok_r(copy, ", ", &save); word;
	     word = strtok_r(NULL, ", ", &save))
		use(word);
}

void
soft_follow(bool good)
{
	if (soft.wild && !good)
		raise(SIGSEGV);
}

CUresult
soft_fault_for_grid(const char *kernel)
{
	uint64_t n = atomic_fetch_add(&grids_started, 1) + 1;

	for (unsigned i = 0; i < fault_rule_count; i++) {
		const struct fault_rule *rule = &fault_rules[i];

		if (rule->ordinal ? rule->ordinal == n :
		    !strcmp(rule->kernel, kernel))
			return rule->code;
	}
	return CUDA_SUCCESS;
}

bool
soft_relaxed(enum soft_relax what)
{
	return soft.relax & what;
}

static void
device_init(struct soft_device *dev, int ordinal)
{
	const char *name = getenv("SOFTCUDA_NAME");
	const char *cc = getenv("SOFTCUDA_CC");
	/* "mpsshim" and the ordinal: the same in every process. */
	static const unsigned char uuid[16] = {
		'm', 'p', 's', 's', 'h', 'i', 0x4d, 0x90,
		0x80, 'm', 's', 'o', 'f', 't', 0, 0,
	};

	dev->ordinal = ordinal;
	snprintf(dev->name, sizeof(dev->name), "%s",
		 name && *name ? name : "mpsshim software device");
	memcpy(dev->uuid.bytes, uuid, sizeof(uuid));
	dev->uuid.bytes[15] = (char)(ordinal + 1);
	dev->sms = (int)option_number("SOFTCUDA_SMS", 8, 1, SOFT_SMS_MAX);
	dev->memory_total = option_bytes("SOFTCUDA_MEMORY", (size_t)4 << 30);
	dev->context_bytes = option_bytes("SOFTCUDA_CONTEXT", 0);
	dev->major = 9;
	dev->minor = 0;
	if (cc && *cc && (sscanf(cc, "%d.%d", &dev->major, &dev->minor) != 2 ||
			  dev->major < 5 || dev->major > 9 || dev->minor < 0 ||
			  dev->minor > 9)) {
		soft_log("SOFTCUDA_CC=%s ignored: not 5.0 to 9.0", cc);
		dev->major = 9;
		dev->minor = 0;
	}
}

void
soft_options_read(void)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned long cores = online < 2 ? 2 : (unsigned long)online;

	each_word("SOFTCUDA_RELAX", relax_word);
	each_word("SOFTCUDA_FAULT", fault_word);
	soft.device_count = (int)option_number("SOFTCUDA_DEVICES", 1, 0,
					       SOFT_DEVICES_MAX);
	soft.threads = (unsigned)option_number("SOFTCUDA_THREADS", cores, 1,
					       256);
	soft.queues = (unsigned)option_number("CUDA_DEVICE_MAX_CONNECTIONS",
					      8, 1, 32);
}

static CUresult
init_once(void)
{
	const char *account = getenv("SOFTCUDA_ACCOUNT");

	if (soft.initialised)
		return CUDA_SUCCESS;
	soft_options_read();
	if (soft.init_fault)
		return soft.init_fault;
	if (!soft.device_count)
		return CUDA_ERROR_NO_DEVICE;
	for (int i = 0; i < soft.device_count; i++)
		device_init(&soft.devices[i], i);
	if (!soft_ledger_join(account ? account : "",
			      soft.devices[0].memory_total))
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 0; i < soft.device_count; i++) {
		struct soft_device *dev = &soft.devices[i];

		dev->primary = soft_ctx_new(dev, 0, true);
		if (!dev->primary)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	soft.pid = getpid();
	atomic_store(&soft.initialised, 1);
	return CUDA_SUCCESS;
}

CUresult
cuInit(unsigned int flags)
{
	CUresult res;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (soft.initialised && soft.pid != getpid())
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&init_lock);
	res = init_once();
	pthread_mutex_unlock(&init_lock);
	return res;
}

CUresult
soft_enter(void)
{
	if (!atomic_load(&soft.initialised) || soft.pid != getpid())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (soft_self.in_callback)
		return CUDA_ERROR_NOT_PERMITTED;
	return CUDA_SUCCESS;
}

CUresult
soft_enter_live(void)
{
	CUresult res = soft_enter();

	return res ? res : soft_poisoned();
}

CUresult
soft_enter_ctx(struct soft_ctx **out_ctx)
{
	CUresult res = soft_enter_live();
	struct soft_ctx *ctx;

	if (res)
		return res;
	if (!soft_self.depth || !soft_self.stack[soft_self.depth - 1])
		return CUDA_ERROR_INVALID_CONTEXT;
	ctx = soft_self.stack[soft_self.depth - 1];
	if (!atomic_load(&ctx->alive))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*out_ctx = ctx;
	return CUDA_SUCCESS;
}

struct soft_device *
soft_device_get(CUdevice dev)
{
	if (dev < 0 || dev >= soft.device_count)
		return NULL;
	return &soft.devices[dev];
}

CUresult
soft_poisoned(void)
{
	return (CUresult)atomic_load(&soft.poison);
}

void
soft_poison(CUresult code)
{
	int none = 0;

	atomic_compare_exchange_strong(&soft.poison, &none, (int)code);
	soft_sched_wake_all();
}
