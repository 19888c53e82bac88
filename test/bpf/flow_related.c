// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "bpf/flow_internal.h"

#define FIRST_BYTES 1384 /* of payload; with the UDP header a multiple of 8 */

/* ---- ICMP errors -------------------------------------------------------------------------------- */

static void own_flow(const struct flow *flow, char text[128], bool answer)
{
	if (answer)
		snprintf(text, 128, "%s %s > %s:%u", flow->proto, flow->to, flow->address,
			 flow->port);
	else
		snprintf(text, 128, "%s %s:%u > %s", flow->proto, flow->address, flow->port,
			 flow->to);
}

/* Make an error of @type/@code from @from to @to about the packet @about. */
static struct frame error_frame(const char *from, const char *to, const char *about, uint8_t type,
				uint8_t code)
{
	struct frame quoted = frame_make(about, NULL);
	const struct frame_options options = {
		.quote = &quoted, .icmp_type = type, .icmp_code = code, .icmp_mtu = 1400
	};
	char text[96];

	snprintf(text, sizeof(text), "icmp %s > %s", from, to);
	return frame_make(text, &options);
}

static void expect_error(const struct frame *out, enum where where, enum where wanted_where,
			 const char *wanted)
{
	expect(strcmp(frame_flow(out), wanted) == 0, "expected '%s', went %s as '%s'", wanted,
	       where_name(where), frame_flow(out));
	expect(where == wanted_where, "'%s' goes %s", wanted, where_name(where));
	flow_check_frame(out);
}

/* The endpoint's host reports a closed port, quoting the request as it was translated. The client
 * must get the error from the address that it asked, quoting the request as it sent it. */
static void error_to_client(const struct flow *flow)
{
	struct ends ends = flow_ends(flow->seen);
	char from[32], to[32], asked[32], own[128], wanted[256];
	struct frame in, out;
	enum where where;

	flow_address_of(ends.to, from);
	flow_address_of(ends.from, to);
	flow_address_of(flow->to, asked);
	own_flow(flow, own, false);
	in = error_frame(from, to, flow->seen, 3, 3);
	where = fixture_send(flow->answer_hook, &in, &out);
	snprintf(wanted, sizeof(wanted), "icmp-error %s > %s 3/3 [%s]", asked, flow->address, own);
	expect_error(&out, where, flow_answer_where(flow), wanted);
}

/* The client's side reports that an answer is too big. The endpoint must get the error with the
 * answer quoted as it sent it. */
static void error_to_endpoint(const struct flow *flow)
{
	struct ends ends = flow_ends(flow->seen);
	char asked[32], own[128], wanted[256], source[32];
	struct frame in, out;
	enum where where;

	flow_address_of(flow->to, asked);
	flow_address_of(ends.from, source);
	own_flow(flow, own, true);
	in = error_frame(flow->address, asked, own, 3, 4);
	where = fixture_send(flow->client.hook, &in, &out);
	snprintf(wanted, sizeof(wanted), "icmp-error %s > %s 3/4 [%s %s > %s]", source,
		 flow->endpoint->address, ends.proto, ends.to, ends.from);
	expect_error(&out, where, flow->endpoint->where, wanted);
}

void flow_errors(const struct flow *flow)
{
	error_to_client(flow);
	error_to_endpoint(flow);
}

/* ---- fragments ---------------------------------------------------------------------------------- */

/* Make the second fragment of a datagram whose first fragment is @text. */
static struct frame later_fragment(const char *text, uint16_t id)
{
	const struct frame_options options = { .fragment = (FIRST_BYTES + 8) / 8,
					       .id = id,
					       .payload_bytes = 300 };

	return frame_make(text, &options);
}

static struct frame first_fragment(const char *text, uint16_t id)
{
	const struct frame_options options = { .fragment = MF,
					       .id = id,
					       .payload_bytes = FIRST_BYTES };

	return frame_make(text, &options);
}

/* Send both fragments of @text. Both must get the addresses of @wanted, and the first one its
 * ports. */
static void send_fragments(const struct flow *flow, bool answer, const char *text,
			   const char *wanted, enum where wanted_where)
{
	static uint16_t id;
	struct frame first = first_fragment(text, ++id), later = later_fragment(text, id), out;
	char from[32], to[32], seen_from[32], seen_to[32];
	struct ends ends = flow_ends(wanted), seen;
	enum where where = answer ? fixture_send(flow->answer_hook, &first, &out)
				  : flow_send(flow, &first, &out);

	expect(strcmp(frame_flow(&out), wanted) == 0 && where == wanted_where,
	       "the first fragment of '%s' goes %s as '%s'", text, where_name(where),
	       frame_flow(&out));
	where = answer ? fixture_send(flow->answer_hook, &later, &out)
		       : flow_send(flow, &later, &out);
	seen = flow_ends(frame_flow(&out));
	flow_address_of(ends.from, from);
	flow_address_of(ends.to, to);
	flow_address_of(seen.from, seen_from);
	flow_address_of(seen.to, seen_to);
	expect(strcmp(from, seen_from) == 0 && strcmp(to, seen_to) == 0 && where == wanted_where,
	       "the second fragment of '%s' goes %s from %s to %s", text, where_name(where),
	       seen_from, seen_to);
	flow_check_frame(&out);
}

void flow_fragments(const struct flow *flow)
{
	struct ends ends = flow_ends(flow->seen);
	char request[128], answer[128], own_answer[128];

	own_flow(flow, request, false);
	own_flow(flow, own_answer, true);
	snprintf(answer, sizeof(answer), "%s %s > %s", ends.proto, ends.to, ends.from);
	send_fragments(flow, false, request, flow->seen, flow->endpoint->where);
	send_fragments(flow, true, answer, own_answer, flow_answer_where(flow));
}
