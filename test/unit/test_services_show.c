// SPDX-License-Identifier: Apache-2.0
/* `monokube services`: its output, and the file of names that it reads. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/inspect/services.h"
#include "unit/sync_fixture.h"
#include "unit/unit.h"
#include "rows.h"

static struct mk_error err;

/* ---- output ---------------------------------------------------------------------------------- */

static struct mk_backend backends[] = {
	{ .addr = ROW_IPV4(0x0201f40a), .port = 0x901f }, /* 10.244.1.2:8080 */
	{ .addr = ROW_IPV4(0x0702f40a), .port = 0x901f },
};
static const struct mk_cli_frontend frontends[] = {
	{ { .addr = ROW_IPV4(0x5000600a), .port = 0x5000, .proto = IPPROTO_TCP },
	  { .backend_count = 2, .local_count = 1, .affinity_id = 4, .affinity_timeout_s = 10800 },
	  backends,
	  0,
	  "default/web" },
	{ { .addr = ROW_IPV4(0x0b63a8c0),
	    .port = 0x9075,
	    .proto = IPPROTO_SCTP,
	    .scope = MK_SCOPE_EXTERNAL },
	  { .flags = MK_FRONTEND_MASQUERADE | MK_FRONTEND_MAGLEV | MK_FRONTEND_PREFERS |
		     MK_FRONTEND_WITHOUT_DOWN,
	    .ranges_id = 3 },
	  NULL,
	  0,
	  "default/web" },
};
static const struct mk_service_totals totals = {
	.service_id = 12,
	.counter = { 3, { 20, 18 }, { 2000, 1800 } },
	.drops = { [MK_DROP_REFUSED] = 7 },
};
static const struct mk_cli_service services[] = {
	{ 12, "default/web", frontends, 2, &totals },
	{ 13, NULL, frontends, 1, NULL },
};

START_TEST(test_text)
{
	cleanup_free char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cli_show_text(out, services, 2);
	fclose(out);
	ck_assert_str_eq(
		text,
		"default/web (id 12)\n"
		"  10.96.0.80:80/TCP           internal affinity=10800s -> 10.244.1.2:8080(local) "
		"10.244.2.7:8080\n"
		"  192.168.99.11:30096/SCTP    external masquerade maglev prefers without-down "
		"source-ranges -> no endpoint\n"
		"  connections 3, requests 20 packets 2000 bytes, replies 18 packets 1800 bytes\n"
		"  dropped 7 REFUSED: Service without backends or unknown port (answered with port "
		"unreachable)\n"
		"? (id 13)\n"
		"  10.96.0.80:80/TCP           internal affinity=10800s -> 10.244.1.2:8080(local) "
		"10.244.2.7:8080\n"
		"  connections 0, requests 0 packets 0 bytes, replies 0 packets 0 bytes\n");
}
END_TEST

static const char *const json_lines[] = {
	"\"name\":\"default/web\"",
	"\"id\":12",
	"\"address\":\"192.168.99.11\"",
	"\"port\":30096",
	"\"protocol\":\"SCTP\"",
	"\"scope\":\"external\"",
	"\"masquerade\",",
	"\"prefers\",",
	"\"without-down\"",
	"\"affinitySeconds\":10800",
	"\"sourceRanges\":true",
	"\"local\":true",
	"\"connections\":3",
	"\"bytes\":1800",
	"\"REFUSED\":7",
	"\"name\":null",
};

START_TEST(test_json)
{
	cleanup_free char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	ck_assert_int_eq(cli_show_json(out, services, 2, &err), 0);
	fclose(out);
	for (size_t i = 0; i < MK_ARRAY_SIZE(json_lines); i++)
		ck_assert_msg(strstr(text, json_lines[i]), "no %s in:\n%s", json_lines[i], text);
}
END_TEST

START_TEST(test_json_of_nothing)
{
	cleanup_free char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	ck_assert_int_eq(cli_show_json(out, NULL, 0, &err), 0);
	fclose(out);
	ck_assert_str_eq(text, "[\n]\n");
}
END_TEST

START_TEST(test_text_of_nothing)
{
	cleanup_free char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cli_show_text(out, NULL, 0);
	fclose(out);
	ck_assert_str_eq(text, "no Services in the tables of this node\n");
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

static char directory[64];

static void names_setup(void)
{
	sync_setup();
	snprintf(directory, sizeof(directory), "/tmp/monokube-names.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void names_teardown(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/" MK_NAMES_FILE, directory);
	unlink(path);
	ck_assert_int_eq(rmdir(directory), 0); /* nothing else is left there */
	sync_teardown();
}

static uint32_t account_of(const char *vip)
{
	struct mk_frontend service;

	ck_assert(lookup(vip, 80, &service));
	return service.service_id;
}

START_TEST(test_names)
{
	struct mk_service_names names;
	uint32_t serial = mk_service_sync_names_serial(sync_), web, shop;

	apply_named("web", "10.96.0.1", "12");
	apply_named("shop", "10.96.0.2", "3");
	web = account_of("10.96.0.1");
	shop = account_of("10.96.0.2");
	ck_assert_uint_ne(mk_service_sync_names_serial(sync_), serial);
	serial = mk_service_sync_names_serial(sync_);
	apply_named("web", "10.96.0.1", "13"); /* other endpoints, same names */
	ck_assert_uint_eq(mk_service_sync_names_serial(sync_), serial);
	ck_assert_int_eq(mk_names_write(directory, AF_INET, sync_, &err), 0);
	ck_assert_int_eq(mk_names_read(directory, AF_INET, &names, &err), 0);
	ck_assert_uint_eq(names.count, 2);
	ck_assert_ptr_nonnull(strstr(mk_names_find(&names, web), "/web"));
	ck_assert_ptr_nonnull(strstr(mk_names_find(&names, shop), "/shop"));
	ck_assert_ptr_null(mk_names_find(&names, web + shop));
	mk_names_release(&names);
	remove_named("web");
	ck_assert_uint_ne(mk_service_sync_names_serial(sync_), serial);
	ck_assert_int_eq(mk_names_write(directory, AF_INET, sync_, &err), 0);
	ck_assert_int_eq(mk_names_read(directory, AF_INET, &names, &err), 0);
	ck_assert_uint_eq(names.count, 1);
	mk_names_release(&names);
}
END_TEST

START_TEST(test_no_names)
{
	struct mk_service_names names;

	ck_assert_int_eq(mk_names_read(directory, AF_INET, &names, &err), 0);
	ck_assert_ptr_null(mk_names_find(&names, 1));
	mk_names_release(&names);
}
END_TEST

/* Contents that an operator or a newer version may have written. */
START_TEST(test_odd_names)
{
	static const char text[] = "12 default/web\n\nweb\n0 a/b\n99999999999 a/b\n7 \n8 x/y";
	struct mk_service_names names;
	char path[128];

	snprintf(path, sizeof(path), "%s/" MK_NAMES_FILE, directory);
	ck_assert_int_eq(mk_file_replace(path, text, sizeof(text) - 1, 0644, &err), 0);
	ck_assert_int_eq(mk_names_read(directory, AF_INET, &names, &err), 0);
	ck_assert_uint_eq(names.count, 2);
	ck_assert_str_eq(mk_names_find(&names, 12), "default/web");
	ck_assert_str_eq(mk_names_find(&names, 8), "x/y");
	mk_names_release(&names);
}
END_TEST

UNIT_SUITE("monokube services")
{
	TCase *output = unit_case(suite, "output", NULL, NULL),
	      *names = unit_case(suite, "names", names_setup, names_teardown);

	tcase_add_test(output, test_text);
	tcase_add_test(output, test_json);
	tcase_add_test(output, test_json_of_nothing);
	tcase_add_test(output, test_text_of_nothing);
	tcase_add_test(names, test_names);
	tcase_add_test(names, test_no_names);
	tcase_add_test(names, test_odd_names);
}
