// SPDX-License-Identifier: Apache-2.0
/* Views of peers. First every peer keeps what it has or asks for, from the oldest to the newest.
 * Then peers without a view get free ranges, in the same order. So a new peer changes nothing for
 * those that exist. */
#include "clusterset/views.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "clusterset/content.h"

#define IPV6_BLOCK_BITS 40 /* fd00::/8 and 32 bits of the hash */
#define IPV6_TRIES	64
#define HELD_CHARS	160

/* A view of the last call. */
struct known {
	char *name;
	bool is_introduced;
	struct mk_cidr view[MK_FAMILIES];
};

/* @name had the view, and may have it again. */
struct released {
	struct mk_cidr range;
	int64_t since_s;
	char *name;
	bool is_introduced;
};

struct mk_views {
	struct known *known;
	size_t known_count;
	struct released *released;
	size_t released_count;
};

/* A peer of one call, in the order in which peers win. */
struct at {
	const struct mk_views_peer *peer;
	struct mk_views_result *result;
};

struct work {
	struct mk_views *views;
	const struct mk_views_input *input;
	struct at *peers;
	size_t family; /* of the turn */
	/* Below this block, @cursor_pool has no free one: the next search begins here. */
	const struct mk_cidr *cursor_pool;
	struct mk_cidr cursor;
	bool exceeds_half; /* the last search found that hubs' peers have half of the pool */
};

/* Do the bits agree that both have? This is asked for every pair of peers. */
static bool overlaps(const struct mk_cidr *a, const struct mk_cidr *b)
{
	uint8_t bits = a->prefix_bits < b->prefix_bits ? a->prefix_bits : b->prefix_bits;
	const uint8_t *one = (const uint8_t *)&a->ip.v6, *other = (const uint8_t *)&b->ip.v6;

	if (a->ip.family == AF_UNSPEC || a->ip.family != b->ip.family)
		return false;
	for (; bits >= 8; bits -= 8)
		if (*one++ != *other++)
			return false;
	return bits == 0 || (*one ^ *other) >> (8 - bits) == 0;
}

/* Addresses after those of @range; AF_UNSPEC: there are none. */
static struct mk_ip end_of(const struct mk_cidr *range)
{
	struct mk_cidr network = mk_cidr_network(range);
	struct mk_ip ip = network.ip;
	uint8_t *bytes = (uint8_t *)&ip.v6;
	int byte = (range->prefix_bits - 1) / 8;
	unsigned int step = 1U << (7 - (range->prefix_bits - 1) % 8);

	for (; range->prefix_bits > 0 && byte >= 0 && step > 0; byte--) {
		step += bytes[byte];
		bytes[byte] = (uint8_t)step;
		step >>= 8;
	}
	if (range->prefix_bits == 0 || step > 0)
		ip.family = AF_UNSPEC;
	return ip;
}

/* ---- what is taken --------------------------------------------------------------------------- */

/* Returns the range of this cluster that @range overlaps; NULL: none. */
static const struct mk_cidr *own_range(const struct work *work, const struct mk_cidr *range,
				       char what[HELD_CHARS])
{
	for (size_t i = 0; i < work->input->taken_count; i++)
		if (overlaps(&work->input->taken[i].range, range)) {
			snprintf(what, HELD_CHARS, "%s", work->input->taken[i].what);
			return &work->input->taken[i].range;
		}
	return NULL;
}

/* Returns the view of a peer that @range overlaps; NULL: none. */
static const struct mk_cidr *view_of_other(const struct work *work, const struct at *at,
					   const struct mk_cidr *range, char what[HELD_CHARS])
{
	for (size_t i = 0; i < work->input->peer_count; i++) {
		const struct at *other = &work->peers[i];

		if (other == at || !overlaps(&other->result->view[work->family], range))
			continue;
		snprintf(what, HELD_CHARS, "the view of peer '%s'", other->peer->name);
		return &other->result->view[work->family];
	}
	return NULL;
}

/* Returns a view that another peer had. */
static const struct mk_cidr *released_range(const struct work *work, const struct at *at,
					    const struct mk_cidr *range)
{
	for (size_t i = 0; i < work->views->released_count; i++) {
		const struct released *released = &work->views->released[i];

		if (overlaps(&released->range, range) &&
		    strcmp(released->name, at->peer->name) != 0)
			return &released->range;
	}
	return NULL;
}

static const struct mk_cidr *left_range(const struct work *work, const struct mk_cidr *range)
{
	for (size_t i = 0; i < work->input->peer_count; i++)
		for (size_t j = 0; j < MK_VIEWS_LEFT_MAX; j++)
			if (overlaps(&work->input->peers[i].left[j], range))
				return &work->input->peers[i].left[j];
	return NULL;
}

/* Returns what overlaps @range, if that is not free; NULL: it is. */
static const struct mk_cidr *blocker_of(const struct work *work, const struct at *at,
					const struct mk_cidr *range)
{
	char what[HELD_CHARS];

	return own_range(work, range, what) ?:
	       view_of_other(work, at, range, what) ?:
	       released_range(work, at, range) ?:
	       left_range(work, range);
}

/* ---- results --------------------------------------------------------------------------------- */

/* The worst reason of both families has the text. */
static int say(struct mk_views_result *result, enum mk_ranges_reason reason, char *text)
{
	if (!text)
		return -ENOMEM;
	if (reason <= result->reason) {
		free(text);
		return 0;
	}
	free(result->text);
	result->reason = reason;
	result->text = text;
	return 0;
}

__attribute__((format(printf, 1, 2))) static char *format_text(const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	return text;
}

static int say_conflict(struct at *at, const struct mk_cidr *view, const struct mk_cidr *held,
			const char *what, const char *remedy)
{
	char one[MK_CIDR_STRLEN], other[MK_CIDR_STRLEN];

	return say(at->result, MK_RANGES_CONFLICT,
		   format_text("view %s overlaps %s, %s: %s", mk_cidr_format(view, one),
			       mk_cidr_format(held, other), what, remedy));
}

/* ---- views that exist, or are asked for ------------------------------------------------------ */

/* A view that a user has chosen is not replaced. */
static int take_wanted(struct work *work, struct at *at, const struct mk_cidr *wanted,
		       const struct mk_cidr *held)
{
	const struct mk_cidr *home = &at->peer->home[work->family], *taken;
	struct mk_cidr network = mk_cidr_network(wanted);
	char what[HELD_CHARS], one[MK_CIDR_STRLEN], other[MK_CIDR_STRLEN];

	if (home->ip.family != AF_UNSPEC && home->prefix_bits != wanted->prefix_bits)
		return say(
			at->result, MK_RANGES_CONFLICT,
			format_text(
				"spec.podCidr %s has another length than the peer's pod range %s: set a range of /%u",
				mk_cidr_format(&network, one), mk_cidr_format(home, other),
				home->prefix_bits));
	taken = view_of_other(work, at, &network, what);
	if (taken)
		return say_conflict(at, &network, taken, what, "set spec.podCidr to a free range");
	taken = own_range(work, &network, what);
	if (!taken || (held && mk_cidr_equal(&network, held)))
		at->result->view[work->family] = network;
	return taken ? say_conflict(at, &network, taken, what, "set spec.podCidr to a free range")
		     : 0;
}

/* A view from the pool stays, also if a range of this cluster overlaps it later. Two things end
 * it: an older peer has it, or the peer's pod range has another length now. */
static int keep_held(struct work *work, struct at *at, const struct mk_cidr *view)
{
	const struct mk_cidr *home = &at->peer->home[work->family], *taken;
	struct mk_cidr network = mk_cidr_network(view);
	char what[HELD_CHARS];

	if (view_of_other(work, at, &network, what) ||
	    (home->ip.family != AF_UNSPEC && home->prefix_bits != view->prefix_bits))
		return 0;
	at->result->view[work->family] = network;
	taken = own_range(work, &network, what);
	if (taken)
		return say_conflict(
			at, &network, taken, what,
			"packets to the common addresses do not reach the peer; move the view by `monokube peer remap`, or set spec.podCidr");
	return 0;
}

/* What is remembered of the peer @name, which most often has its place of the last call; NULL:
 * nothing. */
static const struct known *find_known(const struct mk_views *views, const char *name, size_t place)
{
	if (place < views->known_count && strcmp(views->known[place].name, name) == 0)
		return &views->known[place];
	for (size_t i = 0; i < views->known_count; i++)
		if (strcmp(views->known[i].name, name) == 0)
			return &views->known[i];
	return NULL;
}

/* The view of the last call: it may not be written yet, or a restore has written an older one.
 * A new leader takes the view that the object has. */
static const struct mk_cidr *held_by(const struct work *work, const struct mk_views_peer *peer)
{
	size_t place = (size_t)(peer - work->input->peers);
	const struct known *known = find_known(work->views, peer->name, place);
	const struct mk_cidr *view = known ? &known->view[work->family] : &peer->held[work->family];

	return view->ip.family == AF_UNSPEC ? NULL : view;
}

/* Does a user want the peer to leave this view? */
static bool leaves(const struct mk_views_peer *peer, const struct mk_cidr *view)
{
	for (size_t i = 0; i < MK_VIEWS_LEFT_MAX; i++)
		if (peer->left[i].ip.family != AF_UNSPEC && mk_cidr_equal(&peer->left[i], view))
			return true;
	return false;
}

static int keep(struct work *work, struct at *at)
{
	const struct mk_views_peer *peer = at->peer;
	const struct mk_cidr *wanted = &peer->wanted[work->family];
	const struct mk_cidr *held = held_by(work, peer);

	if (peer->is_same)
		wanted = &peer->home[work->family];
	if (wanted->ip.family != AF_UNSPEC)
		return take_wanted(work, at, wanted, held);
	return peer->is_same || !held || leaves(peer, held) ? 0 : keep_held(work, at, held);
}

/* ---- new views ------------------------------------------------------------------------------- */

/* Has the peer released views, which are free for it alone? */
static bool had_others(const struct work *work, const struct at *at)
{
	for (size_t i = 0; i < work->views->released_count; i++)
		if (strcmp(work->views->released[i].name, at->peer->name) == 0)
			return true;
	return false;
}

/* Returns how much of @pool the range is, in units of which the whole pool has 2^62. */
static uint64_t share_of(const struct mk_cidr *pool, const struct mk_cidr *range)
{
	int longer = range->prefix_bits - pool->prefix_bits;

	if (!mk_cidr_covers(pool, range) || longer > 62)
		return 0;
	return UINT64_C(1) << (62 - longer);
}

/* Would peers that hubs introduce have more than half of @pool with @block? */
static bool exceeds_half(const struct work *work, const struct at *at, const struct mk_cidr *pool,
			 const struct mk_cidr *block)
{
	const uint64_t half = UINT64_C(1) << 61;
	uint64_t share = share_of(pool, block);

	if (!at->peer->is_introduced)
		return false;
	for (size_t i = 0; i < work->input->peer_count && share <= half; i++)
		if (work->peers[i].peer->is_introduced)
			share += share_of(pool, &work->peers[i].result->view[work->family]);
	for (size_t i = 0; i < work->views->released_count && share <= half; i++)
		if (work->views->released[i].is_introduced)
			share += share_of(pool, &work->views->released[i].range);
	return share > half;
}

/* The lowest free block of @pool. Each step passes a range that is taken, so there are as many
 * steps as ranges. */
static bool find_in_pool(struct work *work, const struct at *at, const struct mk_cidr *pool,
			 uint8_t prefix_bits, struct mk_cidr *view)
{
	struct mk_cidr block = mk_cidr_network(pool);
	const struct mk_cidr *blocker;

	block.prefix_bits = prefix_bits;
	work->exceeds_half = exceeds_half(work, at, pool, &block);
	if (prefix_bits < pool->prefix_bits || work->exceeds_half)
		return false;
	if (work->cursor_pool == pool && work->cursor.prefix_bits == prefix_bits &&
	    !had_others(work, at))
		block = work->cursor;
	while ((blocker = blocker_of(work, at, &block))) {
		block.ip = end_of(blocker->prefix_bits < prefix_bits ? blocker : &block);
		if (block.ip.family == AF_UNSPEC || !mk_cidr_contains(pool, &block.ip))
			return false;
	}
	work->cursor_pool = pool;
	work->cursor = *view = block;
	return true;
}

/* A network of fd00::/8 that the peer's name gives; if it is not free, the next one. */
static bool compute(const struct work *work, const struct at *at, uint8_t prefix_bits,
		    struct mk_cidr *view)
{
	uint64_t hash = hash_text(HASH_SEED, at->peer->name);

	for (int i = 0; i < IPV6_TRIES; i++, hash = hash_text(hash, "+")) {
		struct mk_cidr block = { .ip.family = AF_INET6, .prefix_bits = prefix_bits };

		block.ip.v6.s6_addr[0] = 0xfd;
		for (int byte = 0; byte < (IPV6_BLOCK_BITS - 8) / 8; byte++)
			block.ip.v6.s6_addr[1 + byte] =
				(uint8_t)(hash_mix(hash) >> (56 - 8 * byte));
		block = mk_cidr_network(&block);
		if (!blocker_of(work, at, &block)) {
			*view = block;
			return true;
		}
	}
	return false;
}

/* A ClusterPeer that was deleted by mistake, or restored, gets the view that policies may name. */
static bool take_back(struct work *work, const struct at *at, uint8_t prefix_bits,
		      struct mk_cidr *view)
{
	sa_family_t family = at->peer->home[work->family].ip.family;

	for (size_t i = work->views->released_count; i-- > 0;) {
		struct released *released = &work->views->released[i];

		if (released->range.ip.family != family ||
		    released->range.prefix_bits != prefix_bits ||
		    strcmp(released->name, at->peer->name) != 0 ||
		    blocker_of(work, at, &released->range))
			continue;
		*view = released->range;
		free(released->name);
		memmove(released, released + 1,
			(--work->views->released_count - i) * sizeof(*released));
		return true;
	}
	return false;
}

static bool find_free(struct work *work, const struct at *at, uint8_t prefix_bits,
		      struct mk_cidr *view)
{
	sa_family_t family = at->peer->home[work->family].ip.family;
	bool has_pool = false;

	for (size_t i = 0; i < work->input->pool_count; i++) {
		if (work->input->pools[i].ip.family != family)
			continue;
		has_pool = true;
		if (find_in_pool(work, at, &work->input->pools[i], prefix_bits, view))
			return true;
	}
	return !has_pool && family == AF_INET6 && compute(work, at, prefix_bits, view);
}

/* Is @range the largest part of a pool so far? @most: how much that is. */
static bool is_larger(const struct work *work, const struct mk_cidr *range, uint64_t *most)
{
	bool found = false;

	for (size_t i = 0; i < work->input->pool_count; i++) {
		const struct mk_cidr *pool = &work->input->pools[i];
		uint64_t share = range->ip.family == AF_UNSPEC ? 0 : share_of(pool, range);

		found |= share > *most;
		*most = share > *most ? share : *most;
	}
	return found;
}

/* Write who has the largest view in peerPools of the family, of equal ones the oldest peer. Views
 * that are kept for peers for an hour count, too. */
static const char *find_holder(const struct work *work, char text[HELD_CHARS])
{
	const struct mk_views *views = work->views;
	char range[MK_CIDR_STRLEN];
	uint64_t most = 0;

	*text = '\0';
	for (size_t i = 0; i < work->input->peer_count; i++)
		if (is_larger(work, &work->peers[i].result->view[work->family], &most))
			snprintf(text, HELD_CHARS, "; '%s' has the largest one, %s",
				 work->peers[i].peer->name,
				 mk_cidr_format(&work->peers[i].result->view[work->family], range));
	for (size_t i = 0; i < views->released_count; i++)
		if (mk_family_index(views->released[i].range.ip.family) == work->family &&
		    is_larger(work, &views->released[i].range, &most))
			snprintf(text, HELD_CHARS,
				 "; the largest one, %s, is kept for '%s' for an hour",
				 mk_cidr_format(&views->released[i].range, range),
				 views->released[i].name);
	return text;
}

static int say_exhausted(const struct work *work, struct at *at)
{
	const struct mk_cidr *home = &at->peer->home[work->family];
	char holder[HELD_CHARS];

	return say(
		at->result, MK_RANGES_POOL_EXHAUSTED,
		format_text(
			"peerPools has no free %s range of /%u for '%s'%s: enlarge peerPools, or set spec.podCidr",
			mk_family_name(home->ip.family), home->prefix_bits, at->peer->name,
			work->exceeds_half
				? ", because clusters that hubs introduce have half of peerPools"
				: find_holder(work, holder)));
}

static int assign(struct work *work, struct at *at)
{
	const struct mk_views_peer *peer = at->peer;
	const struct mk_cidr *home = &peer->home[work->family];
	struct mk_cidr *view = &at->result->view[work->family];
	const struct mk_cidr *held = held_by(work, peer);
	int ret = 0;

	if (view->ip.family != AF_UNSPEC || peer->is_same || home->ip.family == AF_UNSPEC ||
	    peer->wanted[work->family].ip.family != AF_UNSPEC ||
	    take_back(work, at, home->prefix_bits, view) ||
	    find_free(work, at, home->prefix_bits, view))
		return 0;
	if (held && leaves(peer, held))
		ret = keep_held(work, at, held);
	return ret ?: say_exhausted(work, at);
}

/* ---- memory of released views ---------------------------------------------------------------- */

/* Has the peer @name, which most often has place @place, the view still? */
static bool is_in_use(const struct mk_views_input *input, const struct mk_views_result *results,
		      const char *name, const struct mk_cidr *view, size_t place)
{
	size_t family = mk_family_index(view->ip.family), i = 0;

	if (place < input->peer_count && strcmp(input->peers[place].name, name) == 0)
		return mk_cidr_equal(&results[place].view[family], view);
	while (i < input->peer_count && strcmp(input->peers[i].name, name) != 0)
		i++;
	return i < input->peer_count && mk_cidr_equal(&results[i].view[family], view);
}

static void forget_old(struct mk_views *views, int64_t now_s)
{
	size_t kept = 0;

	for (size_t i = 0; i < views->released_count; i++)
		if (now_s - views->released[i].since_s < MK_VIEWS_UNUSED_S)
			views->released[kept++] = views->released[i];
		else
			free(views->released[i].name);
	views->released_count = kept;
}

/* Note it once, so that a peer whose range changes again and again fills no memory. */
static int release(struct mk_views *views, const struct known *known, const struct mk_cidr *view,
		   int64_t now_s)
{
	struct released *released = views->released, *end = released + views->released_count;
	char *copy;

	for (; released < end; released++)
		if (mk_cidr_equal(&released->range, view) &&
		    strcmp(released->name, known->name) == 0) {
			released->since_s = now_s;
			return 0;
		}
	copy = strdup(known->name);
	if (!copy)
		return -ENOMEM;
	views->released[views->released_count++] =
		(struct released){ *view, now_s, copy, known->is_introduced };
	return 0;
}

/* Views that went between the last call and this one. They are not given to others: so note them
 * before views are assigned. */
static int note_released(struct mk_views *views, const struct mk_views_input *input,
			 const struct mk_views_result *results)
{
	size_t most = views->released_count + MK_FAMILIES * views->known_count;
	struct released *released = realloc(views->released, (most + 1) * sizeof(*released));
	int ret = 0;

	if (!released)
		return -ENOMEM;
	views->released = released;
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES * views->known_count; i++) {
		const struct known *known = &views->known[i / MK_FAMILIES];
		const struct mk_cidr *view = &known->view[i % MK_FAMILIES];

		if (view->ip.family != AF_UNSPEC &&
		    !is_in_use(input, results, known->name, view, i / MK_FAMILIES))
			ret = release(views, known, view, input->now_s);
	}
	return ret;
}

static void forget_known(struct mk_views *views)
{
	for (size_t i = 0; i < views->known_count; i++)
		free(views->known[i].name);
	free(views->known);
	views->known = NULL;
	views->known_count = 0;
}

static int remember(struct mk_views *views, const struct mk_views_input *input,
		    const struct mk_views_result *results)
{
	forget_known(views);
	views->known = calloc(input->peer_count + 1, sizeof(*views->known));
	if (!views->known)
		return -ENOMEM;
	for (size_t i = 0; i < input->peer_count; i++) {
		struct known *known = &views->known[i];

		known->name = strdup(input->peers[i].name);
		if (!known->name)
			return -ENOMEM;
		known->is_introduced = input->peers[i].is_introduced;
		memcpy(known->view, results[i].view, sizeof(known->view));
		views->known_count++;
	}
	return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int compare_age(const void *left, const void *right)
{
	const struct mk_views_peer *a = ((const struct at *)left)->peer;
	const struct mk_views_peer *b = ((const struct at *)right)->peer;

	if (a->created_unix_s != b->created_unix_s)
		return a->created_unix_s < b->created_unix_s ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int keep_all(struct work *work)
{
	int ret = 0;

	for (work->family = 0; work->family < MK_FAMILIES; work->family++)
		for (size_t i = 0; i < work->input->peer_count && ret == 0; i++)
			if (work->input->families[work->family])
				ret = keep(work, &work->peers[i]);
	return ret;
}

static int say_unknown(struct at *at)
{
	for (size_t family = 0; family < MK_FAMILIES; family++)
		if (at->peer->home[family].ip.family != AF_UNSPEC)
			return 0;
	return say(at->result, MK_RANGES_NOT_PUBLISHED,
		   format_text(
			   "the pod range of '%s' is not known: there is no PublishedCluster of it",
			   at->peer->name));
}

static int assign_all(struct work *work)
{
	int ret = 0;

	for (size_t i = 0; i < work->input->peer_count && ret == 0; i++)
		ret = say_unknown(&work->peers[i]);
	for (work->family = 0; work->family < MK_FAMILIES; work->family++)
		for (size_t i = 0; i < work->input->peer_count && ret == 0; i++)
			if (work->input->families[work->family])
				ret = assign(work, &work->peers[i]);
	return ret;
}

int mk_views_update(struct mk_views *views, const struct mk_views_input *input,
		    struct mk_views_result *results, struct mk_error *err)
{
	struct work work = { .views = views, .input = input };
	int ret;

	memset(results, 0, input->peer_count * sizeof(*results));
	work.peers = calloc(input->peer_count + 1, sizeof(*work.peers));
	ret = work.peers ? 0 : -ENOMEM;
	for (size_t i = 0; ret == 0 && i < input->peer_count; i++)
		work.peers[i] = (struct at){ &input->peers[i], &results[i] };
	if (ret == 0)
		qsort(work.peers, input->peer_count, sizeof(*work.peers), compare_age);
	ret = ret ?: keep_all(&work);
	forget_old(views, input->now_s);
	ret = ret ?: note_released(views, input, results);
	ret = ret ?: assign_all(&work);
	ret = ret ?: remember(views, input, results);
	free(work.peers);
	return ret < 0 ? mk_error_errno(err, ENOMEM, "views of %zu peers", input->peer_count) : 0;
}

void mk_views_results_release(struct mk_views_result *results, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(results[i].text);
}

struct mk_views *mk_views_new(void)
{
	return calloc(1, sizeof(struct mk_views));
}

void mk_views_free(struct mk_views *views)
{
	if (!views)
		return;
	forget_known(views);
	forget_old(views, INT64_MAX);
	free(views->released);
	free(views);
}
