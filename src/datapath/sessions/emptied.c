// SPDX-License-Identifier: Apache-2.0
#include "datapath/sessions/emptied.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define LOOKED_AT 4096 /* entries, in order of their hash: a fair sample of a large table */

void mk_emptied_note(struct mk_emptied *emptied, const struct mk_tuple *key,
		     const struct mk_session *session)
{
	const uint8_t wanted = MK_SESSION_FORWARD | MK_SESSION_OPEN;
	const uint8_t ending = MK_SESSION_FIN | MK_SESSION_RST;

	if (emptied->met_count == MK_EMPTIED_SAMPLES || key->proto != IPPROTO_TCP ||
	    !session->set_id || (mk_session_flags(session) & (wanted | ending)) != wanted)
		return;
	emptied->met[emptied->met_count++] = (struct mk_emptied_sample){
		.key = *key,
		.created_ns = session->created_ns,
	};
}

void mk_emptied_pass_ended(struct mk_emptied *emptied, uint64_t removed, uint64_t now_ns)
{
	memcpy(emptied->asked, emptied->met, sizeof(emptied->asked));
	emptied->asked_count = emptied->met_count;
	emptied->met_count = 0;
	emptied->removed = removed;
	emptied->ended_ns = now_ns;
}

static bool is_there(const struct mk_table *sessions, const struct mk_emptied_sample *sample)
{
	struct mk_session session;

	return mk_table_get(sessions, &sample->key, &session, NULL) == 0 &&
	       session.created_ns == sample->created_ns;
}

struct search {
	uint64_t before_ns;
	int left; /* entries to look at */
};

/* Is the entry old, or are these enough? */
static int see_age(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	const struct mk_session *session = value;
	struct search *search = ctx;

	(void)key;
	(void)err;
	if (session->created_ns <= search->before_ns)
		return -EEXIST;
	return --search->left == 0;
}

bool mk_emptied_detect(struct mk_emptied *emptied, const struct mk_table *sessions,
		       uint64_t removed)
{
	struct search search = { emptied->ended_ns, LOOKED_AT };

	if (emptied->asked_count < MK_EMPTIED_SAMPLES_MIN || removed != emptied->removed)
		return false;
	for (unsigned int i = 0; i < emptied->asked_count; i++)
		if (is_there(sessions, &emptied->asked[i]))
			return false;
	/* On an error, and while old entries are left, nothing is reported: who empties the table
	 * may remove one entry after the other. */
	if (mk_table_each(sessions, see_age, &search, NULL) < 0)
		return false;
	emptied->asked_count = 0;
	return true;
}
