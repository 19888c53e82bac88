// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>

#include "base/ip.h"
#include "cli/cli.h"
#include "datapath/drops.h"

static volatile int stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static int print_totals(const char *bpf_dir, struct mk_error *err)
{
	struct mk_drop_totals totals;
	int ret = mk_drops_read(bpf_dir, &totals, err);

	if (ret < 0)
		return ret;
	printf("%-20s %-13s %10s %12s  %s\n", "REASON", "HOOK", "PACKETS", "BYTES", "MEANING");
	for (unsigned int reason = 0; reason < MK_DROP_COUNT; reason++)
		for (unsigned int hook = 0; hook < MK_HOOK_COUNT; hook++) {
			const struct mk_drop_counter *counter = &totals.counter[reason][hook];

			if (counter->packets == 0)
				continue;
			printf("%-20s %-13s %10llu %12llu  %s\n", mk_drop_reason_name(reason),
			       mk_hook_name(hook), (unsigned long long)counter->packets,
			       (unsigned long long)counter->bytes, mk_drop_reason_text(reason));
		}
	return 0;
}

static void print_event(void *ctx, const struct mk_drop_event *event)
{
	const struct mk_tuple *tuple = &event->tuple;
	struct mk_ip saddr = mk_ip_from_addr(&tuple->saddr), daddr = mk_ip_from_addr(&tuple->daddr);
	char from[MK_IP_STRLEN], to[MK_IP_STRLEN], name[IF_NAMESIZE] = "?";

	(void)ctx;
	if_indextoname(event->ifindex, name);
	printf("%llu.%06llu %s hook=%s dev=%s length=%u proto=%u %s:%u > %s:%u\n",
	       (unsigned long long)(event->time_ns / 1000000000ULL),
	       (unsigned long long)(event->time_ns % 1000000000ULL / 1000),
	       mk_drop_reason_name(event->reason), mk_hook_name(event->hook), name,
	       event->length_bytes, tuple->proto, mk_ip_format(&saddr, from), ntohs(tuple->sport),
	       mk_ip_format(&daddr, to), ntohs(tuple->dport));
	fflush(stdout);
}

int mk_cli_drops(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret == 0 && !options.follow)
		ret = print_totals(options.bpf_dir, &err);
	if (ret == 0 && options.follow) {
		sigaction(SIGINT, &action, NULL);
		sigaction(SIGTERM, &action, NULL);
		ret = mk_drops_follow(options.bpf_dir, options.state_dir, print_event, NULL, &stop,
				      &err);
	}
	return ret < 0 ? mk_cli_fail("drops", &err) : 0;
}
