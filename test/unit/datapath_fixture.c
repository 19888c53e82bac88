// SPDX-License-Identifier: Apache-2.0
#include "unit/datapath_fixture.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "datapath/maps/object.h"
#include "datapath/pods/pods.h"
#include "rows.h"

struct datapath_fixture fx;

static const struct mk_mac gateway_mac = { { 2, 0x4d, 10, 244, 1, 254 } };

int fx_veth(const char *name, const char *peer, const struct mk_mac *mac)
{
	const struct mk_veth pair = { .name = name,
				      .mac = *mac,
				      .peer_name = peer,
				      .peer_mac = { { 2, 0, 0, 0, 0, 9 } },
				      .peer_netns_fd = -1,
				      .mtu_bytes = 1450 };
	struct mk_link link;

	fx_ok(mk_nl_veth_add(fx.nl, &pair, &fx.err));
	fx_ok(mk_nl_link_get(fx.nl, name, &link, &fx.err));
	return link.ifindex;
}

void fx_setup(void)
{
	static const struct mk_mac other = { { 2, 0, 0, 0, 0, 1 } };

	ck_assert_msg(unshare(CLONE_NEWNET | CLONE_NEWNS) == 0, "needs root: %s", strerror(errno));
	ck_assert_int_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	snprintf(fx.dir, sizeof(fx.dir), "/tmp/mk-test-datapath-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(fx.dir));
	ck_assert_int_eq(mount("tmpfs", fx.dir, "tmpfs", 0, NULL), 0);
	snprintf(fx.bpf_dir, sizeof(fx.bpf_dir), "%s/fs/monokube", fx.dir);
	snprintf(fx.state_dir, sizeof(fx.state_dir), "%s/state", fx.dir);
	fx.nl = mk_nl_open(&fx.err);
	ck_assert_msg(fx.nl != NULL, "%s", mk_error_text(&fx.err));
	fx.uplink_ifindex = fx_veth("up0", "far0", &other);
	fx.links.uplinks[0].ifindex = (__u32)fx.uplink_ifindex;
	fx.links.uplinks[0].mtu_bytes = 1500;
	fx.links.uplink_count = 1;
	fx.links.set.first = fx.links.uplinks[0];
	fx.links.set.overlay_mtu_bytes = 1450;
	fx.links.set.overlay_ifindex = (__u32)fx_veth("vx0", "vx1", &other);
	fx.links.sfc_ifindex = (__u32)fx_veth("sfc0", "sfc1", &other);
	fx.links.cluster_ifindex = (__u32)fx_veth("peer0", "peer1", &other);
	fx.links.set.host_peer_ifindex = (__u32)fx_veth("mkh1", "mkh0", &gateway_mac);
	fx.pod_ifindex = fx_veth("mkpod", "eth0", &gateway_mac);
	fx.constants = (struct mk_node){ .nat_port_min = 49152, .nat_port_max = 65535 };
	memcpy(fx.constants.gateway_mac, gateway_mac.byte, sizeof(fx.constants.gateway_mac));
}

void fx_teardown(void)
{
	char command[160];

	mk_nl_free(fx.nl);
	snprintf(command, sizeof(command), "umount -l %s; rmdir %s", fx.dir, fx.dir);
	ck_assert_int_eq(system(command), 0);
}

/* Use the constants of the previous load, so that its programs are taken over. */
struct mk_datapath *fx_loaded_again(void)
{
	struct mk_datapath *datapath =
		mk_datapath_open(fx.bpf_dir, fx.state_dir, &fx.constants, &fx.err);

	ck_assert_msg(datapath != NULL, "%s", mk_error_text(&fx.err));
	fx_ok(mk_datapath_load(datapath, &fx.err));
	return datapath;
}

/* Change a constant each time, so that programs are loaded. */
struct mk_datapath *fx_loaded(void)
{
	fx.constants.vtep_addr.word[MK_ADDR_WORDS - 1]++;
	return fx_loaded_again();
}

struct mk_datapath *fx_attached(void)
{
	struct mk_datapath *datapath = fx_loaded();

	fx_ok(mk_datapath_attach(datapath, &fx.links, &fx.err));
	return datapath;
}

uint32_t fx_program_at(int ifindex, enum mk_direction direction)
{
	uint32_t id;

	fx_ok(mk_hook_query(fx.nl, ifindex, direction, &id, &fx.err));
	return id;
}

uint32_t fx_pinned_id(const char *kind, const char *name)
{
	cleanup_close int fd = mk_pin_open(fx.bpf_dir, kind, name, &fx.err);
	struct bpf_prog_info program = { 0 };
	struct bpf_map_info map = { 0 };
	__u32 size = kind[0] == 'p' ? sizeof(program) : sizeof(map);

	if (fd < 0)
		return 0;
	ck_assert_int_eq(
		bpf_obj_get_info_by_fd(fd, kind[0] == 'p' ? (void *)&program : &map, &size), 0);
	return kind[0] == 'p' ? program.id : map.id;
}

int fx_chain_length(const char *name)
{
	cleanup_close int fd = mk_pin_open(fx.bpf_dir, MK_PIN_MAPS, name, &fx.err);
	int filled = 0;

	fx_ok(fd);
	for (__u32 slot = 0; slot < MK_PROG_COUNT; slot++) {
		__u32 id;

		filled += row_lookup(fd, &slot, &id) == 0;
	}
	return filled;
}

unsigned int fx_pins(const char *kind, const char *part)
{
	char path[160];
	cleanup_closedir DIR *folder = NULL;
	unsigned int count = 0;
	struct dirent *entry;

	snprintf(path, sizeof(path), "%s/%s", fx.bpf_dir, kind);
	folder = opendir(path);
	while (folder && (entry = readdir(folder)))
		count += entry->d_name[0] != '.' && strstr(entry->d_name, part) != NULL;
	return count;
}

/* Every map of the object is pinned. */
unsigned int fx_object_maps(void)
{
	cleanup_object struct mk_object *object = mk_object_open(&fx.constants, &fx.err);
	const struct bpf_map *map;
	unsigned int count = 0;

	ck_assert_msg(object != NULL, "%s", mk_error_text(&fx.err));
	bpf_object__for_each_map(map, mk_object_get(object)) count += !bpf_map__is_internal(map);
	return count;
}

void fx_put_pod(const char *address, int ifindex)
{
	const struct mk_pod pod = { .ifindex = (__u32)ifindex };
	struct mk_pods *pods = mk_pods_open(fx.bpf_dir, fx.state_dir, &fx.err);
	struct mk_ip ip;

	ck_assert_msg(pods != NULL, "%s", mk_error_text(&fx.err));
	ck_assert_int_eq(mk_ip_parse(address, &ip), 0);
	fx_ok(mk_pods_put(pods, &ip, &pod, &fx.err));
	mk_pods_free(pods);
}
