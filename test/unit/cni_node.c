// SPDX-License-Identifier: Apache-2.0
#include "unit/cni_node.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/netlink/netlink.h"
#include "datapath/maps/pin.h"
#include "monokube/sfc.h"
#include "pod/cni/cni.h"
#include "pod/endpoint/endpoint.h"
#include "pod/endpoint/endpoint_internal.h"
#include "pod/ipam/ipam.h"
#include "rows.h"

static struct mk_error err;
char answer[4096];
const char *cni_ifname = "eth0";

/* ---- a node ---------------------------------------------------------------------------------- */

/* The directory of the family whose tables are made. */
static char pin_dir[PATH_MAX];
static sa_family_t pin_family;

static void pin_program(const char *name)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, name, "GPL", insns, MK_ARRAY_SIZE(insns),
			       NULL);
	char path[PATH_MAX];

	ck_assert_msg(fd >= 0, "program: %s", strerror(errno));
	ck_ok(mk_pin_path(path, pin_dir, MK_PIN_PROGS, name, &err));
	ck_assert_int_eq(bpf_obj_pin(fd, path), 0);
	close(fd);
}

static void pin_table_with(const char *name, enum bpf_map_type type, size_t key_size,
			   size_t value_size, unsigned int entries, unsigned int flags)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = flags);
	char path[PATH_MAX];
	int fd = pin_family == AF_INET
			 ? row_create_ipv4(type, name, key_size, value_size, entries, &opts)
			 : bpf_map_create(type, name, (__u32)key_size, (__u32)value_size, entries,
					  &opts);

	ck_assert_msg(fd >= 0, "table %s: %s", name, strerror(errno));
	ck_ok(mk_pin_path(path, pin_dir, MK_PIN_MAPS, name, &err));
	ck_assert_int_eq(bpf_obj_pin(fd, path), 0);
	close(fd);
}

static void pin_table(const char *name, enum bpf_map_type type, size_t key_size, size_t value_size,
		      unsigned int entries)
{
	pin_table_with(name, type, key_size, value_size, entries, 0);
}

static void pin_policy_tables(void)
{
	const unsigned int no_prealloc = BPF_F_NO_PREALLOC;

	pin_table_with("policy_state", BPF_MAP_TYPE_ARRAY, sizeof(__u32),
		       sizeof(struct mk_policy_state), 1, BPF_F_MMAPABLE);
	pin_table_with("pod_policies", BPF_MAP_TYPE_ARRAY, sizeof(__u32),
		       sizeof(struct mk_pod_policy), POD_SLOTS, BPF_F_MMAPABLE);
	pin_table_with("policy_expected", BPF_MAP_TYPE_HASH, sizeof(struct mk_policy_pod_key),
		       sizeof(struct mk_policy_expected), 512, no_prealloc);
	pin_table_with("policy_namespaces", BPF_MAP_TYPE_HASH,
		       sizeof(struct mk_policy_namespace_key), sizeof(struct mk_policy_namespace),
		       512, no_prealloc);
}

static void pin_chain_tables(void)
{
	pin_table("sfc_replicas", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(struct mk_sfc_replica),
		  MK_SFC_REPLICAS);
	pin_table_with("sfc_ports", BPF_MAP_TYPE_HASH, sizeof(__u32), sizeof(struct mk_sfc_port),
		       MK_SFC_PORTS, BPF_F_NO_PREALLOC);
}

static void pin_tables(void)
{
	const size_t tuple = sizeof(struct mk_tuple), session = sizeof(struct mk_session);

	pin_table_with("pods", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(struct mk_pod), POD_SLOTS,
		       BPF_F_MMAPABLE);
	pin_table("host_ports", BPF_MAP_TYPE_HASH, sizeof(struct mk_host_port_key),
		  sizeof(struct mk_host_port), HOST_PORTS_MAX);
	pin_table("udp_ports", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(struct mk_port_set), 1);
	pin_table("runtime", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(struct mk_runtime), 1);
	pin_table("sessions", BPF_MAP_TYPE_HASH, tuple, session, 4096);
	pin_table_with("cni_calls", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(struct mk_cni_calls),
		       MK_CNI_COMMANDS, BPF_F_MMAPABLE);
	pin_table_with("pods_gone", BPF_MAP_TYPE_ARRAY, sizeof(__u32),
		       sizeof(struct mk_pod_traffic), 1, BPF_F_MMAPABLE);
	pin_policy_tables();
	pin_chain_tables();
	pin_table("sessions_young", BPF_MAP_TYPE_LRU_HASH, tuple, session, 4096);
}

void pin_family_of_node(sa_family_t family)
{
	char path[PATH_MAX];

	pin_family = family;
	ck_ok(mk_pin_dir(pin_dir, BPF_DIR, family, &err));
	ck_ok(mk_pin_path(path, pin_dir, MK_PIN_MAPS, "", &err));
	ck_ok(mk_mkdirs(path, 0700, &err));
	ck_ok(mk_pin_path(path, pin_dir, MK_PIN_PROGS, "", &err));
	ck_ok(mk_mkdirs(path, 0700, &err));
	pin_tables();
	pin_program("ilb_pod");
	pin_program("sfc_port");
}

static void setup(unsigned int families)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s:/usr/sbin:/sbin", getenv("PATH") ? getenv("PATH") : "");
	setenv("PATH", path, 1); /* tc, bpftool */
	ck_assert_msg(unshare(CLONE_NEWNET | CLONE_NEWNS) == 0, "unshare: %s (needs root)",
		      strerror(errno));
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ck_assert_int_eq(mount("tmpfs", ROOT, "tmpfs", 0, NULL), 0);
	ck_ok(mk_mkdirs(ROOT "/bpf", 0700, &err));
	ck_assert_int_eq(mount("bpffs", ROOT "/bpf", "bpf", 0, NULL), 0);
	ck_ok(mk_mkdirs(ROOT "/netns", 0700, &err));
	if (families & NODE_IPV4)
		pin_family_of_node(AF_INET);
	if (families & NODE_IPV6)
		pin_family_of_node(AF_INET6);
}

static void setup_ipv4(void)
{
	setup(NODE_IPV4);
}

static void setup_ipv6(void)
{
	setup(NODE_IPV6);
}

static void setup_both(void)
{
	setup(NODE_IPV4 | NODE_IPV6);
}

const char *netns_path(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), ROOT "/netns/%s", name);
	return path;
}

void new_netns(const char *name)
{
	cleanup_close int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	cleanup_close int file = open(netns_path(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	ck_assert_int_eq(mount("/proc/self/ns/net", netns_path(name), NULL, MS_BIND, NULL), 0);
	ck_assert_int_eq(setns(home, CLONE_NEWNET), 0);
}

void gone_netns(const char *name)
{
	ck_assert_int_eq(umount2(netns_path(name), MNT_DETACH), 0);
	ck_assert_int_eq(unlink(netns_path(name)), 0);
}

void inside(const char *name, const char *command)
{
	char text[512];

	snprintf(text, sizeof(text), "nsenter --net=%s %s", netns_path(name), command);
	ck_assert_msg(system(text) == 0, "%s", text);
}

/* ---- calls ----------------------------------------------------------------------------------- */

pid_t start_verb(const char *verb, const char *container_id, const char *netns, const char *input,
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
	setenv("CNI_IFNAME", cni_ifname, 1);
	_exit(mk_cni_main());
}

int run_verb(const char *verb, const char *container_id, const char *netns, const char *input)
{
	cleanup_close int fd = open(ROOT, O_TMPFILE | O_RDWR, 0600);
	pid_t pid = start_verb(verb, container_id, netns, input, fd);
	ssize_t got;
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "%s of %s: status %d", verb, container_id, status);
	got = pread(fd, answer, sizeof(answer) - 1, 0);
	answer[got > 0 ? got : 0] = '\0';
	return WEXITSTATUS(status);
}

int call(const char *verb, const char *container_id, const char *netns, const char *version,
	 const char *fields)
{
	char input[8192];

	snprintf(input, sizeof(input), "{\"cniVersion\":\"%s\"," NETWORK "%s}", version, fields);
	return run_verb(verb, container_id, netns, input);
}

int code_of_answer(void)
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

void ck_fails(int status, int code, const char *text)
{
	ck_assert_msg(status != 0, "accepted: %s", answer);
	ck_assert_msg(code_of_answer() == code, "code is not %d: %s", code, answer);
	ck_assert_msg(strstr(answer, text) != NULL, "no '%s' in %s", text, answer);
}

void add(const char *name)
{
	ck_assert_msg(call("ADD", name, netns_path(name), "1.0.0", "") == 0, "%s", answer);
}

const char *add_result(const char *name)
{
	static char fields[4200];

	add(name);
	snprintf(fields, sizeof(fields), ",\"prevResult\":%s", answer);
	return fields;
}

/* ---- what exists ----------------------------------------------------------------------------- */

static int count_device(void *ctx, const struct mk_link *link)
{
	*(int *)ctx += cni_is_host_name("mk", link->name);
	return 0;
}

int devices(void)
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

int pod_entries(void)
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

int addresses(void)
{
	cleanup_ipam struct mk_ipam *ipam = mk_ipam_open(STATE, &err);
	int count = 0;

	ck_assert_msg(ipam != NULL, "%s", mk_error_text(&err));
	ck_ok(mk_ipam_each(ipam, count_address, &count, &err));
	return count;
}

void ck_exist(int count)
{
	ck_assert_int_eq(addresses(), count);
	ck_assert_int_eq(devices(), count);
	ck_assert_int_eq(pod_entries(), count);
}

void remove_device(const char *container_id)
{
	cleanup_nl struct mk_nl *nl = mk_nl_open(&err);
	char device[IFNAMSIZ];

	mk_cni_host_name("mk", container_id, "eth0", device);
	ck_ok(mk_nl_link_delete(nl, device, &err));
}

TCase *cni_case(Suite *suite, const char *name)
{
	return cni_case_of(suite, name, NODE_IPV4);
}

TCase *cni_case_of(Suite *suite, const char *name, unsigned int families)
{
	static void (*const setups[])(void) = {
		[NODE_IPV4] = setup_ipv4,
		[NODE_IPV6] = setup_ipv6,
		[NODE_IPV4 | NODE_IPV6] = setup_both,
	};

	return unit_case(suite, name, setups[families], NULL);
}
