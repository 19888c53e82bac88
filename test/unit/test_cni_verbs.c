// SPDX-License-Identifier: Apache-2.0
/* The verbs against the kernel: a namespace as host, others as containers, a bpffs of its own with
 * the table and a program under the names that the CNI mode expects. */
#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/netlink.h"
#include "cni/cni.h"
#include "cni/endpoint.h"
#include "cni/reap.h"
#include "datapath/pin.h"
#include "ipam/ipam.h"
#include "unit/unit.h"

#define ROOT	"/mnt" /* hidden under a tmpfs, in a mount namespace of each test's own */
#define STATE	ROOT "/state"
#define BPF_DIR ROOT "/bpf/monokube"

static struct mk_error err;
static char answer[4096];

/* ---- a node ---------------------------------------------------------------------------------- */

static void pin_program(const char *path)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "ilb_pod", "GPL", insns,
			       MK_ARRAY_SIZE(insns), NULL);

	ck_assert_msg(fd >= 0, "program: %s", strerror(errno));
	ck_assert_int_eq(bpf_obj_pin(fd, path), 0);
	close(fd);
}

static void pin_table(const char *path)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_HASH, "pods", sizeof(struct mk_addr),
				sizeof(struct mk_pod), 512, NULL);

	ck_assert_msg(fd >= 0, "table: %s", strerror(errno));
	ck_assert_int_eq(bpf_obj_pin(fd, path), 0);
	close(fd);
}

static void setup(void)
{
	ck_assert_msg(unshare(CLONE_NEWNET | CLONE_NEWNS) == 0, "unshare: %s (needs root)",
		      strerror(errno));
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ck_assert_int_eq(mount("tmpfs", ROOT, "tmpfs", 0, NULL), 0);
	ck_ok(mk_mkdirs(ROOT "/bpf", 0700, &err));
	ck_assert_int_eq(mount("bpffs", ROOT "/bpf", "bpf", 0, NULL), 0);
	ck_ok(mk_mkdirs(BPF_DIR "/maps", 0700, &err));
	ck_ok(mk_mkdirs(BPF_DIR "/progs", 0700, &err));
	ck_ok(mk_mkdirs(ROOT "/netns", 0700, &err));
	pin_table(BPF_DIR "/maps/pods");
	pin_program(BPF_DIR "/progs/ilb_pod");
}

static const char *netns_path(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), ROOT "/netns/%s", name);
	return path;
}

static void new_netns(const char *name)
{
	cleanup_close int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	cleanup_close int file = open(netns_path(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	ck_assert_int_eq(mount("/proc/self/ns/net", netns_path(name), NULL, MS_BIND, NULL), 0);
	ck_assert_int_eq(setns(home, CLONE_NEWNET), 0);
}

static void gone_netns(const char *name)
{
	ck_assert_int_eq(umount2(netns_path(name), MNT_DETACH), 0);
	ck_assert_int_eq(unlink(netns_path(name)), 0);
}

/* Run a shell command in a container's namespace. */
static void inside(const char *name, const char *command)
{
	char text[512];

	snprintf(text, sizeof(text), "nsenter --net=%s %s", netns_path(name), command);
	ck_assert_msg(system(text) == 0, "%s", text);
}

/* ---- calls ------------------------------------------------------------------------------------ */

#define NETWORK                                                               \
	"\"name\":\"n\",\"type\":\"monokube\",\"podCIDR\":\"10.244.1.0/24\"," \
	"\"clusterCIDR\":\"10.244.0.0/16\",\"vtepCIDR\":\"10.18.0.0/16\","    \
	"\"mtu\":1450,\"stateDir\":\"" STATE "\",\"bpfDir\":\"" BPF_DIR "\""

static pid_t start(const char *verb, const char *container_id, const char *netns, const char *input,
		   int output_fd)
{
	cleanup_close int fd = open(ROOT, O_TMPFILE | O_RDWR, 0600);
	pid_t pid;

	ck_assert_int_eq(write(fd, input, strlen(input)), (ssize_t)strlen(input));
	pid = fork();
	if (pid != 0)
		return pid;
	lseek(fd, 0, SEEK_SET);
	dup2(fd, STDIN_FILENO);
	dup2(output_fd, STDOUT_FILENO);
	setenv("CNI_COMMAND", verb, 1);
	setenv("CNI_CONTAINERID", container_id, 1);
	setenv("CNI_NETNS", netns, 1);
	setenv("CNI_IFNAME", "eth0", 1);
	_exit(mk_cni_main());
}

/* Returns the exit status; standard output is in `answer`. */
static int run(const char *verb, const char *container_id, const char *netns, const char *input)
{
	cleanup_close int fd = open(ROOT, O_TMPFILE | O_RDWR, 0600);
	pid_t pid = start(verb, container_id, netns, input, fd);
	ssize_t got;
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "%s of %s: status %d", verb, container_id, status);
	got = pread(fd, answer, sizeof(answer) - 1, 0);
	answer[got > 0 ? got : 0] = '\0';
	return WEXITSTATUS(status);
}

/* As run(), with the network's configuration of @version and more @fields (",..." or ""). */
static int call(const char *verb, const char *container_id, const char *netns, const char *version,
		const char *fields)
{
	char input[8192];

	snprintf(input, sizeof(input), "{\"cniVersion\":\"%s\"," NETWORK "%s}", version, fields);
	return run(verb, container_id, netns, input);
}

static int code_of_answer(void)
{
	json_object *json = json_tokener_parse(answer), *code = NULL;
	int value;

	ck_assert_msg(json && json_object_object_get_ex(json, "code", &code), "no error object: %s",
		      answer);
	ck_assert_msg(mk_cni_string(json, "msg") && mk_cni_string(json, "cniVersion"), "%s",
		      answer);
	value = json_object_get_int(code);
	json_object_put(json);
	return value;
}

/* The call fails with @code, and the answer holds @text. */
static void ck_fails(int status, int code, const char *text)
{
	ck_assert_msg(status != 0, "accepted: %s", answer);
	ck_assert_msg(code_of_answer() == code, "code is not %d: %s", code, answer);
	ck_assert_msg(strstr(answer, text) != NULL, "no '%s' in %s", text, answer);
}

static void add(const char *name)
{
	ck_assert_msg(call("ADD", name, netns_path(name), "1.0.0", "") == 0, "%s", answer);
}

/* ADD, and what CHECK gets to see of it. */
static const char *add_result(const char *name)
{
	static char fields[4200];

	add(name);
	snprintf(fields, sizeof(fields), ",\"prevResult\":%s", answer);
	return fields;
}

/* ---- what exists ------------------------------------------------------------------------------ */

static int count_device(void *ctx, const struct mk_link *link)
{
	*(int *)ctx += mk_cni_is_host_name("mk", link->name);
	return 0;
}

static int devices(void)
{
	cleanup_nl struct mk_nl *nl = mk_nl_open(&err);
	int count = 0;

	ck_ok(mk_nl_each_link(nl, count_device, &count, &err));
	return count;
}

static int count_entry(void *ctx, const struct mk_ip *ip, const struct mk_pod *pod)
{
	(void)ip;
	(void)pod;
	++*(int *)ctx;
	return 0;
}

static int entries(void)
{
	cleanup_pods struct mk_pods *pods = mk_pods_open(BPF_DIR, STATE, &err);
	int count = 0;

	ck_assert_msg(pods != NULL, "%s", mk_error_text(&err));
	ck_ok(mk_pods_each(pods, count_entry, &count, &err));
	return count;
}

static int count_address(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	(void)ip;
	(void)owner;
	++*(int *)ctx;
	return 0;
}

static int addresses(void)
{
	cleanup_ipam struct mk_ipam *ipam = mk_ipam_open(STATE, &err);
	int count = 0;

	ck_assert_msg(ipam != NULL, "%s", mk_error_text(&err));
	ck_ok(mk_ipam_each(ipam, count_address, &count, &err));
	return count;
}

static void ck_exist(int count)
{
	ck_assert_int_eq(addresses(), count);
	ck_assert_int_eq(devices(), count);
	ck_assert_int_eq(entries(), count);
}

/* ---- ADD, DEL --------------------------------------------------------------------------------- */

static const char *const versions[] = { "0.3.1", "0.4.0", "1.0.0", "1.1.0" };

START_TEST(test_add_del)
{
	const char *version = versions[_i];
	char prev[4200];

	new_netns("a");
	ck_assert_msg(call("ADD", "a", netns_path("a"), version, "") == 0, "%s", answer);
	ck_assert_msg(strstr(answer, version) && strstr(answer, "\"10.244.1.2/32\""), "%s", answer);
	ck_exist(1);
	inside("a", "ip -o addr show dev eth0 | grep -q 'inet 10.244.1.2/32 '");
	inside("a", "ip route show default | grep -q 'via 10.244.1.254 dev eth0.* onlink'");
	inside("a",
	       "ip neigh show dev eth0 | grep -q '10.244.1.254 lladdr 02:4d:0a:f4:01:fe PERM'");
	inside("a", "ip -o link show dev eth0 | grep -q 'mtu 65535.*02:4d:0a:f4:01:02'");
	inside("a", "ip route show default | grep -q 'mtu 1450'");
	inside("a", "ip route get 10.244.1.1 | grep -q 'mtu 1450'");
	inside("a", "ip route get 10.244.1.7 | grep -q 'via 10.244.1.254'");
	inside("a", "ip route show 10.244.1.0/24 | grep -qv mtu");
	inside("a", "ip -o link show dev lo up | grep -q lo");
	snprintf(prev, sizeof(prev), ",\"prevResult\":%s", answer);
	if (_i > 0)
		ck_assert_msg(call("CHECK", "a", netns_path("a"), version, prev) == 0, "%s",
			      answer);
	ck_assert_msg(call("DEL", "a", netns_path("a"), version, prev) == 0, "%s", answer);
	ck_assert_str_eq(answer, "");
	ck_exist(0);
}
END_TEST

START_TEST(test_del_idempotent)
{
	ck_assert_int_eq(call("DEL", "never", "", "1.0.0", ""), 0);
	new_netns("a");
	add("a");
	gone_netns("a");
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.0.0", ""), 0);
	ck_exist(0);
	ck_assert_int_eq(call("DEL", "a", "", "1.0.0", ""), 0);
}
END_TEST

START_TEST(test_del_without_datapath)
{
	new_netns("a");
	add("a");
	ck_assert_int_eq(umount(ROOT "/bpf"), 0);
	ck_assert_msg(call("DEL", "a", "", "1.0.0", "") == 0, "%s", answer);
	ck_assert_int_eq(addresses(), 0);
	ck_assert_int_eq(devices(), 0);
}
END_TEST

START_TEST(test_del_without_address_file)
{
	new_netns("a");
	add("a");
	ck_assert_int_eq(unlink(STATE "/ipam/10.244.1.2"), 0);
	ck_assert_msg(call("DEL", "a", "", "1.0.0", "") == 0, "%s", answer);
	ck_exist(0);
}
END_TEST

START_TEST(test_add_again)
{
	new_netns("a");
	add("a");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", ""), MK_CNI_INTERFACE_EXISTS, "'eth0'");
	ck_exist(1);
	/* another container, whose namespace this is not */
	ck_fails(call("ADD", "b", netns_path("a"), "1.0.0", ""), MK_CNI_INTERFACE_EXISTS, "'eth0'");
	ck_exist(1);
	inside("a", "ip route show default | grep -q 10.244.1.254");
}
END_TEST

START_TEST(test_add_foreign_interface)
{
	new_netns("a");
	inside("a", "ip link add eth0 type bridge");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", ""), MK_CNI_INTERFACE_EXISTS,
		 "'bridge'");
	ck_exist(0);
	inside("a", "ip link show eth0 >/dev/null");
}
END_TEST

START_TEST(test_add_bad_netns)
{
	char plain[] = ROOT "/plain";

	ck_fails(call("ADD", "a", "/nowhere/x", "1.0.0", ""), MK_CNI_UNKNOWN_CONTAINER,
		 "/nowhere/x");
	close(open(plain, O_WRONLY | O_CREAT, 0600));
	ck_fails(call("ADD", "a", plain, "1.0.0", ""), MK_CNI_INVALID_ENVIRONMENT, plain);
	ck_fails(call("ADD", "a", "/proc/self/ns/net", "1.0.0", ""), MK_CNI_INVALID_ENVIRONMENT,
		 "the host's own");
	ck_fails(call("ADD", "a", "/proc/self/ns/mnt", "1.0.0", ""), MK_CNI_INVALID_ENVIRONMENT,
		 "not a network namespace");
	ck_exist(0);
}
END_TEST

START_TEST(test_add_not_first)
{
	new_netns("a");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", ",\"prevResult\":{}"),
		 MK_CNI_INVALID_CONFIG, "first plugin");
}
END_TEST

START_TEST(test_add_without_datapath)
{
	new_netns("a");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", ",\"bpfDir\":\"/nowhere\""),
		 MK_CNI_TRY_AGAIN, "monokube agent");
	ck_exist(0);
}
END_TEST

/* A step in the middle fails: here the pod's address cannot be entered into a table that is full. */
START_TEST(test_add_undone)
{
	cleanup_pods struct mk_pods *pods = mk_pods_open(BPF_DIR, STATE, &err);
	const struct mk_pod pod = { .ifindex = 4711 };
	struct mk_ip ip = { .family = AF_INET };

	new_netns("a");
	for (uint32_t i = 0; i < 512; i++) {
		ip.v4.s_addr = htonl(0x0b000000 + i);
		ck_ok(mk_pods_put(pods, &ip, &pod, &err));
	}
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", ""), MK_CNI_SETUP_FAILED, "");
	ck_assert_int_eq(addresses(), 0);
	ck_assert_int_eq(devices(), 0);
	ck_assert_int_eq(entries(), 512);
}
END_TEST

START_TEST(test_add_full)
{
	static const char small[] = ",\"podCIDR\":\"10.244.1.240/29\"";
	char name[16];

	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "a%d", i);
		new_netns(name);
		if (i < 4)
			ck_assert_int_eq(call("ADD", name, netns_path(name), "1.0.0", small), 0);
	}
	ck_fails(call("ADD", "a4", netns_path("a4"), "1.0.0", small), MK_CNI_TRY_AGAIN, "all 4");
	ck_exist(4);
}
END_TEST

/* Killed at any instant, ADD leaves what the next ADD, DEL or GC cleans. */
static void kill_add(unsigned int *seed)
{
	struct timespec pause = { .tv_nsec = rand_r(seed) % 2500000 };
	cleanup_close int fd = open("/dev/null", O_WRONLY);
	pid_t pid =
		start("ADD", "a", netns_path("a"), "{\"cniVersion\":\"1.0.0\"," NETWORK "}", fd);

	nanosleep(&pause, NULL);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(test_add_killed)
{
	unsigned int seed = 7;
	int status;

	new_netns("a");
	for (int i = 0; i < 90; i++) {
		kill_add(&seed);
		switch (i % 3) {
		case 0:
			ck_assert_msg(call("DEL", "a", "", "1.0.0", "") == 0, "%s", answer);
			break;
		case 1:
			ck_assert_msg(call("GC", "", "", "1.1.0",
					   ",\"cni.dev/valid-attachments\":[]") == 0,
				      "%s", answer);
			break;
		default:
			status = call("ADD", "a", netns_path("a"), "1.0.0", "");
			ck_assert_msg(status == 0 || code_of_answer() == MK_CNI_INTERFACE_EXISTS,
				      "%s", answer);
			ck_exist(1);
			ck_assert_msg(call("DEL", "a", "", "1.0.0", "") == 0, "%s", answer);
		}
		ck_exist(0);
		inside("a", "ip -o link show type veth | { ! grep -q .; }");
	}
}
END_TEST

START_TEST(test_64_at_once)
{
	cleanup_close int fd = open("/dev/null", O_WRONLY);
	pid_t pids[64];
	char name[16];
	int status;

	for (int i = 0; i < 64; i++) {
		snprintf(name, sizeof(name), "a%d", i);
		new_netns(name);
	}
	for (int i = 0; i < 64; i++) {
		snprintf(name, sizeof(name), "a%d", i);
		pids[i] = start("ADD", name, netns_path(name),
				"{\"cniVersion\":\"1.0.0\"," NETWORK "}", fd);
	}
	for (int i = 0; i < 64; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(status, 0);
	}
	ck_exist(64);
}
END_TEST

/* ---- CHECK ------------------------------------------------------------------------------------ */

static const struct {
	const char *name;
	const char *pod, *host; /* shell commands in the pod, on the node; NULL: none */
	const char *text; /* that CHECK says */
} losses[] = {
	{ "default route", "ip route del default", NULL,
	  "route to 0.0.0.0/0 via 10.244.1.254 is missing" },
	{ "gateway route", "ip route del 10.244.1.254/32", NULL,
	  "route to 10.244.1.254/32 is missing" },
	{ "route to the node's pods", "ip route del 10.244.1.0/24", NULL,
	  "route to 10.244.1.0/24 via 10.244.1.254 is missing" },
	{ "route to the virtual pod", "ip route del 10.244.1.1/32", NULL,
	  "route to 10.244.1.1/32 via 10.244.1.254 is missing" },
	{ "neighbour", "ip neigh del 10.244.1.254 dev eth0", NULL, "neighbour 10.244.1.254" },
	{ "neighbour with another MAC",
	  "ip neigh replace 10.244.1.254 lladdr 02:00:00:00:00:01 dev eth0", NULL, "neighbour" },
	{ "address", "ip addr flush dev eth0", NULL, "address 10.244.1.2 is missing" },
	{ "pod's end down", "ip link set eth0 down", NULL, "'eth0' is down" },
	{ "pod's end renamed", "sh -c 'ip link set eth0 down; ip link set eth0 name eth1'", NULL,
	  "'eth0' is missing" },
	{ "pod's MAC", "ip link set eth0 address 02:00:00:00:00:01", NULL,
	  "'eth0' has MAC address 02:00:00:00:00:01, expected 02:4d:0a:f4:01:02" },
	{ "both ends", "ip link del eth0", NULL, "is missing; " },
	{ "host's end down", NULL, "ip link set $D down", "is down" },
	{ "host's MAC", NULL, "ip link set $D address 02:00:00:00:00:01", "has MAC address" },
	{ "table entry", NULL, "bpftool map delete pinned " BPF_DIR "/maps/pods key 10 244 1 2",
	  "no entry for 10.244.1.2" },
	{ "another table entry", NULL,
	  "bpftool map update pinned " BPF_DIR
	  "/maps/pods key 10 244 1 2 value 9 9 0 0 0 0 0 0 0 0 0 0",
	  "leads 10.244.1.2 to interface number 2313" },
	{ "program", NULL, "tc qdisc del dev $D clsact", "'ilb_pod' is not attached" },
	{ "address file", NULL, "rm " STATE "/ipam/10.244.1.2", "no address is allocated" },
	{ "datapath", NULL, "umount " ROOT "/bpf", "monokube agent" },
};

START_TEST(test_check)
{
	const char *row = losses[_i].name;
	char device[IFNAMSIZ], prev[4300];

	new_netns("a");
	snprintf(prev, sizeof(prev), "%s", add_result("a"));
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", prev) == 0, "%s: %s", row,
		      answer);
	mk_cni_host_name("mk", "a", "eth0", device);
	setenv("D", device, 1);
	if (losses[_i].pod)
		inside("a", losses[_i].pod);
	if (losses[_i].host)
		ck_assert_msg(system(losses[_i].host) == 0, "%s", row);
	ck_fails(call("CHECK", "a", netns_path("a"), "1.0.0", prev), MK_CNI_CHECK_FAILED,
		 losses[_i].text);
	ck_assert_int_eq(call("DEL", "a", "", "1.0.0", ""), 0);
}
END_TEST

static const struct {
	const char *name, *fields;
	int code;
	const char *text;
} prev_results[] = {
	{ "none", "", MK_CNI_INVALID_CONFIG, "prevResult" },
	{ "a word", ",\"prevResult\":\"x\"", MK_CNI_INVALID_CONFIG, "prevResult" },
	{ "empty", ",\"prevResult\":{}", MK_CNI_CHECK_FAILED,
	  "does not list address 10.244.1.2; prevResult does not list interface 'eth0'" },
	{ "other types", ",\"prevResult\":{\"ips\":7,\"interfaces\":[7,null,[]]}",
	  MK_CNI_CHECK_FAILED, "does not list address 10.244.1.2" },
	{ "another address", ",\"prevResult\":{\"ips\":[{\"address\":\"10.244.1.3/32\"}]}",
	  MK_CNI_CHECK_FAILED, "does not list address 10.244.1.2" },
};

START_TEST(test_check_prev_result)
{
	new_netns("a");
	add("a");
	ck_fails(call("CHECK", "a", netns_path("a"), "1.0.0", prev_results[_i].fields),
		 prev_results[_i].code, prev_results[_i].text);
}
END_TEST

/* A plugin behind ours may lower the MTU; before 1.1.0 no result can say so. */
START_TEST(test_check_chained_mtu)
{
	char prev[4300];

	new_netns("a");
	snprintf(prev, sizeof(prev), "%s", add_result("a"));
	inside("a", "ip link set eth0 mtu 1300");
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", prev) == 0, "%s", answer);
	ck_fails(call("CHECK", "a", netns_path("a"), "1.1.0",
		      ",\"prevResult\":{\"interfaces\":[{\"name\":\"eth0\",\"mtu\":65535}]}"),
		 MK_CNI_CHECK_FAILED, "'eth0' has MTU 1300, prevResult says 65535");
}
END_TEST

/* ---- GC, STATUS, versions ---------------------------------------------------------------------- */

START_TEST(test_gc)
{
	new_netns("a");
	new_netns("b");
	new_netns("c");
	add("a");
	add("b");
	add("c");
	gone_netns("b");
	ck_assert_msg(call("GC", "", "", "1.1.0",
			   ",\"cni.dev/valid-attachments\":[{\"containerID\":\"c\","
			   "\"ifname\":\"eth0\"},{\"containerID\":\"zz\",\"ifname\":\"eth0\"}]") ==
			      0,
		      "%s", answer);
	ck_assert_str_eq(answer, "");
	ck_exist(1);
	inside("c", "ip route show default | grep -q 10.244.1.254");
	/* the same owner's other interface is another attachment */
	ck_assert_int_eq(call("GC", "", "", "1.1.0",
			      ",\"cni.dev/valid-attachments\":[{\"containerID\":\"c\","
			      "\"ifname\":\"eth1\"}]"),
			 0);
	ck_exist(0);
}
END_TEST

START_TEST(test_gc_lost_files)
{
	new_netns("a");
	new_netns("b");
	add("a");
	add("b");
	/* one address file vanished, one lost its content */
	ck_assert_int_eq(unlink(STATE "/ipam/10.244.1.2"), 0);
	ck_assert_int_eq(truncate(STATE "/ipam/10.244.1.3", 0), 0);
	ck_assert_msg(call("GC", "", "", "1.1.0", ",\"cni.dev/valid-attachments\":[]") == 0, "%s",
		      answer);
	ck_exist(0);
}
END_TEST

START_TEST(test_gc_needs_list)
{
	new_netns("a");
	add("a");
	ck_fails(call("GC", "", "", "1.1.0", ""), MK_CNI_INVALID_CONFIG, "valid-attachments");
	ck_exist(1);
}
END_TEST

START_TEST(test_status)
{
	ck_assert_msg(call("STATUS", "", "", "1.1.0", "") == 0, "%s", answer);
	ck_assert_str_eq(answer, "");
	ck_fails(call("STATUS", "", "", "1.1.0", ",\"bpfDir\":\"/nowhere\""), MK_CNI_NOT_AVAILABLE,
		 "monokube agent");
	ck_fails(call("STATUS", "", "", "1.1.0", ",\"stateDir\":\"/proc/self/nowhere\""),
		 MK_CNI_NOT_AVAILABLE, "/proc/self/nowhere");
}
END_TEST

static const struct {
	const char *verb, *version;
} too_old[] = {
	{ "CHECK", "0.3.1" },  { "GC", "0.3.1" },     { "GC", "0.4.0" },  { "GC", "1.0.0" },
	{ "STATUS", "0.4.0" }, { "STATUS", "1.0.0" }, { "ADD", "0.2.0" }, { "DEL", "1.2.0" },
};

START_TEST(test_too_old)
{
	ck_fails(call(too_old[_i].verb, "a", "/x", too_old[_i].version, ""),
		 MK_CNI_INCOMPATIBLE_VERSION, too_old[_i].version);
}
END_TEST

START_TEST(test_version)
{
	ck_assert_int_eq(run("VERSION", "", "", "{\"cniVersion\":\"1.0.0\"}"), 0);
	ck_assert_str_eq(answer, "{\"cniVersion\":\"1.0.0\",\"supportedVersions\":"
				 "[\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n");
	ck_fails(run("VERSION", "", "", "no"), MK_CNI_DECODING_FAILURE, "standard input");
	ck_fails(run("FROB", "", "", "{}"), MK_CNI_INVALID_ENVIRONMENT, "FROB");
	ck_fails(run("add", "", "", "{}"), MK_CNI_INVALID_ENVIRONMENT, "CNI_COMMAND='add'");
}
END_TEST

START_TEST(test_input_too_large)
{
	size_t size = 1024 * 1024 + 1;
	cleanup_free char *input = malloc(size + 1);

	memset(input, ' ', size);
	input[size] = '\0';
	ck_fails(run("DEL", "a", "", input), MK_CNI_DECODING_FAILURE, "more than 1048576 bytes");
}
END_TEST

/* ---- the agent's reaper ------------------------------------------------------------------------ */

static int reap(void)
{
	int ret = mk_cni_reap(STATE, BPF_DIR, "mk", &err);

	ck_assert_msg(ret >= 0, "%s", mk_error_text(&err));
	return ret;
}

static void remove_device(const char *container_id)
{
	cleanup_nl struct mk_nl *nl = mk_nl_open(&err);
	char device[IFNAMSIZ];

	mk_cni_host_name("mk", container_id, "eth0", device);
	ck_ok(mk_nl_link_delete(nl, device, &err));
}

START_TEST(test_reap)
{
	new_netns("a");
	new_netns("b");
	add("a");
	add("b");
	ck_assert_int_eq(reap(), 0);
	ck_exist(2);
	/* the namespace's path is gone, the namespace itself lives: so does the device */
	gone_netns("b");
	inside("a", "true");
	ck_assert_int_eq(addresses(), 2);
	remove_device("b");
	ck_assert_int_eq(reap(), 1);
	ck_exist(1);
	ck_assert_int_eq(reap(), 0);
}
END_TEST

START_TEST(test_reap_keeps_device)
{
	cleanup_close int fd = -1;

	new_netns("a");
	add("a");
	fd = open(netns_path("a"), O_RDONLY); /* somebody still is in there */
	gone_netns("a");
	ck_assert_int_eq(reap(), 0);
	ck_exist(1);
}
END_TEST

START_TEST(test_reap_keeps_namespace)
{
	new_netns("a");
	add("a");
	remove_device("a"); /* the kernel's or an administrator's doing: DEL is still to come */
	ck_assert_int_eq(reap(), 0);
	ck_assert_int_eq(addresses(), 1);
}
END_TEST

/* The directory of the namespaces is not in our mount namespace: nothing can be known. */
START_TEST(test_reap_keeps_invisible)
{
	new_netns("a");
	add("a");
	gone_netns("a");
	remove_device("a");
	ck_assert_int_eq(rename(ROOT "/netns", ROOT "/elsewhere"), 0);
	ck_assert_int_eq(reap(), 0);
	ck_assert_int_eq(addresses(), 1);
	ck_assert_int_eq(rename(ROOT "/elsewhere", ROOT "/netns"), 0);
	ck_assert_int_eq(reap(), 1);
	ck_exist(0);
}
END_TEST

START_TEST(test_reap_waits_for_add)
{
	cleanup_close int fd = -1;

	new_netns("a");
	add("a");
	gone_netns("a");
	remove_device("a");
	fd = mk_state_lock(STATE, MK_LOCK_DATAPATH, LOCK_SH, &err); /* as an ADD holds it */
	ck_assert_int_eq(reap(), 0);
	ck_assert_int_eq(addresses(), 1);
	close(mk_steal_fd(&fd));
	ck_assert_int_eq(reap(), 1);
}
END_TEST

START_TEST(test_reap_lost_files)
{
	new_netns("a");
	new_netns("b");
	new_netns("c");
	add("a");
	add("b");
	add("c");
	ck_assert_int_eq(truncate(STATE "/ipam/10.244.1.2", 0), 0); /* lives: kept */
	ck_assert_int_eq(truncate(STATE "/ipam/10.244.1.3", 0), 0);
	remove_device("b");
	ck_assert_int_eq(unlink(STATE "/ipam/10.244.1.4"), 0);
	remove_device("c");
	ck_assert_int_eq(reap(), 1);
	ck_exist(1);
}
END_TEST

/* As after a reboot: files, no devices, no tables, no directory of namespaces yet. */
START_TEST(test_reap_without_datapath)
{
	new_netns("a");
	add("a");
	gone_netns("a");
	remove_device("a");
	ck_assert_int_eq(umount(ROOT "/bpf"), 0);
	ck_assert_int_eq(reap(), 1);
	ck_assert_int_eq(addresses(), 0);
}
END_TEST

static void add_tests(TCase *tc)
{
	tcase_add_loop_test(tc, test_add_del, 0, MK_ARRAY_SIZE(versions));
	tcase_add_test(tc, test_del_idempotent);
	tcase_add_test(tc, test_del_without_datapath);
	tcase_add_test(tc, test_del_without_address_file);
	tcase_add_test(tc, test_add_again);
	tcase_add_test(tc, test_add_foreign_interface);
	tcase_add_test(tc, test_add_bad_netns);
	tcase_add_test(tc, test_add_not_first);
	tcase_add_test(tc, test_add_without_datapath);
	tcase_add_test(tc, test_add_undone);
	tcase_add_test(tc, test_add_full);
	tcase_add_test(tc, test_add_killed);
	tcase_add_test(tc, test_64_at_once);
	tcase_add_loop_test(tc, test_check, 0, MK_ARRAY_SIZE(losses));
	tcase_add_loop_test(tc, test_check_prev_result, 0, MK_ARRAY_SIZE(prev_results));
	tcase_add_test(tc, test_check_chained_mtu);
	tcase_add_test(tc, test_gc);
	tcase_add_test(tc, test_gc_lost_files);
	tcase_add_test(tc, test_gc_needs_list);
	tcase_add_test(tc, test_status);
	tcase_add_loop_test(tc, test_too_old, 0, MK_ARRAY_SIZE(too_old));
	tcase_add_test(tc, test_version);
	tcase_add_test(tc, test_input_too_large);
	tcase_add_test(tc, test_reap);
	tcase_add_test(tc, test_reap_keeps_device);
	tcase_add_test(tc, test_reap_keeps_namespace);
	tcase_add_test(tc, test_reap_keeps_invisible);
	tcase_add_test(tc, test_reap_waits_for_add);
	tcase_add_test(tc, test_reap_lost_files);
	tcase_add_test(tc, test_reap_without_datapath);
}

int main(void)
{
	Suite *suite = suite_create("cni_verbs");
	TCase *tc = tcase_create("verbs");
	char path[1024];

	snprintf(path, sizeof(path), "%s:/usr/sbin:/sbin", getenv("PATH") ? getenv("PATH") : "");
	setenv("PATH", path, 1); /* tc, bpftool */
	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, NULL);
	add_tests(tc);
	suite_add_tcase(suite, tc);
	return unit_run(suite);
}
