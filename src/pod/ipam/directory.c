// SPDX-License-Identifier: Apache-2.0
#include "pod/ipam/directory.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"

#define LOCK_NAME     "lock"
#define RELEASED_NAME "released"

/* ---- slots ----------------------------------------------------------------------------------- */

static struct slot_key key_of(const struct mk_ip *ip)
{
	struct slot_key key = { .family = (uint8_t)ip->family };

	memcpy(key.bytes, &ip->v6, mk_ipam_ip_bytes(ip));
	return key;
}

struct mk_ipam_slot *ipam_slot_find(struct mk_ipam *ipam, const struct mk_ip *ip)
{
	const struct slot_key key = key_of(ip);
	struct mk_ipam_slot *slot;

	HASH_FIND(hh, ipam->slots, &key, sizeof(key), slot);
	return slot;
}

struct mk_ipam_slot *ipam_slot_get(struct mk_ipam *ipam, const struct mk_ip *ip,
				   struct mk_error *err)
{
	struct mk_ipam_slot *slot = ipam_slot_find(ipam, ip);

	if (slot)
		return slot;
	slot = mk_new(sizeof(*slot), "address table", err);
	if (!slot)
		return NULL;
	slot->key = key_of(ip);
	slot->ip = *ip;
	HASH_ADD(hh, ipam->slots, key, sizeof(slot->key), slot);
	return slot;
}

void ipam_slot_drop(struct mk_ipam *ipam, struct mk_ipam_slot *slot)
{
	HASH_DEL(ipam->slots, slot);
	free(slot->text);
	free(slot);
}

/* ---- owners ---------------------------------------------------------------------------------- */

/* The lines of an address's file. The last three are those of a Pod's sandbox. */
enum { CONTAINER, IFNAME, NETNS, HOST_PORTS, UID, NAMESPACE, NAME, LINES };

/* Cut @text into its lines, each of which ends with a newline. Returns their number; 0: there are
 * none, more than LINES, or one without a newline. */
static size_t split(char *text, const char *lines[LINES])
{
	size_t count = 0;

	for (char *end; *text; text = end + 1) {
		end = strchr(text, '\n');
		if (!end || count == LINES)
			return 0;
		*end = '\0';
		lines[count++] = text;
	}
	return count;
}

static bool is_owner(const char *const lines[LINES], size_t count)
{
	if (count <= NETNS || !lines[CONTAINER][0] || !lines[IFNAME][0])
		return false;
	if (count == LINES)
		return lines[NAMESPACE][0] && lines[NAME][0];
	return count <= HOST_PORTS + 1;
}

void ipam_owner_parse(struct mk_ipam_owner *owner, char *text)
{
	const char *lines[LINES] = { "", "", "", "", "", "", "" };
	static const char *const unknown[LINES] = { "", "", "", "", "", "", "" };
	const char *const *of = is_owner(lines, split(text, lines)) ? lines : unknown;

	*owner = (struct mk_ipam_owner){
		.container_id = of[CONTAINER],
		.ifname = of[IFNAME],
		.netns = of[NETNS],
		.host_ports = of[HOST_PORTS],
		.uid = of[UID],
		.namespace_ = of[NAMESPACE],
		.name = of[NAME],
	};
}

void ipam_slot_set_owner(struct mk_ipam_slot *slot, char *text)
{
	free(slot->text);
	slot->text = text;
	slot->allocated = true;
	ipam_owner_parse(&slot->owner, text);
}

/* ---- reading the directory ------------------------------------------------------------------- */

static const char hex[] = "0123456789abcdef";

const char *mk_ipam_name(const struct mk_ip *ip, char name[MK_IPAM_ADDRESS_BYTES])
{
	const uint8_t *bytes = ip->v6.s6_addr;
	char *at = name;

	if (ip->family == AF_INET6) {
		for (size_t i = 0; i < sizeof(ip->v6); i++, at += 2) {
			at[0] = hex[bytes[i] >> 4];
			at[1] = hex[bytes[i] & 0xf];
		}
		*at = '\0';
	} else if (!inet_ntop(AF_INET, &ip->v4, name, MK_IPAM_ADDRESS_BYTES)) {
		*name = '\0';
	}
	return name;
}

static void parse_digits(const char *digits, struct mk_ip *ip)
{
	*ip = (struct mk_ip){ .family = AF_INET6 };
	for (size_t i = 0; digits[i]; i++)
		ip->v6.s6_addr[i / 2] |=
			(uint8_t)((strchr(hex, digits[i]) - hex) << (i % 2 ? 0 : 4));
}

/* inet_pton() accepts only one form of an IPv4 address. */
int ipam_name_parse(const char *name, struct mk_ip *ip)
{
	if (strspn(name, hex) == MK_IPAM_ADDRESS_BYTES - 1 && !name[MK_IPAM_ADDRESS_BYTES - 1]) {
		parse_digits(name, ip);
		return 0;
	}
	return mk_ip_parse(name, ip) == 0 && ip->family == AF_INET ? 0 : -EINVAL;
}

static bool parse_released_name(const char *name, uint64_t *sequence, struct mk_ip *ip)
{
	if (strspn(name, hex) != MK_IPAM_SEQUENCE_LEN || name[MK_IPAM_SEQUENCE_LEN] != '-')
		return false;
	*sequence = strtoull(name, NULL, 16);
	return ipam_name_parse(name + MK_IPAM_SEQUENCE_LEN + 1, ip) == 0;
}

const char *ipam_released_name(uint64_t sequence, const struct mk_ip *ip, char *buf)
{
	char name[MK_IPAM_ADDRESS_BYTES];

	snprintf(buf, MK_IPAM_NAME_BYTES, "%0*" PRIx64 "-%s", MK_IPAM_SEQUENCE_LEN, sequence,
		 mk_ipam_name(ip, name));
	return buf;
}

/* The error is not the file's fault: do not treat its owner as unknown. */
static bool out_of_resources(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOMEM;
}

char *ipam_owner_read(int dir_fd, const char *name)
{
	cleanup_close int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char text[MK_IPAM_OWNER_BYTES];
	ssize_t got = -1;

	if (fd < 0 && out_of_resources(errno))
		return NULL;
	if (fd >= 0)
		got = read(fd, text, sizeof(text) - 1);
	if (got <= 0 || strnlen(text, (size_t)got) != (size_t)got)
		got = 0;
	text[got] = '\0';
	return strdup(text);
}

int ipam_slot_read(struct mk_ipam *ipam, struct mk_ipam_slot *slot, struct mk_error *err)
{
	char name[MK_IPAM_ADDRESS_BYTES], *owner;

	if (!slot->allocated || slot->text)
		return 0;
	owner = ipam_owner_read(ipam->dir_fd, mk_ipam_name(&slot->ip, name));
	if (!owner)
		return mk_error_errno(err, errno, "cannot read '%s/%s'", ipam->path, name);
	ipam_slot_set_owner(slot, owner);
	return 0;
}

int ipam_read_owners(struct mk_ipam *ipam, struct mk_error *err)
{
	struct mk_ipam_slot *slot, *next;
	int ret;

	HASH_ITER(hh, ipam->slots, slot, next) {
		ret = ipam_slot_read(ipam, slot, err);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int load_allocated(struct mk_ipam *ipam, const char *name, struct mk_error *err)
{
	struct mk_ipam_slot *slot;
	struct mk_ip ip;

	/* our own directories and files */
	if (name[0] == '.' || strcmp(name, LOCK_NAME) == 0 || strcmp(name, RELEASED_NAME) == 0)
		return 0;
	if (ipam_name_parse(name, &ip) < 0) {
		mk_log_warn(
			"file in the address directory is ignored, because monokube did not write it: remove it path=%s/%s",
			ipam->path, name);
		return 0;
	}
	slot = ipam_slot_get(ipam, &ip, err);
	if (!slot)
		return -ENOMEM;
	slot->allocated = true;
	return 0;
}

/* An address has one entry in released/, and none while it is allocated. Entries that a kill left
 * are removed. If that fails (read-only), the next open tries again. */
static int load_released(struct mk_ipam *ipam, const char *name, struct mk_error *err)
{
	char older[MK_IPAM_NAME_BYTES];
	struct mk_ip ip;
	struct mk_ipam_slot *slot;
	uint64_t sequence;

	if (!parse_released_name(name, &sequence, &ip)) {
		mk_log_warn(
			"file in the address directory is ignored, because monokube did not write it: remove it path=%s/" RELEASED_NAME
			"/%s",
			ipam->path, name);
		return 0;
	}
	slot = ipam_slot_get(ipam, &ip, err);
	if (!slot)
		return -ENOMEM;
	if (sequence > ipam->last_sequence)
		ipam->last_sequence = sequence;
	if (slot->allocated || sequence < slot->sequence) {
		unlinkat(ipam->released_fd, name, 0);
		return 0;
	}
	if (slot->sequence)
		unlinkat(ipam->released_fd, ipam_released_name(slot->sequence, &ip, older), 0);
	slot->sequence = sequence;
	return 0;
}

static int each_name(struct mk_ipam *ipam, int dir_fd,
		     int (*load)(struct mk_ipam *ipam, const char *name, struct mk_error *err),
		     struct mk_error *err)
{
	cleanup_closedir DIR *dir = NULL;
	cleanup_close int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *entry;
	int ret;

	dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir)
		return mk_error_errno(err, errno, "cannot list '%s'", ipam->path);
	mk_steal_fd(&fd);
	for (errno = 0; (entry = readdir(dir)); errno = 0) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		ret = load(ipam, entry->d_name, err);
		if (ret < 0)
			return ret;
	}
	return errno ? mk_error_errno(err, errno, "cannot list '%s'", ipam->path) : 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_dirs(struct mk_ipam *ipam, const char *state_dir, struct mk_error *err)
{
	char released[PATH_MAX];

	if (snprintf(ipam->path, sizeof(ipam->path), "%s/ipam", state_dir) >=
		    (int)sizeof(ipam->path) ||
	    snprintf(released, sizeof(released), "%s/ipam/" RELEASED_NAME, state_dir) >=
		    (int)sizeof(released))
		return mk_error_errno(err, ENAMETOOLONG, "state directory '%s'", state_dir);
	ipam->released_fd = mk_dir_open(released, 0700, err);
	if (ipam->released_fd < 0)
		return ipam->released_fd;
	ipam->dir_fd = openat(ipam->released_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ipam->dir_fd < 0)
		return mk_error_errno(err, errno, "cannot open '%s'", ipam->path);
	return 0;
}

/* The kernel releases the lock of a holder that dies. For a holder that hangs,
 * base/lock.h has a limit. */
static int lock(struct mk_ipam *ipam, struct mk_error *err)
{
	char path[PATH_MAX + sizeof(LOCK_NAME) + 1];

	ipam->lock_fd =
		openat(ipam->dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (ipam->lock_fd < 0)
		return mk_error_errno(err, errno, "cannot open '%s/" LOCK_NAME "'", ipam->path);
	snprintf(path, sizeof(path), "%s/" LOCK_NAME, ipam->path);
	return mk_lock_fd(ipam->lock_fd, LOCK_EX, path, err);
}

/* Do others still find the lock that we hold? Not if the directory was removed (monokube
 * cleanup) while we waited. */
static bool lock_is_current(const struct mk_ipam *ipam)
{
	char path[PATH_MAX + sizeof(LOCK_NAME) + 1];
	struct stat ours, theirs;

	snprintf(path, sizeof(path), "%s/" LOCK_NAME, ipam->path);
	return fstat(ipam->lock_fd, &ours) == 0 && stat(path, &theirs) == 0 &&
	       ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int open_locked(struct mk_ipam *ipam, const char *state_dir, struct mk_error *err)
{
	enum { ATTEMPTS = 10 };

	for (int i = 0; i < ATTEMPTS; i++) {
		int ret = open_dirs(ipam, state_dir, err) ?: lock(ipam, err);

		if (ret < 0 || lock_is_current(ipam))
			return ret;
		close_fd(&ipam->dir_fd);
		close_fd(&ipam->released_fd);
		close_fd(&ipam->lock_fd);
	}
	return mk_error_set(err, EAGAIN, "'%s' was removed while waiting for its lock, %d times",
			    ipam->path, ATTEMPTS);
}

struct mk_ipam *mk_ipam_open(const char *state_dir, struct mk_error *err)
{
	struct mk_ipam *ipam = mk_new(sizeof(*ipam), "address table", err);

	if (!ipam)
		return NULL;
	ipam->dir_fd = ipam->released_fd = ipam->lock_fd = ipam->owners_fd = ipam->both_fd = -1;
	if (open_locked(ipam, state_dir, err) < 0)
		goto failed;
	if (unlinkat(ipam->dir_fd, MK_IPAM_NEW, 0) < 0 && errno != ENOENT) {
		mk_error_errno(err, errno, "cannot remove '%s/" MK_IPAM_NEW "'", ipam->path);
		goto failed;
	}
	if (each_name(ipam, ipam->dir_fd, load_allocated, err) < 0 ||
	    each_name(ipam, ipam->released_fd, load_released, err) < 0 ||
	    ipam_owners_open(ipam, err) < 0)
		goto failed;
	ipam_both_open(ipam);
	return ipam;
failed:
	mk_ipam_free(ipam);
	return NULL;
}

void mk_ipam_free(struct mk_ipam *ipam)
{
	struct mk_ipam_slot *slot, *next;

	if (!ipam)
		return;
	HASH_ITER(hh, ipam->slots, slot, next) {
		ipam_slot_drop(ipam, slot);
	}
	close_fd(&ipam->dir_fd);
	close_fd(&ipam->released_fd);
	close_fd(&ipam->owners_fd);
	close_fd(&ipam->both_fd);
	close_fd(&ipam->lock_fd); /* unlocks */
	free(ipam);
}
