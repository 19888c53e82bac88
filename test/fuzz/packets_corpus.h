/* SPDX-License-Identifier: Apache-2.0 */
/* test/fuzz/packets_corpus.h - packets that each reached something new: a text with a line per
 * packet, in the order in which they were found, because they open sessions for each other.
 *
 *	hook    kind  went to  reason  rewritten  frame
 *	pod     udp   uplink   -       spt        0242ac..
 *
 * reason: of a drop. rewritten: s, d the addresses, p, q the ports, t the TTL, x: into another kind
 * of packet. frame: in hexadecimal. No two lines have the same first five fields. # begins a
 * comment. A run replays only the lines of its family. */
#ifndef MK_FUZZ_PACKETS_CORPUS_H
#define MK_FUZZ_PACKETS_CORPUS_H

#include <stdio.h>
#include <string.h>

#include "bpf/fixture.h"
#include "bpf/frame_internal.h"
#include "datapath/monitor/drops.h"

#define CORPUS_KEY_BYTES 96
#define CORPUS_LINES_MAX 4096

static struct {
	char keys[CORPUS_LINES_MAX][CORPUS_KEY_BYTES];
	size_t count;
	FILE *out; /* NULL: nothing is kept */
	uint64_t drops[MK_HOOK_COUNT][MK_DROP_COUNT]; /* as counted last */
} corpus;

static enum mk_hook corpus_counted_as(enum mk_hook hook)
{
	return hook == HOOK_LOOPBACK ? MK_HOOK_HOST : hook;
}

static const char *corpus_hook_name(enum mk_hook hook)
{
	return hook == HOOK_LOOPBACK ? "loopback" : mk_hook_name(hook);
}

static bool corpus_is_ip(const struct frame *frame)
{
	if (family_is6())
		return frame->length >= 54 && frame->byte[12] == 0x86 && frame->byte[13] == 0xdd;
	return frame->length >= 34 && frame->byte[12] == 8 && frame->byte[13] == 0;
}

static const char *corpus_proto_name(unsigned int proto)
{
	return proto == 6     ? "tcp"
	       : proto == 17  ? "udp"
	       : proto == 132 ? "sctp"
	       : proto == 1   ? "icmp"
			      : "ip";
}

/* "udp6+h": with extension headers other than that of a fragment. */
static const char *corpus_kind6(const struct frame *frame)
{
	static char kind[24];
	struct frame_ip ip;
	bool has_headers;

	if (!frame_ip_read(frame->byte + 14, frame->length - 14, &ip))
		return "ip6+h";
	has_headers = ip.header_bytes > (frame_is_fragment(frame) ? 48u : 40u);
	snprintf(kind, sizeof(kind), "%s6%s%s", corpus_proto_name(ip.proto),
		 has_headers ? "+h" : "",
		 !ip.fragment	  ? ""
		 : ip.fragment_at ? "/later"
				  : "/first");
	return kind;
}

/* "udp", "udp/first", "udp/later": of which protocol, and which part of a packet. */
static const char *corpus_kind(const struct frame *frame)
{
	static char kind[24];
	unsigned int proto, fragment;

	if (!corpus_is_ip(frame))
		return family_is6() ? "other6" : "other";
	if (family_is6())
		return corpus_kind6(frame);
	proto = frame->byte[23];
	fragment = (unsigned int)(frame->byte[20] << 8 | frame->byte[21]) & 0x3fff;
	snprintf(kind, sizeof(kind), "%s%s", corpus_proto_name(proto),
		 !fragment	     ? ""
		 : fragment & 0x1fff ? "/later"
				     : "/first");
	return kind;
}

static const char *corpus_rewritten(const struct frame *in, const struct frame *out)
{
	static char text[8];
	const bool six = family_is6();
	size_t l4 = six ? frame_l4(in) : 14 + 4 * (size_t)(in->byte[14] & 15), used = 0;
	size_t proto = six ? 20 : 23;
	const struct {
		char letter;
		size_t at, bytes;
	} fields[] = { { 's', six ? 22 : 26, six ? 16 : 4 },
		       { 'd', six ? 38 : 30, six ? 16 : 4 },
		       { 'p', l4, 2 },
		       { 'q', l4 + 2, 2 },
		       { 't', six ? 21 : 22, 1 } };

	if (!corpus_is_ip(in) || !corpus_is_ip(out))
		return "-";
	if (in->byte[proto] != out->byte[proto])
		return "x";
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		size_t end = fields[i].at + fields[i].bytes;

		if (end <= in->length && end <= out->length &&
		    memcmp(&in->byte[fields[i].at], &out->byte[fields[i].at], fields[i].bytes) != 0)
			text[used++] = fields[i].letter;
	}
	text[used] = '\0';
	return used ? text : "-";
}

static const char *corpus_reason(enum mk_hook hook, enum where where)
{
	const char *name = "-";

	for (unsigned int i = 0; where == DROPPED && i < MK_DROP_COUNT; i++) {
		uint64_t now = fixture_drops(corpus_counted_as(hook), (enum mk_drop_reason)i);

		if (now != corpus.drops[corpus_counted_as(hook)][i])
			name = mk_drop_reason_name(i);
		corpus.drops[corpus_counted_as(hook)][i] = now;
	}
	return name;
}

static bool corpus_knows(const char *key)
{
	for (size_t i = 0; i < corpus.count; i++)
		if (strcmp(corpus.keys[i], key) == 0)
			return true;
	return false;
}

static void corpus_key(char *key, enum mk_hook hook, enum where where, const struct frame *in,
		       const struct frame *out)
{
	static const char *const went[] = { "pod",	"overlay",  "uplink", "host",
					    "loopback", "hosthook", "held",   "dropped" };

	snprintf(key, CORPUS_KEY_BYTES, "%s %s %s %s %s", corpus_hook_name(hook), corpus_kind(in),
		 went[where], corpus_reason(hook, where), corpus_rewritten(in, out));
}

/* Keep @in if nothing before it reached what it did. */
static void corpus_see(enum mk_hook hook, enum where where, const struct frame *in,
		       const struct frame *out)
{
	char key[CORPUS_KEY_BYTES];

	if (!corpus.out)
		return;
	corpus_key(key, hook, where, in, out);
	if (corpus.count == CORPUS_LINES_MAX || corpus_knows(key))
		return;
	snprintf(corpus.keys[corpus.count++], CORPUS_KEY_BYTES, "%s", key);
	fprintf(corpus.out, "%s ", key);
	for (size_t i = 0; i < in->length; i++)
		fprintf(corpus.out, "%02x", in->byte[i]);
	fputc('\n', corpus.out);
}

/* Kinds of a run for IPv6 have a 6 in their names. */
static bool corpus_is_of_run(const char *line)
{
	char kind[24] = "";

	return sscanf(line, "%*s %23s", kind) == 1 && !strchr(kind, '6') == !family_is6();
}

static bool corpus_hook(const char *name, enum mk_hook *hook)
{
	for (unsigned int i = 0; i <= HOOK_LOOPBACK; i++) {
		*hook = (enum mk_hook)i;
		if (strcmp(corpus_hook_name(*hook), name) == 0)
			return true;
	}
	return false;
}

static void corpus_bytes(const char *hex, struct frame *frame)
{
	unsigned int byte;

	*frame = (struct frame){ 0 };
	while (frame->length < sizeof(frame->byte) && sscanf(hex, "%2x", &byte) == 1) {
		frame->byte[frame->length++] = (uint8_t)byte;
		hex += 2;
	}
}

/* Give @packet every line of @path that is of this family. Returns the number of them; *@same
 * is the number of those that again reached the place in their line. With @keep, the file gets new
 * packets from now on. */
static unsigned long corpus_replay(const char *path, bool keep,
				   enum where (*packet)(enum mk_hook hook, const struct frame *in,
							struct frame *out),
				   unsigned long *same)
{
	static char line[3 * sizeof(((struct frame *)0)->byte)];
	FILE *file = fopen(path, keep ? "a+" : "r");
	struct frame in, out;
	unsigned long count = 0;

	*same = 0;
	ck_assert_msg(file != NULL, "cannot open corpus '%s'", path);
	rewind(file);
	while (fgets(line, sizeof(line), file)) {
		char *hex = strrchr(line, ' '), hook_name[16], key[CORPUS_KEY_BYTES];
		enum mk_hook hook;

		if (line[0] == '#' || !corpus_is_of_run(line))
			continue;
		ck_assert_msg(hex && sscanf(line, "%15s", hook_name) == 1 &&
				      corpus_hook(hook_name, &hook) &&
				      corpus.count < CORPUS_LINES_MAX,
			      "corpus '%s', packet %lu: not a packet of it", path, count + 1);
		*hex++ = '\0';
		corpus_bytes(hex, &in);
		corpus_key(key, hook, packet(hook, &in, &out), &in, &out);
		*same += strcmp(key, line) == 0;
		snprintf(corpus.keys[corpus.count++], CORPUS_KEY_BYTES, "%.95s", line);
		count++;
	}
	if (keep)
		corpus.out = file;
	else
		fclose(file);
	return count;
}

#endif
