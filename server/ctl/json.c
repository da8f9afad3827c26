/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any message as JSON, by its protobuf-c descriptor: a field that is added
 * to proto/wire.proto appears here by itself, and keys cannot drift.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "server/ctl/ctl.h"

static void print_message(const ProtobufCMessage *message, int depth);

/* Bytes of the well-formed UTF-8 sequence at p; 0: it is none. */
static unsigned int
utf8_size(const unsigned char *p)
{
	unsigned int n = *p < 0x80 ? 1 : *p >= 0xc2 && *p < 0xe0 ? 2 :
		*p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;

	for (unsigned int i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates and what lies above U+10FFFF. */
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] >= 0xa0) ||
	    (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] >= 0x90))
		return 0;
	return n;
}

static void
print_string(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	putchar('"');
	while (*p) {
		unsigned int n = utf8_size(p);

		if (*p < ' ' || !n) {
			printf("\\u%04x", n ? *p : 0xfffd);
			p++;
			continue;
		}
		if (*p == '"' || *p == '\\')
			putchar('\\');
		while (n--)
			putchar(*p++);
	}
	putchar('"');
}

static void
indent(int depth)
{
	for (int i = 0; i < depth; i++)
		fputs("  ", stdout);
}

static void
print_value(const ProtobufCFieldDescriptor *field, const void *value,
	    int depth)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
		printf("%" PRId32, *(const int32_t *)value);
		break;
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		printf("%" PRIu32, *(const uint32_t *)value);
		break;
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		printf("%" PRIu64, *(const uint64_t *)value);
		break;
	case PROTOBUF_C_TYPE_BOOL:
		fputs(*(const protobuf_c_boolean *)value ? "true" : "false",
		      stdout);
		break;
	case PROTOBUF_C_TYPE_STRING:
		print_string(*(char *const *)value);
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		print_message(*(ProtobufCMessage *const *)value, depth);
		break;
	default:
		assert(!"a field type that StatusReply does not use");
	}
}

static void
print_list(const ProtobufCFieldDescriptor *field,
	   const ProtobufCMessage *message, int depth)
{
	const char *at = (const char *)message;
	size_t n = *(const size_t *)(at + field->quantifier_offset);
	void *const *items = *(void *const *const *)(at + field->offset);

	putchar('[');
	/* All lists of a StatusReply are of messages. */
	assert(field->type == PROTOBUF_C_TYPE_MESSAGE);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? ",\n" : "\n", stdout);
		indent(depth + 1);
		print_value(field, &items[i], depth + 1);
	}
	if (n) {
		putchar('\n');
		indent(depth);
	}
	putchar(']');
}

static void
print_message(const ProtobufCMessage *message, int depth)
{
	const ProtobufCMessageDescriptor *type = message->descriptor;

	putchar('{');
	for (unsigned int i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i];

		fputs(i ? ",\n" : "\n", stdout);
		indent(depth + 1);
		printf("\"%s\": ", field->name);
		if (field->label == PROTOBUF_C_LABEL_REPEATED)
			print_list(field, message, depth + 1);
		else
			print_value(field, (const char *)message +
				    field->offset, depth + 1);
	}
	putchar('\n');
	indent(depth);
	putchar('}');
}

void
ctl_print_json(const Mps__StatusReply *status)
{
	print_message(&status->base, 0);
	putchar('\n');
}
