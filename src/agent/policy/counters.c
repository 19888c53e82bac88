// SPDX-License-Identifier: Apache-2.0
#include "agent/policy/counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

struct row_key {
	struct mk_policy_count_key key;
	unsigned int family, pad;
};

struct counted_row {
	UT_hash_handle hh;
	struct row_key key;
	uint64_t packets;
	unsigned int turn; /* the row was there */
};

struct counted_rule {
	UT_hash_handle hh;
	struct mk_metrics_rule of;
	char *namespace_, *policy;
	char key[];
};

/* ---- rules ----------------------------------------------------------------------------------- */

static void free_rule(struct policy_counters *counters, struct counted_rule *rule)
{
	HASH_DEL(counters->rules, rule);
	LL_DELETE(counters->list, &rule->of);
	counters->rule_count--;
	free(rule->namespace_);
	free(rule->policy);
	free(rule);
}

static struct counted_rule *add_rule(struct policy_counters *counters, const char *key,
				     const struct mk_policy_rule_view *view)
{
	size_t bytes = strlen(key) + 1;
	struct counted_rule *rule;

	if (counters->rule_count >= COUNTERS_RULES_MAX)
		return NULL;
	rule = calloc(1, sizeof(*rule) + bytes);
	if (!rule)
		return NULL;
	memcpy(rule->key, key, bytes);
	rule->of.namespace_ = rule->namespace_ = strdup(view->namespace_);
	rule->of.policy = rule->policy = strdup(view->policy);
	HASH_ADD_STR(counters->rules, key, rule);
	LL_PREPEND(counters->list, &rule->of);
	counters->rule_count++;
	if (rule->namespace_ && rule->policy)
		return rule;
	free_rule(counters, rule);
	return NULL;
}

static enum mk_policy_outcome outcome_of(const struct mk_policy_count_key *key)
{
	if (key->audited)
		return MK_POLICY_AUDITED;
	return key->denied ? MK_POLICY_DENIED : MK_POLICY_ALLOWED;
}

static void count_rule(struct policy_counters *counters, const struct mk_policy_count_key *key,
		       const struct mk_policy_rule_view *view, uint64_t packets)
{
	const size_t number = *view->policy ? view->index + 1 : 0;
	struct counted_rule *rule;
	char text[600];

	snprintf(text, sizeof(text), "%u/%u/%s/%s/%zu", key->direction, outcome_of(key),
		 view->namespace_, view->policy, number);
	HASH_FIND_STR(counters->rules, text, rule);
	if (!rule)
		rule = add_rule(counters, text, view);
	if (!rule)
		return;
	rule->of.rule = number;
	rule->of.direction = key->direction;
	rule->of.outcome = outcome_of(key);
	rule->of.packets += packets;
}

void counters_forget(struct policy_counters *counters,
		     bool (*exists)(const void *ctx, const char *namespace_, const char *policy),
		     const void *ctx)
{
	struct counted_rule *rule, *next;

	HASH_ITER(hh, counters->rules, rule, next)
		if (*rule->policy && !exists(ctx, rule->namespace_, rule->policy))
			free_rule(counters, rule);
}

/* ---- rows ------------------------------------------------------------------------------------ */

void counters_begin(struct policy_counters *counters)
{
	counters->turn++;
}

static struct counted_row *find_row(struct policy_counters *counters, const struct row_key *key)
{
	struct counted_row *row;

	HASH_FIND(hh, counters->rows, key, sizeof(*key), row);
	if (row)
		return row;
	row = calloc(1, sizeof(*row));
	if (!row)
		return NULL;
	row->key = *key;
	HASH_ADD(hh, counters->rows, key, sizeof(*key), row);
	return row;
}

/* A row that was removed and is back begins with 0. */
void counters_see(struct policy_counters *counters, unsigned int family,
		  const struct mk_policy_count_key *key, uint64_t packets,
		  const struct mk_policy_rule_view *view)
{
	const struct row_key of = { .key = *key, .family = family };
	struct counted_row *row = find_row(counters, &of);
	uint64_t more;

	if (!row || key->tier >= MK_POLICY_TIERS || key->direction >= MK_POLICY_DIRECTIONS)
		return;
	more = packets >= row->packets ? packets - row->packets : packets;
	row->packets = packets;
	row->turn = counters->turn;
	counters->flows[family][key->direction][outcome_of(key)][key->tier] += more;
	if (view && more)
		count_rule(counters, key, view, more);
}

void counters_end(struct policy_counters *counters)
{
	struct counted_row *row, *next;

	HASH_ITER(hh, counters->rows, row, next)
		if (row->turn != counters->turn) {
			HASH_DEL(counters->rows, row);
			free(row);
		}
}

void counters_release(struct policy_counters *counters)
{
	struct counted_rule *rule, *next;

	counters->turn++;
	counters_end(counters);
	HASH_ITER(hh, counters->rules, rule, next)
		free_rule(counters, rule);
}
