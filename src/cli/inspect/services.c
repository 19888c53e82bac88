// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/services.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"

/* The tables of one family. */
struct tables {
	struct mk_table frontends, backends;
	struct mk_counter_tables counters;
	struct mk_service_totals *totals;
	size_t total_count;
	struct mk_service_names names;
};

struct listing {
	struct tables families[MK_FAMILIES];
	size_t family; /* the one that is read */
	struct mk_cli_frontend *frontends; /* sorted by Service, then by family and key */
	size_t frontend_count;
	struct mk_service_totals *sums; /* of Services that both families have */
	struct mk_cli_service *list;
	size_t count;
};

/* ---- tables ---------------------------------------------------------------------------------- */

static int open_tables(struct tables *tables, const char *dir, struct mk_error *err)
{
	int ret = mk_table_open(&tables->frontends, dir, "frontends",
				sizeof(struct mk_frontend_key), sizeof(struct mk_frontend), err);

	if (ret == 0)
		ret = mk_table_open(&tables->backends, dir, "service_backends",
				    sizeof(struct mk_backend_key), sizeof(struct mk_backend), err);
	ret = ret ?: mk_counters_open(&tables->counters, dir, err);
	if (ret == -ENOENT)
		return mk_error_wrap(err, "the datapath is not loaded (monokube status)");
	return ret;
}

static int add_frontend(void *ctx, const void *key_, const void *value, struct mk_error *err)
{
	const struct mk_frontend_key *key = key_;
	struct mk_cli_frontend *added;
	struct listing *listing = ctx;

	if (key->port == 0) /* says only that the address is a Service's */
		return 0;
	added = mk_append(listing->frontends, listing->frontend_count);
	if (!added)
		return mk_error_errno(err, ENOMEM, "cannot list the Services");
	*added = (struct mk_cli_frontend){ .key = *key,
					   .value = *(const struct mk_frontend *)value,
					   .family = listing->family };
	return 0;
}

static int read_family(struct listing *listing, const char *dir, const char *state_dir,
		       struct mk_error *err)
{
	struct tables *tables = &listing->families[listing->family];
	size_t first = listing->frontend_count;
	int ret = open_tables(tables, dir, err);

	ret = ret
		      ?: mk_names_read(state_dir, mk_table_family(&tables->frontends),
				       &tables->names, err);
	ret = ret ?: mk_table_each(&tables->frontends, add_frontend, listing, err);
	if (ret == 0)
		ret = mk_counters_read(&tables->counters, &tables->totals, &tables->total_count,
				       err);
	for (size_t i = first; i < listing->frontend_count; i++) {
		struct mk_cli_frontend *frontend = &listing->frontends[i];

		frontend->name = mk_names_find(&tables->names, frontend->value.service_id);
	}
	return ret;
}

/* A backend that is being replaced at this moment is left out, and shown as 0.0.0.0:0. */
static int read_backends(const struct listing *listing, struct mk_cli_frontend *frontend,
			 struct mk_error *err)
{
	struct mk_backend_key key = { .set_id = frontend->value.set_id,
				      .generation = frontend->value.generation };

	if (frontend->value.backend_count == 0)
		return 0;
	frontend->backends = calloc(frontend->value.backend_count, sizeof(*frontend->backends));
	if (!frontend->backends)
		return mk_error_errno(err, ENOMEM, "cannot list the backends");
	for (; key.index < frontend->value.backend_count; key.index++) {
		int ret = mk_table_get(&listing->families[frontend->family].backends, &key,
				       &frontend->backends[key.index], err);

		if (ret < 0 && ret != -ENOENT)
			return ret;
	}
	return 0;
}

/* ---- Services -------------------------------------------------------------------------------- */

/* Order named Services by name, before those without a name. */
static int compare_name(const char *x, const char *y)
{
	if (x && y)
		return strcmp(x, y);
	return !x - !y;
}

static int compare_frontends(const void *a, const void *b)
{
	const struct mk_cli_frontend *x = a, *y = b;
	int order = compare_name(x->name, y->name);

	if (order)
		return order;
	if (x->family != y->family)
		return x->family < y->family ? -1 : 1;
	if (x->value.service_id != y->value.service_id)
		return x->value.service_id < y->value.service_id ? -1 : 1;
	if (x->key.scope != y->key.scope)
		return x->key.scope - y->key.scope;
	return memcmp(&x->key, &y->key, sizeof(x->key));
}

/* Each family has ids of its own, so the name says that two are the same Service. */
static bool is_of_same_service(const struct mk_cli_frontend *x, const struct mk_cli_frontend *y)
{
	if (x->family == y->family)
		return x->value.service_id == y->value.service_id;
	return x->name && y->name && strcmp(x->name, y->name) == 0;
}

static bool is_called(const struct mk_cli_service *service, const char *name)
{
	const char *slash = service->name ? strchr(service->name, '/') : NULL;
	char id[16];

	snprintf(id, sizeof(id), "%u", service->service_id);
	return *name == '\0' || strcmp(id, name) == 0 ||
	       (service->name && strcmp(service->name, name) == 0) ||
	       (slash && strcmp(slash + 1, name) == 0);
}

/* Add the totals of the family of @frontend to the Service. */
static void take_totals(struct listing *listing, struct mk_cli_service *service,
			const struct mk_cli_frontend *frontend)
{
	const struct tables *tables = &listing->families[frontend->family];
	const struct mk_service_totals *more =
		mk_counters_find(tables->totals, tables->total_count, frontend->value.service_id);
	struct mk_service_totals *sum = &listing->sums[listing->count];

	if (!more)
		return;
	mk_counters_add(sum, more);
	service->totals = sum;
}

/* Make a Service of the frontends from @at on. Returns the index after its last one. */
static size_t take_service(struct listing *listing, size_t at, const char *name)
{
	const struct mk_cli_frontend *first = &listing->frontends[at], *last = NULL;
	struct mk_cli_service service = { .service_id = first->value.service_id,
					  .name = first->name,
					  .frontends = first };

	listing->sums[listing->count] = (struct mk_service_totals){ 0 };
	for (; at < listing->frontend_count; at++) {
		const struct mk_cli_frontend *next = &listing->frontends[at];

		if (!is_of_same_service(last ?: first, next))
			break;
		if (!last || last->family != next->family)
			take_totals(listing, &service, next);
		last = next;
	}
	service.frontend_count = (size_t)(&listing->frontends[at] - first);
	if (is_called(&service, name))
		listing->list[listing->count++] = service;
	return at;
}

static int collect(struct listing *listing, const char *name, struct mk_error *err)
{
	listing->list = calloc(listing->frontend_count + 1, sizeof(*listing->list));
	listing->sums = calloc(listing->frontend_count + 1, sizeof(*listing->sums));
	if (!listing->list || !listing->sums)
		return mk_error_errno(err, ENOMEM, "cannot list the Services");
	if (listing->frontend_count)
		qsort(listing->frontends, listing->frontend_count, sizeof(*listing->frontends),
		      compare_frontends);
	for (size_t at = 0; at < listing->frontend_count;)
		at = take_service(listing, at, name);
	if (*name && listing->count == 0)
		return mk_error_set(
			err, ENOENT,
			"no Service '%s' in the tables of this node: `monokube services` lists all",
			name);
	for (size_t i = 0; i < listing->count; i++)
		for (size_t j = 0; j < listing->list[i].frontend_count; j++) {
			size_t at = (size_t)(listing->list[i].frontends - listing->frontends) + j;
			int ret = read_backends(listing, &listing->frontends[at], err);

			if (ret < 0)
				return ret;
		}
	return 0;
}

static void release(struct listing *listing)
{
	for (size_t i = 0; i < listing->frontend_count; i++)
		free(listing->frontends[i].backends);
	free(listing->frontends);
	free(listing->sums);
	free(listing->list);
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		struct tables *tables = &listing->families[i];

		free(tables->totals);
		mk_names_release(&tables->names);
		mk_counters_close(&tables->counters);
		mk_table_close(&tables->frontends);
		mk_table_close(&tables->backends);
	}
}

/* The word selects one Service: "namespace/name", "name" or its id. -ENOENT: no such Service, or no
 * tables. */
static int show(const struct mk_cli_options *options, struct mk_error *err)
{
	struct listing listing = { 0 };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < options->family_count; i++) {
		listing.family = i;
		ret = read_family(&listing, options->families[i].dir, options->state_dir, err);
	}
	ret = ret ?: collect(&listing, options->words[0] ?: "", err);
	if (ret == 0 && options->json)
		ret = cli_show_json(stdout, listing.list, listing.count, err);
	else if (ret == 0)
		cli_show_text(stdout, listing.list, listing.count);
	release(&listing);
	return ret;
}

int mk_cli_services(int argc, char **argv)
{
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret == 0)
		ret = show(&options, &err);
	return ret < 0 ? mk_cli_fail("services", &err) : 0;
}
