// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/services.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

struct listing {
	struct mk_table table, backends;
	struct mk_counter_tables counters;
	struct mk_cli_frontend *frontends; /* sorted by service_id, then by key */
	size_t frontend_count;
	struct mk_service_totals *totals;
	size_t total_count;
	struct mk_service_names names;
	struct mk_cli_service *list;
	size_t count;
};

/* ---- tables ---------------------------------------------------------------------------------- */

static int open_tables(struct listing *listing, const char *bpf_dir, struct mk_error *err)
{
	int ret = mk_table_open(&listing->table, bpf_dir, "frontends",
				sizeof(struct mk_frontend_key), sizeof(struct mk_frontend), err);

	if (ret == 0)
		ret = mk_table_open(&listing->backends, bpf_dir, "service_backends",
				    sizeof(struct mk_backend_key), sizeof(struct mk_backend), err);
	ret = ret ?: mk_counters_open(&listing->counters, bpf_dir, err);
	if (ret == -ENOENT)
		return mk_error_wrap(err, "the datapath is not loaded (monokube status)");
	return ret;
}

static int add_frontend(void *ctx, const void *key_, const void *value, struct mk_error *err)
{
	const struct mk_frontend_key *key = key_;
	struct mk_cli_frontend *more;
	struct listing *listing = ctx;

	if (key->port == 0) /* says only that the address is a Service's */
		return 0;
	if ((listing->frontend_count & (listing->frontend_count + 1)) == 0) {
		more = reallocarray(listing->frontends, listing->frontend_count * 2 + 2,
				    sizeof(*more));
		if (!more)
			return mk_error_errno(err, ENOMEM, "cannot list the Services");
		listing->frontends = more;
	}
	listing->frontends[listing->frontend_count++] =
		(struct mk_cli_frontend){ .key = *key,
					  .value = *(const struct mk_frontend *)value };
	return 0;
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
		int ret =
			mk_table_get(&listing->backends, &key, &frontend->backends[key.index], err);

		if (ret < 0 && ret != -ENOENT)
			return ret;
	}
	return 0;
}

/* ---- Services -------------------------------------------------------------------------------- */

static int compare_frontends(const void *a, const void *b)
{
	const struct mk_cli_frontend *x = a, *y = b;

	if (x->value.service_id != y->value.service_id)
		return x->value.service_id < y->value.service_id ? -1 : 1;
	if (x->key.scope != y->key.scope)
		return x->key.scope - y->key.scope;
	return memcmp(&x->key, &y->key, sizeof(x->key));
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

static int compare_names(const void *a, const void *b)
{
	const struct mk_cli_service *x = a, *y = b;

	if (x->name && y->name)
		return strcmp(x->name, y->name);
	if (!x->name != !y->name)
		return x->name ? -1 : 1;
	return x->service_id < y->service_id ? -1 : 1;
}

/* Make a Service of the frontends with one service_id. Returns the index after the last one. */
static size_t take_service(struct listing *listing, size_t at, const char *name)
{
	struct mk_cli_service service = { .service_id = listing->frontends[at].value.service_id,
					  .frontends = &listing->frontends[at] };

	while (at < listing->frontend_count &&
	       listing->frontends[at].value.service_id == service.service_id)
		at++;
	service.frontend_count = (size_t)(&listing->frontends[at] - service.frontends);
	service.name = mk_names_find(&listing->names, service.service_id);
	service.totals =
		mk_counters_find(listing->totals, listing->total_count, service.service_id);
	if (is_called(&service, name))
		listing->list[listing->count++] = service;
	return at;
}

static int collect(struct listing *listing, const char *name, struct mk_error *err)
{
	listing->list = calloc(listing->frontend_count + 1, sizeof(*listing->list));
	if (!listing->list)
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
	qsort(listing->list, listing->count, sizeof(*listing->list), compare_names);
	return 0;
}

static void release(struct listing *listing)
{
	for (size_t i = 0; i < listing->frontend_count; i++)
		free(listing->frontends[i].backends);
	free(listing->frontends);
	free(listing->totals);
	free(listing->list);
	mk_names_release(&listing->names);
	mk_counters_close(&listing->counters);
	mk_table_close(&listing->table);
	mk_table_close(&listing->backends);
}

int cli_services_show(FILE *out, const char *bpf_dir, const char *state_dir, const char *name,
		      bool json, struct mk_error *err)
{
	struct listing listing = { 0 };
	int ret = open_tables(&listing, bpf_dir, err);

	ret = ret ?: mk_names_read(state_dir, mk_table_family(&listing.table), &listing.names, err);
	ret = ret ?: mk_table_each(&listing.table, add_frontend, &listing, err);
	if (ret == 0)
		ret = mk_counters_read(&listing.counters, &listing.totals, &listing.total_count,
				       err);
	ret = ret ?: collect(&listing, name, err);
	if (ret == 0 && json)
		ret = cli_show_json(out, listing.list, listing.count, err);
	else if (ret == 0)
		cli_show_text(out, listing.list, listing.count);
	release(&listing);
	return ret;
}

int mk_cli_services(int argc, char **argv)
{
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret == 0)
		ret = cli_services_show(stdout, options.bpf_dir, options.state_dir,
					options.words[0] ? options.words[0] : "", options.json,
					&err);
	return ret < 0 ? mk_cli_fail("services", &err) : 0;
}
