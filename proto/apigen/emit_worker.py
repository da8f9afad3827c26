# SPDX-License-Identifier: Apache-2.0
"""The worker's driver table and its dispatch."""

from apigen.cudatypes import BY_VALUE
from apigen.emit_calls import OP_TYPES
from apigen.text import (c_file, c_params, call, declare, header,
                         one_line_prototype, prototype, wrap)

FFI_BY_SIZE = {("1", False): "uint8", ("1", True): "sint8",
               ("2", False): "uint16", ("2", True): "sint16",
               ("4", False): "uint32", ("4", True): "sint32",
               ("8", False): "uint64", ("8", True): "sint64"}


def wkr_driver_h(api):
    members = "\n".join(wrap(f"\tCUresult (*{e.name})(", c_params(e), ");")
                        for e in api.entries)
    return header("wkr_driver.h",
                  "#include <stdbool.h>\n#include <stdint.h>\n\n"
                  '#include "api_cuda.h"\n#include "api_ids.h"',
                  f"#define WKR_DRIVER_FUNCTIONS {len(api.entries)}", f"""
/*
 * The driver library's functions under their exported names. A function that
 * the library lacks answers CUDA_ERROR_NOT_SUPPORTED, as one that an older
 * driver does not know.
 */
struct wkr_driver {{
{members}
	uint64_t present[API_COUNT / 64 + 1];   /* bit id: the library has it */
	unsigned int absent_count;
}};""", """
struct wkr_driver_name {
	const char *name;       /* NULL: no driver function has this id */
	uint32_t offset;        /* of its pointer in struct wkr_driver */
};
extern const struct wkr_driver_name wkr_driver_names[API_COUNT];

/*
 * Fill the process's table from a library that dlopen() returned; it stays
 * the caller's. 0, or -ENOSYS when the library has no cuInit, so is no driver.
 */
int wkr_driver_load(struct wkr_driver *driver, void *dlhandle);
/* The function of id, or NULL for an operation or an unused id. */
void (*wkr_driver_function(const struct wkr_driver *driver,
			   enum api_id id))(void);

/* Around every call of the library, if it has the function: given by whoever
 * uses the table. */
void wkr_driver_begin(enum api_id id);
void wkr_driver_end(void);

static inline bool
wkr_driver_has(const struct wkr_driver *driver, enum api_id id)
{
	return driver->present[id / 64] >> id % 64 & 1;
}""")


def watched(entry):
    """The table's function: the library's, between a begin and an end."""
    return (prototype("static CUresult", f"call_{entry.name}",
                      c_params(entry), ")") + f"""
{{
	CUresult r;

	wkr_driver_begin(API_{entry.name});
""" + call(f"\tr = theirs.{entry.name}(", [p.name for p in entry.params])
            + """
	wkr_driver_end();
	return r;
}""")


def wkr_driver_c(api):
    ours = "\n".join(f"\t[API_{e.name}] = (void (*)(void))call_{e.name},"
                     for e in api.entries)
    rows = "\n".join(f"\t[API_{e.name}] = {{ \"{e.name}\",\n"
                     f"\t\toffsetof(struct wkr_driver, {e.name}) }},"
                     for e in api.entries)
    return c_file('#include "wkr_driver.h"',
                  "#include <dlfcn.h>\n#include <errno.h>\n"
                  "#include <stddef.h>\n#include <string.h>",
                  "const struct wkr_driver_name "
                  "wkr_driver_names[API_COUNT] = {\n"
                  f"{rows}\n}};", """
/* What the library has itself. */
static struct wkr_driver theirs;""", *[watched(e) for e in api.entries],
                  "static void (*const ours[API_COUNT])(void) = {\n"
                  f"{ours}\n}};", """
/*
 * Stands in for every absent function. Called through pointers of other
 * types; both calling conventions let it ignore its arguments.
 */
static CUresult
absent(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}""", """
static void
set_function(struct wkr_driver *driver, enum api_id id, void *symbol)
{
	CUresult (*stand_in)(void) = absent;
	char *slot = (char *)driver + wkr_driver_names[id].offset;

	if (symbol) {
		memcpy((char *)&theirs + wkr_driver_names[id].offset, &symbol,
		       sizeof(symbol));
		memcpy(slot, &ours[id], sizeof(ours[id]));
		driver->present[id / 64] |= UINT64_C(1) << id % 64;
	} else {
		memcpy(slot, &stand_in, sizeof(stand_in));
		driver->absent_count++;
	}
}""", """
int
wkr_driver_load(struct wkr_driver *driver, void *dlhandle)
{
	memset(driver, 0, sizeof(*driver));
	for (unsigned int id = 0; id < API_COUNT; id++)
		if (wkr_driver_names[id].name)
			set_function(driver, id,
				     dlsym(dlhandle,
					   wkr_driver_names[id].name));
	return wkr_driver_has(driver, API_cuInit) ? 0 : -ENOSYS;
}""", """
void
(*wkr_driver_function(const struct wkr_driver *driver, enum api_id id))(void)
{
	void (*function)(void) = NULL;

	if (id < API_COUNT && wkr_driver_names[id].name)
		memcpy(&function,
		       (const char *)driver + wkr_driver_names[id].offset,
		       sizeof(function));
	return function;
}""")


# Dispatch

def typed(entry, param):
    """C parameters of a custom handler, and what its thunk passes for each."""
    arg = f"args[{entry.params.index(param)}]"
    name = param.name
    if param.kind in ("HANDLE", "NEW_HANDLE"):
        return [(f"uint64_t {name}", f"{arg}.value")]
    if param.kind in ("FLOAT", "DOUBLE"):
        ctype = param.kind.lower()
        return [(f"{ctype} {name}", f"as_{ctype}({arg}.value)")]
    if param.kind == "VALUE":
        ctype = value_type(param)
        return [(f"{ctype} {name}", f"({ctype}){arg}.value")]
    if param.kind == "STRING":
        return [(f"const char *{name}", f"{arg}.data")]
    if param.kind == "BYTES":
        return bytes_in(param, arg)
    if param.kind == "OUT_VALUE":
        target = (OP_TYPES[param.ctype.split()[1]] + " *" if entry.is_op
                  else param.ctype)
        return [(declare(target, name), f"{arg}.out")]
    return [(f"void *{name}", f"{arg}.out"),
            (f"size_t *{name}_size", f"&{arg}.out_size")]


def value_type(param):
    """Pointers and structures that travel as a number stay one."""
    if param.ctype.endswith("*") or param.ctype in BY_VALUE:
        return "uint64_t"
    return OP_TYPES.get(param.ctype, param.ctype)


def bytes_in(param, arg):
    if param.count is None:
        return [(declare(param.ctype, param.name), f"{arg}.data")]
    # The length that came with the bytes, not the parameter that claims it.
    return [(f"const void *{param.name}", f"{arg}.data"),
            (f"size_t {param.name}_size", f"{arg}.size")]


def is_length_of_bytes(entry, param):
    """An operation's <name>_size: its handler has it from the bytes."""
    return entry.is_op and any(
        p.kind == "BYTES" and entry.params[p.count] is param
        for p in entry.params)


def handler_params(entry):
    return [pair for param in entry.params
            if not is_length_of_bytes(entry, param)
            for pair in typed(entry, param)]


def custom_prototype(entry):
    params = ["struct wkr_call *call"]
    params += [declared for declared, _ in handler_params(entry)]
    return one_line_prototype("CUresult", f"wkr_{entry.name}", params)


def thunk(entry):
    passed = ["call"] + [value for _, value in handler_params(entry)]
    unused = "" if entry.params else " UNUSED"
    return (f"static CUresult\nrun_{entry.name}(struct wkr_call *call, "
            f"enum api_id id UNUSED,\n\tstruct wire_arg *args{unused})\n{{\n"
            + call(f"\treturn wkr_{entry.name}(", passed) + "\n}")


def wkr_dispatch_h(api):
    protos = [custom_prototype(e) for e in api.all if e.has_custom_handler]
    return header("wkr_dispatch.h",
                  "#include <ffi.h>\n#include <stddef.h>\n"
                  "#include <stdint.h>\n\n"
                  '#include "api_cuda.h"\n#include "api_ids.h"\n'
                  '#include "proto/marshal.h"', """
/* What one call is about: its client and stream. Owned by server/worker. */
struct wkr_call;""", """
/* Which thread may run a call. */
enum wkr_thread {
	WKR_ON_LANE,    /* neither waits for nor stalls other clients */
	WKR_ON_REAPER,  /* may wait */
	WKR_ON_GATE,    /* loads code */
};

/* Argument types of a driver function for ffi_prep_cif(); all return int. */
struct wkr_ffi {
	unsigned int nargs;
	ffi_type **types;
};

struct wkr_handler {
	/* NULL: never on the wire, refuse it. */
	CUresult (*run)(struct wkr_call *call, enum api_id id,
			struct wire_arg *args);
	enum wkr_thread thread;
	const struct wkr_ffi *ffi;      /* of wkr_generic, else NULL */
};

extern const struct wkr_handler wkr_handlers[API_COUNT];

/* Handwritten: replay through libffi, handles of the client translated. */
CUresult wkr_generic(struct wkr_call *call, enum api_id id,
		     struct wire_arg *args);""", """
/*
 * Handwritten, by operation. Arguments are checked against the signature and
 * belong to the frame; handles are the client's. Results start zeroed; bytes
 * that come back start with their capacity as size.
 */
""" + "\n".join(protos))


def ffi_type(param):
    if param.kind in ("FLOAT", "DOUBLE"):
        return "ffi_type_" + param.kind.lower()
    if param.kind == "VALUE" and not param.ctype.endswith("*"):
        return "ffi_type_" + FFI_BY_SIZE[param.size, param.signed]
    return "ffi_type_pointer"


def generic_ffi(entry):
    types = "NULL"
    text = ""
    if entry.params:
        types = f"types_{entry.name}"
        pieces = [f"&{ffi_type(p)}" for p in entry.params]
        text = call(f"static ffi_type *{types}[] = {{\n\t", pieces,
                    "\n};") + "\n"
    return (f"{text}static const struct wkr_ffi ffi_{entry.name} = {{\n"
            f"\t{len(entry.params)}, {types}\n}};")


def wkr_dispatch_c(api):
    wired = [e for e in api.all if e.on_wire]
    custom = [e for e in wired if e.has_custom_handler]
    generic = [e for e in wired if not e.has_custom_handler]
    rows = []
    for entry in wired:
        run, ffi = f"run_{entry.name}", "NULL"
        if entry in generic:
            run, ffi = "wkr_generic", f"&ffi_{entry.name}"
        rows.append(f"\t[API_{entry.name}] = {{ {run},\n"
                    f"\t\tWKR_ON_{entry.on.upper()}, {ffi} }},")
    kinds = {p.kind for e in custom for p in e.params}
    return c_file('#include "wkr_dispatch.h"',
                  "#include <string.h>" if kinds & {"FLOAT", "DOUBLE"}
                  else "",
                  "#define UNUSED __attribute__((unused))" if custom else "",
                  AS_FLOAT if "FLOAT" in kinds else "",
                  AS_DOUBLE if "DOUBLE" in kinds else "",
                  *[thunk(e) for e in custom],
                  *[generic_ffi(e) for e in generic],
                  "const struct wkr_handler wkr_handlers[API_COUNT] = {\n"
                  + "\n".join(rows) + "\n};")


AS_FLOAT = """
static float
as_float(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float value;

	memcpy(&value, &low, sizeof(value));
	return value;
}"""
AS_DOUBLE = """
static double
as_double(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}"""


def files(api):
    return {"wkr_driver.h": wkr_driver_h(api),
            "wkr_driver.c": wkr_driver_c(api),
            "wkr_dispatch.h": wkr_dispatch_h(api),
            "wkr_dispatch.c": wkr_dispatch_c(api)}
