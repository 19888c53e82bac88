// SPDX-License-Identifier: Apache-2.0
/* Has the table of sessions been emptied (datapath/sessions/emptied.h)? */
#include <arpa/inet.h>
#include <bpf/bpf.h>

#include "datapath/sessions/emptied.h"
#include "unit/unit.h"
#include "rows.h"

#define OPEN (MK_SESSION_FORWARD | MK_SESSION_OPEN)

static struct mk_table sessions;
static struct mk_emptied emptied;

static struct mk_tuple key_of(unsigned int n)
{
	return (struct mk_tuple){ .saddr = row_ipv4(0x0a000001),
				  .daddr = row_ipv4(0x0a600001),
				  .sport = htons((uint16_t)(40000 + n)),
				  .dport = htons(80),
				  .proto = IPPROTO_TCP };
}

static struct mk_session session_of(uint8_t flags)
{
	struct mk_session session = { .created_ns = 1, .set_id = 7 };

	mk_session_set_flags(&session, flags);
	return session;
}

/* Connection @n is in the table, and the pass visits it. */
static void meet(unsigned int n, uint8_t flags)
{
	struct mk_session session = session_of(flags);
	struct mk_tuple key = key_of(n);

	ck_assert_int_eq(row_update(sessions.fd, &key, &session, BPF_ANY), 0);
	mk_emptied_note(&emptied, &key, &session);
}

#define ENDED_NS 1000

static void pass_ended(uint64_t removed)
{
	mk_emptied_pass_ended(&emptied, removed, ENDED_NS);
}

/* Connection @n begins at @created_ns and replaces another with the same ports. */
static void replace(unsigned int n, uint64_t created_ns)
{
	struct mk_session session = session_of(OPEN);
	struct mk_tuple key = key_of(n);

	session.created_ns = created_ns;
	ck_assert_int_eq(row_update(sessions.fd, &key, &session, BPF_ANY), 0);
}

static void remove_one(unsigned int n)
{
	struct mk_tuple key = key_of(n);

	ck_assert_int_eq(row_delete(sessions.fd, &key), 0);
}

static void setup(void)
{
	struct mk_error err = { 0 };
	int fd = row_create_ipv4(BPF_MAP_TYPE_HASH, "sessions", sizeof(struct mk_tuple),
				 sizeof(struct mk_session), 64, NULL);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(mk_table_init(&sessions, "sessions", fd, &err), 0);
	emptied = (struct mk_emptied){ 0 };
}

static void teardown(void)
{
	mk_table_close(&sessions);
}

START_TEST(test_emptied)
{
	for (unsigned int n = 0; n < 9; n++)
		meet(n, OPEN);
	ck_assert_msg(!mk_emptied_detect(&emptied, &sessions, 3), "the pass goes on");
	pass_ended(3);
	ck_assert(!mk_emptied_detect(&emptied, &sessions, 3));
	for (unsigned int n = 0; n < 9; n++)
		if (n != MK_EMPTIED_SAMPLES - 1)
			remove_one(n);
	ck_assert_msg(!mk_emptied_detect(&emptied, &sessions, 3), "one is there");
	remove_one(MK_EMPTIED_SAMPLES - 1);
	ck_assert(mk_emptied_detect(&emptied, &sessions, 3));
	ck_assert_msg(!mk_emptied_detect(&emptied, &sessions, 3), "said twice");
}
END_TEST

/* Who empties the table removes one entry after the other, and the agent looks meanwhile. */
START_TEST(test_emptied_slowly)
{
	for (unsigned int n = 0; n <= MK_EMPTIED_SAMPLES; n++)
		meet(n, OPEN);
	pass_ended(0);
	for (unsigned int n = 0; n < MK_EMPTIED_SAMPLES; n++)
		remove_one(n);
	ck_assert_msg(!mk_emptied_detect(&emptied, &sessions, 0), "one is there");
	remove_one(MK_EMPTIED_SAMPLES);
	ck_assert(mk_emptied_detect(&emptied, &sessions, 0));
	ck_assert_msg(!mk_emptied_detect(&emptied, &sessions, 0), "said twice");
}
END_TEST

/* A continuing connection returns to the emptied table as another session. */
START_TEST(test_opened_anew)
{
	for (unsigned int n = 0; n < 3; n++)
		meet(n, OPEN);
	pass_ended(0);
	for (unsigned int n = 0; n < 4; n++)
		replace(n, ENDED_NS + 1);
	ck_assert(mk_emptied_detect(&emptied, &sessions, 0));
}
END_TEST

/* In a flood the programs remove ended connections and reuse their ports. Other sessions stay. */
START_TEST(test_removed_by_programs)
{
	for (unsigned int n = 0; n < MK_EMPTIED_SAMPLES; n++)
		meet(n, OPEN);
	replace(20, ENDED_NS);
	pass_ended(0);
	for (unsigned int n = 0; n < MK_EMPTIED_SAMPLES; n++)
		if (_i)
			remove_one(n);
		else
			replace(n, ENDED_NS + 1);
	ck_assert(!mk_emptied_detect(&emptied, &sessions, 0));
}
END_TEST

START_TEST(test_removed_by_the_sweep)
{
	meet(0, OPEN);
	meet(1, OPEN);
	pass_ended(3);
	remove_one(0);
	remove_one(1);
	ck_assert(!mk_emptied_detect(&emptied, &sessions, 4));
	pass_ended(5);
	ck_assert_msg(!mk_emptied_detect(&emptied, &sessions, 5), "there are none to ask");
}
END_TEST

/* Nothing follows from a single session, ended or half-open ones, answers, or sessions
 * of no Service. */
START_TEST(test_no_witness)
{
	struct mk_session other = session_of(OPEN);
	struct mk_tuple key = key_of(9);

	meet(0, OPEN);
	meet(1, OPEN | MK_SESSION_FIN);
	meet(2, OPEN | MK_SESSION_RST);
	meet(3, MK_SESSION_FORWARD);
	meet(4, MK_SESSION_OPEN);
	other.set_id = 0;
	mk_emptied_note(&emptied, &key, &other);
	other.set_id = 7;
	key.proto = IPPROTO_UDP;
	mk_emptied_note(&emptied, &key, &other);
	pass_ended(0);
	for (unsigned int n = 0; n < 5; n++)
		remove_one(n);
	ck_assert(!mk_emptied_detect(&emptied, &sessions, 0));
}
END_TEST

UNIT_SUITE("sample")
{
	TCase *tc = unit_case(suite, "sample", setup, teardown);

	tcase_add_test(tc, test_emptied);
	tcase_add_test(tc, test_emptied_slowly);
	tcase_add_test(tc, test_opened_anew);
	tcase_add_loop_test(tc, test_removed_by_programs, 0, 2);
	tcase_add_test(tc, test_removed_by_the_sweep);
	tcase_add_test(tc, test_no_witness);
}
