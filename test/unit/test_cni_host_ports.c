// SPDX-License-Identifier: Apache-2.0
/* Host ports: the CNI verbs against the kernel. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/pods/host_ports.h"
#include "datapath/sessions/sweep.h"
#include "pod/endpoint/restore.h"
#include "unit/cni_node.h"
#include "unit/host_ports_fixture.h"

static struct mk_error err;

/* Do the programs know that a pod receives UDP at @port? */
static bool is_udp_port(uint16_t port)
{
	struct mk_table table_ = open_table("udp_ports", sizeof(__u32), sizeof(struct mk_port_set));
	struct mk_port_set now;
	__u32 zero = 0;

	ck_ok(mk_table_get(&table_, &zero, &now, &err));
	mk_table_close(&table_);
	return now.words[port / 32] >> (port % 32) & 1;
}

static const char *fields_of_check(const char *fields)
{
	static char text[4400];

	snprintf(text, sizeof(text), "%s,\"prevResult\":%s", fields, answer);
	return text;
}

START_TEST(test_add_check_del)
{
	static const char fields[] =
		MAPPINGS(TCP_8080 ",{\"hostPort\":53,\"containerPort\":5353,\"protocol\":\"udp\"}");

	add_mapped("a", fields);
	ck_mapped(2);
	ck_assert(is_udp_port(5353));
	ck_assert(!is_udp_port(53) && !is_udp_port(80));
	ck_leads(8080, "10.244.1.2");
	ck_assert_uint_eq(ntohs(host_port_at(8080).port), 80);
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", fields_of_check(fields)) == 0,
		      "%s", answer);
	del("a");
	ck_mapped(0);
	ck_exist(0);
}
END_TEST

static const struct {
	const char *name, *command, *text;
} losses[] = {
	{ "removed",
	  "bpftool map delete pinned " BPF_DIR "/maps/host_ports key hex 00 00 00 00 1f 90 06 00",
	  "no entry for 0.0.0.0:8080/tcp" },
	{ "another pod's",
	  "bpftool map update pinned " BPF_DIR "/maps/host_ports key hex 00 00 00 00 1f 90 06 00 "
	  "value hex 0a f4 01 09 00 50 00 00 02 00 00 00",
	  "leads 0.0.0.0:8080/tcp to 10.244.1.9, port 80" },
	{ "another port",
	  "bpftool map update pinned " BPF_DIR "/maps/host_ports key hex 00 00 00 00 1f 90 06 00 "
	  "value hex 0a f4 01 02 00 51 00 00 02 00 00 00",
	  "to 10.244.1.2, port 81" },
	{ "an older device's",
	  "bpftool map update pinned " BPF_DIR "/maps/host_ports key hex 00 00 00 00 1f 90 06 00 "
	  "value hex 0a f4 01 02 00 50 00 00 ff 00 00 00",
	  "interface number 255" },
	{ "the table", "rm " BPF_DIR "/maps/host_ports", "'host_ports' is not pinned" },
};

START_TEST(test_check_finds)
{
	char fields[4400];

	add_mapped("a", MAPPINGS(TCP_8080));
	snprintf(fields, sizeof(fields), "%s", fields_of_check(MAPPINGS(TCP_8080)));
	ck_assert_msg(system(losses[_i].command) == 0, "%s", losses[_i].name);
	ck_fails(call("CHECK", "a", netns_path("a"), "1.0.0", fields), MK_CNI_CHECK_FAILED,
		 losses[_i].text);
}
END_TEST

START_TEST(test_conflict)
{
	add_mapped("a", MAPPINGS(TCP_8080));
	new_netns("b");
	ck_fails(call("ADD", "b", netns_path("b"), "1.0.0",
		      MAPPINGS("{\"hostPort\":8081,\"containerPort\":80}," TCP_8080)),
		 MK_CNI_TRY_AGAIN,
		 "host port 0.0.0.0:8080/tcp, wanted for container 'b', leads to container 'a' "
		 "interface 'eth0' (10.244.1.2)");
	ck_exist(1);
	ck_mapped(1);
	ck_leads(8080, "10.244.1.2");
	inside("b", "ip -o link show type veth | { ! grep -q .; }");
	del("a");
	ck_assert_msg(call("ADD", "b", netns_path("b"), "1.0.0", MAPPINGS(TCP_8080)) == 0, "%s",
		      answer);
	ck_leads(8080, "10.244.1.4");
}
END_TEST

/* podman sends a container's mappings with each of its interfaces: they stay with the first. */
START_TEST(test_two_interfaces)
{
	static const char both[] = MAPPINGS(TCP_8080 ",{\"hostPort\":7001,\"containerPort\":80}");

	add_mapped("a", MAPPINGS(TCP_8080));
	cni_ifname = "net1";
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.0.0", both) == 0, "%s", answer);
	ck_mapped(2);
	ck_leads(8080, "10.244.1.2");
	ck_leads(7001, "10.244.1.3");
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", fields_of_check(both)) == 0,
		      "%s", answer);
	new_netns("b");
	ck_fails(call("ADD", "b", netns_path("b"), "1.0.0", both), MK_CNI_TRY_AGAIN,
		 "leads to container 'a' interface 'eth0' (10.244.1.2)");
	del("a");
	ck_mapped(1);
	ck_leads(8080, "10.244.1.2");
	cni_ifname = "eth0";
	del("a");
	ck_mapped(0);
}
END_TEST

/* Another address or protocol makes another mapping, in the same pod or another. */
START_TEST(test_side_by_side)
{
	add_mapped("a", MAPPINGS(TCP_8080));
	add_mapped("b", MAPPINGS("{\"hostPort\":8080,\"containerPort\":80,\"protocol\":\"udp\"}"));
	add_mapped("c", MAPPINGS("{\"hostPort\":8080,\"containerPort\":80,"
				 "\"hostIP\":\"127.0.0.1\"}"));
	ck_mapped(3);
	del("b");
	ck_mapped(2);
	ck_leads(8080, "10.244.1.2");
	del("a");
	ck_mapped(1);
}
END_TEST

START_TEST(test_undone_when_full)
{
	char fields[2048] = MAPPINGS("{\"hostPort\":0}");
	size_t used = strlen(fields) - 2;

	for (int i = 1; i <= HOST_PORTS_MAX + 1; i++)
		used += (size_t)snprintf(fields + used, sizeof(fields) - used,
					 ",{\"hostPort\":%d,\"containerPort\":80}", i);
	snprintf(fields + used, sizeof(fields) - used, "]}");
	new_netns("a");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", fields), MK_CNI_SETUP_FAILED,
		 "'host_ports' is full");
	ck_exist(0);
	ck_mapped(0);
}
END_TEST

START_TEST(test_older_datapath)
{
	ck_assert_int_eq(unlink(BPF_DIR "/maps/host_ports"), 0);
	new_netns("a");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", MAPPINGS(TCP_8080)), MK_CNI_TRY_AGAIN,
		 "older version");
	ck_exist(0);
	add("a");
	del("a");
	ck_exist(0);
}
END_TEST

/* The pod's device and then its address file disappeared before DEL. */
START_TEST(test_del_of_half_a_pod)
{
	add_mapped("a", MAPPINGS(TCP_8080));
	add_mapped("b", MAPPINGS("{\"hostPort\":8081,\"containerPort\":80}"));
	remove_device("a");
	del("a");
	ck_mapped(1);
	ck_assert_int_eq(unlink(STATE "/ipam/10.244.1.3"), 0);
	del("b");
	ck_mapped(0);
	ck_exist(0);
}
END_TEST

START_TEST(test_add_killed)
{
	static const char input[] = "{\"cniVersion\":\"1.0.0\"," NETWORK MAPPINGS(TCP_8080) "}";
	static const char none[] = ",\"cni.dev/valid-attachments\":[]";
	cleanup_close int fd = open("/dev/null", O_WRONLY);
	unsigned int seed = 7;

	new_netns("a");
	for (int i = 0; i < 60; i++) {
		struct timespec pause = { .tv_nsec = rand_r(&seed) % 3000000 };
		pid_t pid = start_verb("ADD", "a", netns_path("a"), input, fd);

		nanosleep(&pause, NULL);
		kill(pid, SIGKILL);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		if (i % 2)
			del("a");
		else
			ck_assert_int_eq(call("GC", "", "", "1.1.0", none), 0);
		ck_exist(0);
		ck_assert_uint_eq(entries_of("host_ports", sizeof(struct mk_host_port_key),
					     sizeof(struct mk_host_port)),
				  0);
	}
	ck_assert_int_eq(call("GC", "", "", "1.1.0", none), 0);
	ck_mapped(0);
}
END_TEST

/* ---- sessions -------------------------------------------------------------------------------- */

struct flow {
	const char *client, *asked, *to; /* "address:port" of asked and to, the client's is 40000 */
	uint8_t proto;
	uint32_t set_id;
};

static void read_port(const char *text, struct mk_addr *addr, __be16 *port)
{
	char copy[32];
	struct mk_ip ip;

	snprintf(copy, sizeof(copy), "%s", text);
	*strchr(copy, ':') = '\0';
	ip = ip_of(copy);
	*addr = mk_ip_to_addr(&ip);
	*port = htons((uint16_t)atoi(strchr(text, ':') + 1));
}

static void open_session(const char *name, const struct flow *flow)
{
	struct mk_table sessions =
		open_table(name, sizeof(struct mk_tuple), sizeof(struct mk_session));
	struct mk_session forward = { .flags = MK_SESSION_FORWARD, .set_id = flow->set_id };
	struct mk_session back = { .set_id = flow->set_id };
	struct mk_tuple key = { .proto = flow->proto }, back_key;

	read_port(flow->client, &key.saddr, &key.sport);
	read_port(flow->asked, &key.daddr, &key.dport);
	forward.to = key;
	read_port(flow->to, &forward.to.daddr, &forward.to.dport);
	back_key = mk_session_pair_key(&forward);
	back.to = (struct mk_tuple){ .saddr = key.daddr,
				     .daddr = key.saddr,
				     .sport = key.dport,
				     .dport = key.sport,
				     .proto = key.proto };
	ck_ok(mk_table_put(&sessions, &key, &forward, &err));
	ck_ok(mk_table_put(&sessions, &back_key, &back, &err));
	mk_table_close(&sessions);
}

static const struct {
	const char *name;
	struct flow flow;
	bool cut;
} sessions[] = {
	{ "UDP through the host port",
	  { "203.0.113.10:40000", "192.168.99.11:53", "10.244.1.2:53", IPPROTO_UDP, 0 },
	  true },
	{ "of another pod of the node",
	  { "10.244.1.7:40000", "192.168.99.11:53", "10.244.1.2:53", IPPROTO_UDP, 0 },
	  true },
	{ "TCP through the host port",
	  { "203.0.113.10:40000", "192.168.99.11:8080", "10.244.1.2:80", IPPROTO_TCP, 0 },
	  true },
	{ "a Service's",
	  { "203.0.113.10:40000", "192.168.99.11:53", "10.244.1.2:53", IPPROTO_UDP, 7 },
	  false },
	{ "the pod's own address",
	  { "203.0.113.10:40000", "10.244.1.2:53", "10.244.1.2:53", IPPROTO_UDP, 0 },
	  false },
	{ "another pod's host port",
	  { "203.0.113.10:40000", "192.168.99.11:54", "10.244.1.3:53", IPPROTO_UDP, 0 },
	  false },
	{ "another host port of the same number to another pod",
	  { "203.0.113.10:40000", "192.168.99.12:53", "10.244.1.3:53", IPPROTO_UDP, 0 },
	  false },
};

static size_t session_count(const char *name)
{
	return entries_of(name, sizeof(struct mk_tuple), sizeof(struct mk_session));
}

static void check_cut(const char *name, const struct flow *flow, bool cut)
{
	open_session("sessions", flow);
	open_session("sessions_young", flow);
	del("a");
	ck_assert_msg(session_count("sessions") == (cut ? 0 : 2), "%s", name);
	ck_assert_msg(session_count("sessions_young") == (cut ? 0 : 2), "%s: new", name);
}

START_TEST(test_del_cuts)
{
	add_mapped("a", MAPPINGS(TCP_8080 ",{\"hostPort\":53,\"containerPort\":53,"
					  "\"protocol\":\"udp\"}"));
	check_cut(sessions[_i].name, &sessions[_i].flow, sessions[_i].cut);
}
END_TEST

START_TEST(test_kill_leaves_no_session)
{
	add_mapped("a", MAPPINGS(TCP_8080));
	put_host_port(3, "10.244.1.2", host_port_at(8080).ifindex, true);
	open_session("sessions", &(struct flow){ "203.0.113.10:40000", "192.168.99.11:3",
						 "10.244.1.2:80", IPPROTO_TCP, 0 });
	ck_ok(mk_cni_reap(STATE, BPF_DIR, "mk", &err));
	ck_assert_uint_eq(session_count("sessions"), 0);
}
END_TEST

/* ---- map runtime ----------------------------------------------------------------------------- */

/* As `monokube drops --follow` starts and ends. */
static pid_t toggle_reports(void)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	for (int i = 1; i <= 401; i++) {
		const struct mk_runtime_change change = { .set_report_drops = true,
							  .report_drops = i % 2 };

		if (mk_runtime_change(BPF_DIR, STATE, &change, &err) < 0)
			_exit(1);
	}
	_exit(0);
}

/* As pods are added and deleted. It ends with no entry, or with its own. */
static pid_t toggle_ports(uint16_t port, int rounds)
{
	const struct mk_ip ip = { .family = AF_INET, .v4.s_addr = htonl(0x0af40100u + port) };
	const struct mk_host_port_entry entry = {
		.family = AF_INET,
		.key = host_port_key("0.0.0.0", port, IPPROTO_TCP),
		.to = { .addr = mk_ip_to_addr(&ip), .port = 1, .ifindex = port },
	};
	const struct mk_host_port_judge nobody = { 0 };
	struct mk_host_port_entry holder;
	struct mk_host_ports *ports;
	pid_t pid = fork();
	int ret = 0;

	if (pid != 0)
		return pid;
	ports = mk_host_ports_open(BPF_DIR, STATE, &err);
	for (int i = 1; ports && ret == 0 && i <= rounds; i++)
		ret = i % 2 ? mk_host_ports_claim(ports, &entry, 1, &nobody, &holder, &err)
			    : mk_host_ports_remove(ports, &ip, 0, &err);
	_exit(!ports || ret != 0);
}

/* No writer undoes another's write. */
START_TEST(test_runtime_keeps_all_fields)
{
	const int rounds = 100 + _i; /* an odd number ends with an entry */
	pid_t pids[] = { toggle_reports(), toggle_ports(1, rounds), toggle_ports(2, 100),
			 toggle_ports(3, 100) };
	struct mk_table runtime = open_table("runtime", sizeof(__u32), sizeof(struct mk_runtime));
	struct mk_runtime now;
	__u32 zero = 0;
	int status;

	for (size_t i = 0; i < MK_ARRAY_SIZE(pids); i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(status, 0);
	}
	ck_mapped((size_t)_i);
	ck_ok(mk_table_get(&runtime, &zero, &now, &err));
	mk_table_close(&runtime);
	ck_assert_uint_eq(now.report_drops, 1);
}
END_TEST

UNIT_SUITE("cni_host_ports")
{
	TCase *tc = cni_case(suite, "host_ports");

	tcase_add_test(tc, test_add_check_del);
	tcase_add_loop_test(tc, test_check_finds, 0, MK_ARRAY_SIZE(losses));
	tcase_add_test(tc, test_conflict);
	tcase_add_test(tc, test_two_interfaces);
	tcase_add_test(tc, test_side_by_side);
	tcase_add_test(tc, test_undone_when_full);
	tcase_add_test(tc, test_older_datapath);
	tcase_add_test(tc, test_del_of_half_a_pod);
	tcase_add_test(tc, test_add_killed);
	tcase_add_loop_test(tc, test_del_cuts, 0, MK_ARRAY_SIZE(sessions));
	tcase_add_test(tc, test_kill_leaves_no_session);
	tcase_add_loop_test(tc, test_runtime_keeps_all_fields, 0, 2);
}
