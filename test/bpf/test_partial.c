// SPDX-License-Identifier: Apache-2.0
/* The checksum that a pod leaves to a device (bpf/partial.h): the device may write it only where
 * layer 4 has it, or behind the headers. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bpf/run.h"
#include "monokube/sfc.h"

#define TCP  "tcp 10.244.1.2:40000 > 10.244.1.3:80"
#define UDP  "udp 10.244.1.2:40000 > 10.244.1.3:53"
#define SCTP "sctp 10.244.1.2:40000 > 10.244.1.3:80"
#define ICMP "icmp 10.244.1.2 > 10.244.1.3"
#define ESP  "esp 10.244.1.2 > 10.244.1.3"

enum { NONE, UNNECESSARY, COMPLETE, PARTIAL }; /* ip_summed, linux/skbuff.h */

static const struct {
	const char *name, *flow;
	int start, offset; /* counted from layer 4 */
	bool passes;
	uint16_t fragment;
} rows[] = {
	{ "TCP: its checksum", TCP, 0, 16, true, 0 },
	{ "TCP: its ports", TCP, 0, 0, false, 0 },
	{ "TCP: the destination port", TCP, 0, 2, false, 0 },
	{ "TCP: the flags", TCP, 0, 12, false, 0 },
	{ "TCP: a byte before the checksum", TCP, 0, 15, false, 0 },
	{ "TCP: a byte behind the checksum", TCP, 0, 17, false, 0 },
	{ "TCP: behind the header", TCP, 20, 0, false, 0 },
	{ "TCP: an address", TCP, -8, 0, false, 0 },
	{ "TCP: an address, from the header's first byte on", TCP, -20, 12, false, 0 },
	{ "UDP: its checksum", UDP, 0, 6, true, 0 },
	{ "UDP: its checksum, from another byte on", UDP, -8, 14, true, 0 },
	{ "UDP: the source port", UDP, 0, 0, false, 0 },
	{ "UDP: the destination port", UDP, 0, 2, false, 0 },
	{ "UDP: the length", UDP, 0, 4, false, 0 },
	{ "UDP: half of the checksum", UDP, 0, 5, false, 0 },
	{ "UDP: the destination address", UDP, -2, 0, false, 0 },
	{ "UDP: half an address, half a port", UDP, -1, 0, false, 0 },
	{ "UDP: a packet in a tunnel", UDP, 36, 16, true, 0 },
	{ "UDP: the first byte behind the header", UDP, 8, 0, true, 0 },
	{ "UDP: far behind", UDP, 0, 0xffff, true, 0 },
	{ "UDP: its checksum, in the first fragment", UDP, 0, 6, true, MF },
	{ "UDP: the port, in the first fragment", UDP, 0, 2, false, MF },
	{ "a later fragment: behind all headers", UDP, 16, 0, false, 8 },
	{ "SCTP: its checksum", SCTP, 0, 8, true, 0 },
	{ "SCTP: a port", SCTP, 0, 2, false, 0 },
	{ "SCTP: a chunk", SCTP, 12, 0, false, 0 },
	{ "ICMP: its checksum", ICMP, 0, 2, true, 0 },
	{ "ICMP: its type", ICMP, 0, 0, false, 0 },
	{ "ICMP: its id", ICMP, 0, 4, false, 0 },
	{ "ICMP: an error's quoted packet", ICMP, 8, 0, false, 0 },
	{ "another protocol: a packet in a tunnel", ESP, 4, 36, true, 0 },
	{ "another protocol: its first byte", ESP, 0, 0, true, 0 },
	{ "another protocol: an address", ESP, -2, 0, false, 0 },
};

/* Layer 4 begins here in an IP packet of the row. */
static int l4_off(uint16_t fragment)
{
	return family_is6() ? 40 + (fragment ? 8 : 0) : 20;
}

static void ask_for(unsigned summed, int start, int offset, uint16_t fragment)
{
	fixture_checksum_at(summed, (uint16_t)(l4_off(fragment) + start), (uint16_t)offset);
}

static void expect_row(int row, unsigned summed, bool passes)
{
	struct frame_options options = { .payload_bytes = 64,
					 .fragment = rows[row].fragment,
					 .id = 7 };
	struct frame in = frame_make(rows[row].flow, &options);

	ask_for(summed, rows[row].start, rows[row].offset, rows[row].fragment);
	fixture_expect(rows[row].name, MK_HOOK_POD, &in, passes ? TO_POD : DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_CHECKSUM_PLACE), !passes);
}

START_TEST(test_place)
{
	expect_row(_i, PARTIAL, rows[_i].passes);
}
END_TEST

/* csum_start and csum_offset have no meaning then. */
START_TEST(test_not_partial)
{
	static const unsigned others[] = { NONE, UNNECESSARY, COMPLETE };

	if (rows[_i].fragment == 8)
		return; /* it waits for the first one */
	for (int i = 0; i < ROWS(others); i++)
		expect_row(_i, others[i], true);
}
END_TEST

/* The flow has no chain, so a packet that passes the check is dropped for another reason. */
START_TEST(test_of_function)
{
	const int maps[] = { fixture_map("sfc_ports"), fixture_front_map("sfc_ports") };
	struct frame in = frame_make(UDP, NULL);
	const struct mk_sfc_port port = { 0 };
	const __u32 device = 1;

	for (int i = 0; i < ROWS(maps) && maps[i] >= 0; i++)
		ck_assert_int_eq(bpf_map_update_elem(maps[i], &device, &port, BPF_ANY), 0);
	ask_for(PARTIAL, 0, 6, 0);
	fixture_expect("its checksum", MK_HOOK_FUNCTION, &in, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_FUNCTION, MK_DROP_CHECKSUM_PLACE), 0);
	ask_for(PARTIAL, 0, 2, 0);
	fixture_expect("a port", MK_HOOK_FUNCTION, &in, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_FUNCTION, MK_DROP_CHECKSUM_PLACE), 1);
	for (int i = 0; i < ROWS(maps) && maps[i] >= 0; i++)
		bpf_map_delete_elem(maps[i], &device);
}
END_TEST

/* ---- this kernel's struct sk_buff ---------------------------------------------------------------- */

/* Make a device whose frames have struct virtio_net_hdr before them, as a virtual machine's. Returns
 * its descriptor; sets *@ifindex. */
static int open_tap(unsigned *ifindex)
{
	struct ifreq request = { .ifr_name = "mkpartial",
				 .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ck_assert_msg(fd >= 0 && any >= 0, "/dev/net/tun: %s", strerror(errno));
	ck_assert_msg(ioctl(fd, TUNSETIFF, &request) == 0, "tap: %s", strerror(errno));
	*ifindex = if_nametoindex(request.ifr_name);
	request.ifr_flags = IFF_UP;
	ck_assert_msg(ioctl(any, SIOCSIFFLAGS, &request) == 0, "tap: %s", strerror(errno));
	close(any);
	return fd;
}

static void attach_pod_hook(unsigned ifindex)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex, .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, program, .prog_fd = fixture_hook_program(MK_ENTRY_POD));
	struct mk_pod pod = { .ifindex = ifindex, .addr = fixture_addr("10.244.1.2") };

	fixture_mac("10.244.1.2", pod.mac);
	fixture_put_pod(&pod);
	ck_assert_int_eq(bpf_tc_hook_create(&hook), 0);
	ck_assert_int_eq(bpf_tc_attach(&hook, &program), 0);
}

static void send_partial(int fd, int place)
{
	struct virtio_net_hdr ask = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
				      .csum_start = (uint16_t)(ETH_HLEN + l4_off(0)),
				      .csum_offset = (uint16_t)place };
	struct frame in = frame_make(UDP, &(struct frame_options){ .payload_bytes = 64 });
	struct iovec parts[] = { { &ask, sizeof(ask) }, { in.byte, in.length } };

	ck_assert_int_eq(writev(fd, parts, 2), (ssize_t)(sizeof(ask) + in.length));
}

static uint64_t drops(void)
{
	return fixture_drops(MK_HOOK_POD, MK_DROP_CHECKSUM_PLACE);
}

/* The programs find the members where this kernel has them. */
START_TEST(test_this_kernel)
{
	unsigned ifindex;
	int fd;

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	fd = open_tap(&ifindex);
	attach_pod_hook(ifindex);
	send_partial(fd, offsetof(struct udphdr, check));
	send_partial(fd, offsetof(struct udphdr, dest));
	for (int i = 0; i < 500 && drops() == 0; i++)
		usleep(10000);
	ck_assert_uint_eq(drops(), 1);
	ck_assert_uint_eq(fixture_drops_total(), 1);
	close(fd);
}
END_TEST

BPF_SUITE("partial checksums")
{
	TCase *tcase = bpf_case_after(suite, "partial checksums", fixture_judge_checksums, NULL);

	tcase_add_loop_test(tcase, test_place, 0, ROWS(rows));
	tcase_add_loop_test(tcase, test_not_partial, 0, ROWS(rows));
	tcase_add_test(tcase, test_of_function);
	tcase_add_test(bpf_case(suite, "this kernel"), test_this_kernel);
}
