// SPDX-License-Identifier: Apache-2.0
#include "bpf/clients.h"

#include <linux/icmp.h>
#include <string.h>

void clients_load_keeping(void)
{
	fixture_keep_client();
	fixture_load_small();
}

void clients_put_nodes(void)
{
	fixture_peer_address("192.168.99.12", "10.18.0.2");
	fixture_peer("10.244.3.0", "10.18.0.3");
	fixture_peer_address("192.168.99.13", "10.18.0.3");
}

TCase *clients_case(Suite *suite, const char *name, SFun load, SFun setup)
{
	TCase *tcase = tcase_create(name);

	tcase_add_unchecked_fixture(tcase, load, fixture_unload);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	return tcase;
}

struct frame hop(const char *name, enum mk_hook hook, const char *flow,
		 const struct frame_options *with, enum where where, const char *seen,
		 const char *to_node)
{
	struct frame in = frame_make(flow, with), out;

	out = fixture_expect(name, hook, &in, where, seen);
	if (to_node)
		ck_assert_msg(strcmp(frame_mac_dest(&out), to_node) == 0, "%s: to %s", name,
			      frame_mac_dest(&out));
	return out;
}

struct frame error_about(const char *flow, const char *from_to, const char *mac, uint8_t code)
{
	const struct frame quoted = frame_make(flow, NULL);
	const struct frame_options with = { .quote = &quoted,
					    .icmp_type = ICMP_DEST_UNREACH,
					    .icmp_code = code,
					    .icmp_mtu = code == ICMP_FRAG_NEEDED ? 1400 : 0,
					    .source_mac = mac };

	return frame_make(from_to, &with);
}
