// SPDX-License-Identifier: Apache-2.0
#include "bpf/pieces.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/time.h"
#include "bpf/family.h"
#include "rows.h"

static int catcher = -1;

static void loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	ck_assert_int_eq(ioctl(catcher, SIOCSIFFLAGS, &request), 0);
}

void pieces_load(void)
{
	struct sockaddr_ll lo = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(family_is6() ? ETH_P_IPV6 : ETH_P_IP),
				  .sll_ifindex = MK_LOOPBACK_IFINDEX };

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	catcher = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(catcher, 0);
	loopback_up();
	ck_assert_int_eq(bind(catcher, (void *)&lo, sizeof(lo)), 0);
}

/* ---- cut and joined ------------------------------------------------------------------------- */

struct pieces pieces_cut(const struct frame *whole, const size_t *at)
{
	struct pieces pieces = { .count = 0 };
	size_t from = 0;

	for (; *at; from = *at++)
		pieces.piece[pieces.count++] = frame_fragment(whole, from, *at);
	pieces.piece[pieces.count++] = frame_fragment(whole, from, whole->length - frame_l4(whole));
	return pieces;
}

struct frame pieces_join(const char *name, const struct pieces *pieces)
{
	struct frame whole = { .length = 0 };
	size_t l4 = ETH_HLEN + frame_ip_bytes(), bytes = 0;
	const char *what = NULL;

	for (int i = 0; i < pieces->count; i++) {
		frame_join(&whole, &pieces->piece[i]);
		bytes += pieces->piece[i].length - frame_l4(&pieces->piece[i]);
	}
	ck_assert_msg(l4 + bytes == whole.length, "%s: %zu bytes of %zu came out", name, bytes,
		      whole.length - l4);
	frame_say_length(&whole, whole.length - ETH_HLEN);
	ck_assert_msg(frame_checksums_right(&whole, &what), "%s: put together, wrong %s in '%s'",
		      name, what, frame_flow(&whole));
	return whole;
}

/* ---- sent ----------------------------------------------------------------------------------- */

static void take(struct pieces *caught)
{
	struct sockaddr_ll from;
	socklen_t size = sizeof(from);
	struct frame *frame = &caught->piece[caught->count];
	ssize_t bytes =
		recvfrom(catcher, frame->byte, sizeof(frame->byte), 0, (void *)&from, &size);

	ck_assert_msg(bytes >= 0, "cannot catch: %s", strerror(errno));
	frame->length = (size_t)bytes;
	/* the kernel may send other packets, which are no fragments */
	if (from.sll_pkttype != PACKET_OUTGOING && frame_is_fragment(frame))
		ck_assert_int_lt(++caught->count, PIECES_MAX);
}

/* The first mismatch; "": none. It is reported only if the machine has not stalled. */
static char wrong[256];

static void __attribute__((format(printf, 1, 2))) is_wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!wrong[0])
		vsnprintf(wrong, sizeof(wrong), format, args);
	va_end(args);
}

/* Catch all @count fragments that come in again. */
static void catch (struct pieces *caught, int count)
{
	struct pollfd ready = { .fd = catcher, .events = POLLIN };

	while (caught->count < count) {
		if (poll(&ready, 1, 10000) != 1) {
			is_wrong("%d of %d come in again", caught->count, count);
			return;
		}
		take(caught);
	}
}

/* Discard earlier packets. */
static void discard(void)
{
	char byte;

	while (recv(catcher, &byte, sizeof(byte), 0) >= 0)
		;
}

/* Count the slots in use at @now_ns, or later. */
static int held_at(uint64_t now_ns)
{
	static struct mk_held held;
	int count = 0;

	for (__u32 slot = 0; slot < MK_HELD_SLOTS; slot++) {
		ck_assert_int_eq(row_lookup(fixture_map("held"), &slot, &held), 0);
		count += held.since_ns + MK_HELD_NS > now_ns;
	}
	return count;
}

/* Send a fragment. If it has to wait, it takes a slot, or it comes in again with those that leave
 * theirs. */
static enum where send_and_catch(enum mk_hook hook, const struct frame *in, struct frame *out,
				 struct pieces *caught)
{
	uint64_t now_ns = mk_time_monotonic_ns();
	int before = held_at(now_ns);
	enum where went = fixture_send(hook, in, out);

	if (went == WAITS)
		catch (caught, before - held_at(now_ns) + 1);
	return went;
}

struct pieces pieces_caught(const char *name, enum mk_hook hook, const struct frame *in)
{
	struct pieces caught = { .count = 0 };
	struct frame out;
	enum where went;

	discard();
	wrong[0] = '\0';
	went = send_and_catch(hook, in, &out, &caught);
	ck_assert_msg(!wrong[0], "%s: %s", name, wrong);
	ck_assert_msg(went == WAITS, "%s: went %s", name, where_name(went));
	return caught;
}

static void send_one(const char *name, enum mk_hook hook, const struct frame *in, enum where to,
		     struct pieces *sent)
{
	struct frame *out = &sent->piece[sent->count];
	struct pieces caught = { .count = 0 };
	enum where went = send_and_catch(hook, in, out, &caught);

	for (int i = 0; i < caught.count; i++)
		send_one(name, hook, &caught.piece[i], to, sent);
	if (went == WAITS)
		return;
	if (went != to)
		is_wrong("expected %s, went %s as '%s'", where_name(to), where_name(went),
			 frame_flow(out));
	ck_assert_int_lt(++sent->count, PIECES_MAX);
}

/* If the machine has stalled, held fragments have expired: send all once more. */
struct pieces pieces_send(const char *name, enum mk_hook hook, const struct pieces *pieces,
			  const char *order, enum where to)
{
	struct pieces sent;

	for (int again = 0; again < 5; again++) {
		uint64_t began_ns = mk_time_monotonic_ns();

		sent.count = 0;
		wrong[0] = '\0';
		discard();
		for (const char *next = order; *next; next++)
			send_one(name, hook, &pieces->piece[*next - '0'], to, &sent);
		if (mk_time_monotonic_ns() - began_ns < MK_HELD_NS)
			break;
		pieces_forget();
	}
	ck_assert_msg(!wrong[0], "%s: %s", name, wrong);
	return sent;
}

/* ---- time and room -------------------------------------------------------------------------- */

void pieces_forget(void)
{
	static const struct mk_held none;

	for (__u32 slot = 0; slot < MK_HELD_SLOTS; slot++)
		ck_assert_int_eq(row_update(fixture_map("held"), &slot, &none, BPF_ANY), 0);
	fixture_empty("fragments");
}

unsigned pieces_held(void)
{
	return (unsigned)held_at(mk_time_monotonic_ns());
}

void pieces_wait(uint64_t ns)
{
	static struct mk_held held;
	struct mk_fragment state;
	struct mk_fragment_key key;

	for (__u32 slot = 0; slot < MK_HELD_SLOTS; slot++) {
		ck_assert_int_eq(row_lookup(fixture_map("held"), &slot, &held), 0);
		held.since_ns -= held.since_ns ? ns : 0;
		held.begun_ns -= ns;
		ck_assert_int_eq(row_update(fixture_map("held"), &slot, &held, 0), 0);
	}
	if (row_next_key(fixture_map("fragments"), NULL, &key) < 0)
		return;
	ck_assert_int_eq(row_lookup(fixture_map("fragments"), &key, &state), 0);
	state.begun_ns -= ns;
	ck_assert_int_eq(row_update(fixture_map("fragments"), &key, &state, 0), 0);
}

void pieces_fill_slots(uint64_t for_ns)
{
	static struct mk_held others = { .bytes = 64 };

	others.since_ns = mk_time_monotonic_ns() + for_ns - MK_HELD_NS;
	for (__u32 slot = 0; slot < MK_HELD_SLOTS; slot++)
		ck_assert_int_eq(row_update(fixture_map("held"), &slot, &others, BPF_ANY), 0);
}
