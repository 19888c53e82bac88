// SPDX-License-Identifier: Apache-2.0
/* perf/scale_watch PIN CHANGES FIFO SINGLE RATE SECONDS - the time until a change of an
 * EndpointSlice is in the tables. CHANGES has watch events (perf/scale_lists.py). FIFO leads
 * through the stand-in for an API server into the agent's watch. PIN is the pinned map `frontends`.
 *
 * SINGLE events come one after the other. The time of each is from the write into the FIFO until
 * the Service's entry has changed, stand-in and TLS included. Then RATE events a second come for
 * SECONDS: how far are the tables behind at the end? Prints one JSON object. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "monokube/abi.h"
#include "base/cleanup.h"
#include "base/ip.h"
#include "datapath/maps/table.h"

#define FIRST_ADDRESS 0x0a800010U /* 10.128.0.16, Service 0 in scale_lists.py */
#define GIVE_UP_MS    30000

static struct mk_table frontends;
static FILE *changes;
static int fifo;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "scale_watch: %s: %s\n", what, why);
	exit(1);
}

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void pause_ms(double ms)
{
	struct timespec pause = { .tv_sec = (time_t)(ms / 1e3),
				  .tv_nsec = (long)(ms * 1e6) % 1000000000 };

	if (ms > 0)
		nanosleep(&pause, NULL);
}

/* Read the entry of the Service that @line's slice belongs to. */
static struct mk_frontend entry_of(const char *line)
{
	const char *name = strstr(line, "\"kubernetes.io/service-name\":\"svc-");
	struct mk_ip ip = { .family = AF_INET };
	struct mk_frontend_key key = { .port = htons(80),
				       .proto = IPPROTO_TCP,
				       .scope = MK_SCOPE_INTERNAL };
	struct mk_frontend service = { 0 };
	char number[7] = "";
	struct mk_error err;

	if (!name)
		fail("changes", "a line names no Service");
	name = strstr(name, "svc-") + strlen("svc-");
	snprintf(number, sizeof(number), "%s", name);
	ip.v4.s_addr = htonl(FIRST_ADDRESS + (uint32_t)strtoul(number, NULL, 10));
	key.addr = mk_ip_to_addr(&ip);
	if (mk_table_get(&frontends, &key, &service, &err) < 0)
		fail(number, mk_error_text(&err));
	return service;
}

static void await_change(const char *line, const struct mk_frontend *before, double start)
{
	struct mk_frontend now;

	do {
		now = entry_of(line);
		if (now_ms() - start > GIVE_UP_MS)
			fail("tables", "a change is not in them after 30 s");
	} while (memcmp(&now, before, sizeof(now)) == 0);
}

static ssize_t next_line(char **line, size_t *room)
{
	ssize_t size = getline(line, room, changes);

	if (size <= 0)
		fail("changes", "there are not enough of them");
	return size;
}

static void send_line(const char *line, ssize_t size)
{
	for (ssize_t at = 0, sent; at < size; at += sent) {
		sent = write(fifo, line + at, (size_t)(size - at));
		if (sent < 0)
			fail("FIFO", strerror(errno));
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure_alone(size_t count)
{
	double *times = calloc(count + 1, sizeof(*times));
	cleanup_free char *line = NULL;
	size_t room = 0;

	for (size_t i = 0; times && i < count; i++) {
		ssize_t size = next_line(&line, &room);
		struct mk_frontend before = entry_of(line);
		double start = now_ms();

		send_line(line, size);
		await_change(line, &before, start);
		times[i] = now_ms() - start;
		pause_ms(5);
	}
	if (!times || !count)
		fail("SINGLE", "expected a number from 1");
	qsort(times, count, sizeof(*times), compare);
	printf("{\"changes\":%zu,\"median_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f,", count,
	       times[count / 2], times[count * 99 / 100], times[count - 1]);
	free(times);
}

static void measure_rate(size_t rate, size_t seconds)
{
	double start = now_ms(), sent = start;
	cleanup_free char *line = NULL;
	struct mk_frontend before = { 0 };
	size_t room = 0;

	for (size_t i = 0; i < rate * seconds; i++) {
		ssize_t size = next_line(&line, &room);

		pause_ms(start + (double)i * 1e3 / (double)rate - now_ms());
		before = entry_of(line);
		sent = now_ms();
		send_line(line, size);
	}
	await_change(line, &before, sent);
	printf("\"rate_wanted\":%zu,\"rate\":%.0f,\"behind_ms\":%.3f}\n", rate,
	       (double)(rate * seconds) * 1e3 / (sent - start), now_ms() - sent);
}

int main(int argc, char **argv)
{
	int map;

	if (argc != 7)
		fail("usage", "scale_watch PIN CHANGES FIFO SINGLE RATE SECONDS");
	map = bpf_obj_get(argv[1]);
	changes = fopen(argv[2], "r");
	fifo = open(argv[3], O_WRONLY);
	if (map < 0 || !changes || fifo < 0 ||
	    mk_table_init(&frontends, "frontends", map, NULL) < 0)
		fail("cannot open", strerror(errno));
	measure_alone(strtoul(argv[4], NULL, 10));
	measure_rate(strtoul(argv[5], NULL, 10), strtoul(argv[6], NULL, 10));
	return 0;
}
