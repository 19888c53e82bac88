// SPDX-License-Identifier: Apache-2.0
/* On disk, below state_dir/ipam (directories 0700, files 0600):
 *
 *   lock				flock(2), exclusive while an mk_ipam exists
 *   10.244.1.7				allocated: container id, interface, netns path; a line each
 *   released/00000000000000a3-10.244.1.9	released as number 0xa3, once the file above
 *   .new				being written, or left by a kill
 *
 * Allocating renames .new to the address, releasing renames the address into released/. A kill
 * after the first and before the old entry of released/ is unlinked leaves both: the allocation
 * counts, and the next open removes the other.
 *
 * Nothing is fsynced. That would cost each pod start a disk flush (milliseconds), and all it
 * could save are allocations of containers that did not survive the power loss either. What a
 * power loss can leave behind is a file whose content never reached the disk: it keeps its
 * address until garbage collection frees it (mk_ipam_each() shows it without an owner). */
#include "ipam/ipam.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <uthash.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"

#define LOCK_NAME     "lock"
#define NEW_NAME      ".new"
#define RELEASED_NAME "released"
#define SEQUENCE_LEN  16 /* hexadecimal digits */
#define NAME_BYTES    (SEQUENCE_LEN + 1 + MK_IP_STRLEN)
#define OWNER_BYTES   (PATH_MAX + 512)

/* An address that was ever allocated. */
struct slot {
	struct slot_key {
		uint8_t family;
		uint8_t bytes[16];
	} key;
	struct mk_ip ip;
	bool allocated;
	char *container_id, *ifname, *netns; /* allocated: one block, at container_id */
	uint64_t sequence; /* released: when; 0 if never */
	UT_hash_handle hh;
};

struct mk_ipam {
	char path[PATH_MAX]; /* of the directory, for messages */
	int dir_fd, released_fd, lock_fd;
	struct slot *slots;
	uint64_t last_sequence;
};

/* ---- slots ------------------------------------------------------------------------------- */

static size_t ip_bytes(const struct mk_ip *ip)
{
	return ip->family == AF_INET ? sizeof(ip->v4) : sizeof(ip->v6);
}

static struct slot_key key_of(const struct mk_ip *ip)
{
	struct slot_key key = { .family = (uint8_t)ip->family };

	memcpy(key.bytes, &ip->v6, ip_bytes(ip));
	return key;
}

static struct slot *slot_find(struct mk_ipam *ipam, const struct mk_ip *ip)
{
	const struct slot_key key = key_of(ip);
	struct slot *slot;

	HASH_FIND(hh, ipam->slots, &key, sizeof(key), slot);
	return slot;
}

static struct slot *slot_get(struct mk_ipam *ipam, const struct mk_ip *ip, struct mk_error *err)
{
	struct slot *slot = slot_find(ipam, ip);

	if (slot)
		return slot;
	slot = calloc(1, sizeof(*slot));
	if (!slot) {
		mk_error_errno(err, ENOMEM, "address table");
		return NULL;
	}
	slot->key = key_of(ip);
	slot->ip = *ip;
	HASH_ADD(hh, ipam->slots, key, sizeof(slot->key), slot);
	return slot;
}

static void slot_free(struct slot *slot)
{
	free(slot->container_id);
	free(slot);
}

/* @text becomes the slot's. Lines that are missing are empty: owner unknown. */
static void slot_set_owner(struct slot *slot, char *text)
{
	static char nothing[] = "";
	char *ifname = strchr(text, '\n');
	char *netns = ifname ? strchr(ifname + 1, '\n') : NULL;
	char *end = netns ? strchr(netns + 1, '\n') : NULL;

	free(slot->container_id);
	slot->container_id = text;
	slot->ifname = slot->netns = nothing;
	slot->allocated = true;
	if (!end || end[1] != '\0' || ifname == text || netns == ifname + 1) {
		*text = '\0';
		return;
	}
	*ifname = *netns = *end = '\0';
	slot->ifname = ifname + 1;
	slot->netns = netns + 1;
}

static bool slot_is_of(const struct slot *slot, const char *container_id, const char *ifname)
{
	return slot->allocated && strcmp(slot->container_id, container_id) == 0 &&
	       strcmp(slot->ifname, ifname) == 0;
}

static struct slot *slot_of_owner(struct mk_ipam *ipam, const char *container_id,
				  const char *ifname)
{
	struct slot *slot, *next;

	HASH_ITER(hh, ipam->slots, slot, next) {
		if (slot_is_of(slot, container_id, ifname))
			return slot;
	}
	return NULL;
}

/* ---- reading the directory ------------------------------------------------------------------ */

static bool parse_name(const char *name, struct mk_ip *ip)
{
	char canonical[MK_IP_STRLEN];

	return mk_ip_parse(name, ip) == 0 && strcmp(mk_ip_format(ip, canonical), name) == 0;
}

static bool parse_released_name(const char *name, uint64_t *sequence, struct mk_ip *ip)
{
	if (strspn(name, "0123456789abcdef") != SEQUENCE_LEN || name[SEQUENCE_LEN] != '-')
		return false;
	*sequence = strtoull(name, NULL, 16);
	return parse_name(name + SEQUENCE_LEN + 1, ip);
}

static const char *format_released_name(uint64_t sequence, const struct mk_ip *ip, char *buf)
{
	char text[MK_IP_STRLEN];

	snprintf(buf, NAME_BYTES, "%0*" PRIx64 "-%s", SEQUENCE_LEN, sequence,
		 mk_ip_format(ip, text));
	return buf;
}

/* Not the file's fault, so no reason to take its owner for lost. */
static bool out_of_resources(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOMEM;
}

/* The content of an allocation, "" if it cannot be read (see the top of this file). */
static char *read_owner(struct mk_ipam *ipam, const char *name)
{
	cleanup_close int fd =
		openat(ipam->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char text[OWNER_BYTES];
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

static int load_allocated(struct mk_ipam *ipam, const char *name, struct mk_error *err)
{
	struct mk_ip ip;
	struct slot *slot;
	char *owner;

	if (strcmp(name, LOCK_NAME) == 0 || strcmp(name, RELEASED_NAME) == 0)
		return 0;
	if (!parse_name(name, &ip)) {
		mk_log_warn("address directory holds a file that is not ours, ignored "
			    "path=%s/%s",
			    ipam->path, name);
		return 0;
	}
	slot = slot_get(ipam, &ip, err);
	if (!slot)
		return -ENOMEM;
	owner = read_owner(ipam, name);
	if (!owner)
		return mk_error_errno(err, errno, "cannot read '%s/%s'", ipam->path, name);
	slot_set_owner(slot, owner);
	if (!slot->container_id[0])
		mk_log_warn("address file without a readable owner, in use until garbage "
			    "collection path=%s/%s",
			    ipam->path, name);
	return 0;
}

/* An address has one entry in released/ and none while it is allocated; what a kill left beside
 * is removed. Should that fail (read-only), the next open sees the same and tries again. */
static int load_released(struct mk_ipam *ipam, const char *name, struct mk_error *err)
{
	char older[NAME_BYTES];
	struct mk_ip ip;
	struct slot *slot;
	uint64_t sequence;

	if (!parse_released_name(name, &sequence, &ip)) {
		mk_log_warn("address directory holds a file that is not ours, ignored "
			    "path=%s/" RELEASED_NAME "/%s",
			    ipam->path, name);
		return 0;
	}
	slot = slot_get(ipam, &ip, err);
	if (!slot)
		return -ENOMEM;
	if (sequence > ipam->last_sequence)
		ipam->last_sequence = sequence;
	if (slot->allocated || sequence < slot->sequence) {
		unlinkat(ipam->released_fd, name, 0);
		return 0;
	}
	if (slot->sequence)
		unlinkat(ipam->released_fd, format_released_name(slot->sequence, &ip, older), 0);
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

/* ---- opening ------------------------------------------------------------------------------- */

static int open_dirs(struct mk_ipam *ipam, const char *state_dir, struct mk_error *err)
{
	char released[PATH_MAX];
	int ret;

	if (snprintf(ipam->path, sizeof(ipam->path), "%s/ipam", state_dir) >=
		    (int)sizeof(ipam->path) ||
	    snprintf(released, sizeof(released), "%s/ipam/" RELEASED_NAME, state_dir) >=
		    (int)sizeof(released))
		return mk_error_set(err, ENAMETOOLONG, "state directory '%s'", state_dir);
	ret = mk_mkdirs(released, 0700, err);
	if (ret < 0)
		return ret;
	ipam->dir_fd = open(ipam->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ipam->dir_fd < 0)
		return mk_error_errno(err, errno, "cannot open '%s'", ipam->path);
	ipam->released_fd = open(released, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ipam->released_fd < 0)
		return mk_error_errno(err, errno, "cannot open '%s'", released);
	return 0;
}

/* Wait for the lock. Without a limit: a holder does a few file operations and nothing else, and
 * the kernel takes the lock from one that dies. */
static int lock(struct mk_ipam *ipam, struct mk_error *err)
{
	ipam->lock_fd =
		openat(ipam->dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (ipam->lock_fd < 0)
		return mk_error_errno(err, errno, "cannot open '%s/" LOCK_NAME "'", ipam->path);
	while (flock(ipam->lock_fd, LOCK_EX) < 0) {
		if (errno != EINTR)
			return mk_error_errno(err, errno, "cannot lock '%s'", ipam->path);
	}
	return 0;
}

/* Is the lock we hold still the one that others find? Not if everything was removed (monokube
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
		int ret = open_dirs(ipam, state_dir, err);

		if (ret == 0)
			ret = lock(ipam, err);
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
	struct mk_ipam *ipam = calloc(1, sizeof(*ipam));

	if (!ipam) {
		mk_error_errno(err, ENOMEM, "address table");
		return NULL;
	}
	ipam->dir_fd = ipam->released_fd = ipam->lock_fd = -1;
	if (open_locked(ipam, state_dir, err) < 0)
		goto failed;
	if (unlinkat(ipam->dir_fd, NEW_NAME, 0) < 0 && errno != ENOENT) {
		mk_error_errno(err, errno, "cannot remove '%s/" NEW_NAME "'", ipam->path);
		goto failed;
	}
	if (each_name(ipam, ipam->dir_fd, load_allocated, err) < 0 ||
	    each_name(ipam, ipam->released_fd, load_released, err) < 0)
		goto failed;
	return ipam;
failed:
	mk_ipam_free(ipam);
	return NULL;
}

void mk_ipam_free(struct mk_ipam *ipam)
{
	struct slot *slot, *next;

	if (!ipam)
		return;
	HASH_ITER(hh, ipam->slots, slot, next) {
		HASH_DEL(ipam->slots, slot);
		slot_free(slot);
	}
	close_fd(&ipam->dir_fd);
	close_fd(&ipam->released_fd);
	close_fd(&ipam->lock_fd); /* unlocks */
	free(ipam);
}

/* ---- allocating ---------------------------------------------------------------------------- */

static struct mk_ip ip_next(struct mk_ip ip)
{
	uint8_t *bytes = (uint8_t *)&ip.v6;

	for (size_t i = ip_bytes(&ip); i > 0 && ++bytes[i - 1] == 0; i--)
		;
	return ip;
}

/* The lowest address that was never used, else the one released longest ago. Returns false if
 * there is neither; *@in_use counts those before the choice was made. */
static bool choose(struct mk_ipam *ipam, const struct mk_ip *first, const struct mk_ip *last,
		   struct mk_ip *chosen, unsigned int *in_use)
{
	const struct slot *oldest = NULL;

	*in_use = 0;
	for (struct mk_ip ip = *first; mk_ip_compare(&ip, last) <= 0; ip = ip_next(ip)) {
		const struct slot *slot = slot_find(ipam, &ip);

		if (!slot) {
			*chosen = ip;
			return true;
		}
		if (slot->allocated)
			(*in_use)++;
		else if (!oldest || slot->sequence < oldest->sequence)
			oldest = slot;
		if (mk_ip_equal(&ip, last))
			break; /* the last one of all has no next */
	}
	if (oldest)
		*chosen = oldest->ip;
	return oldest != NULL;
}

static int write_owner(struct mk_ipam *ipam, const char *text)
{
	cleanup_close int fd = openat(ipam->dir_fd, NEW_NAME,
				      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	ssize_t put;

	if (fd < 0)
		return -errno;
	put = write(fd, text, strlen(text));
	if (put < 0)
		return -errno;
	return (size_t)put == strlen(text) ? 0 : -ENOSPC;
}

/* Write the file of @ip: after this returned 0 the address is the owner's. */
static int store(struct mk_ipam *ipam, const struct mk_ip *ip, const char *text,
		 struct mk_error *err)
{
	char name[MK_IP_STRLEN];
	int ret = write_owner(ipam, text);

	mk_ip_format(ip, name);
	if (ret == 0 && renameat(ipam->dir_fd, NEW_NAME, ipam->dir_fd, name) < 0)
		ret = -errno;
	if (ret == 0)
		return 0;
	unlinkat(ipam->dir_fd, NEW_NAME, 0);
	mk_error_errno(err, -ret, "cannot write '%s/%s'", ipam->path, name);
	if (ret == -ENOSPC) { /* to callers, ENOSPC means that the addresses are used up */
		ret = -EIO;
		if (err)
			err->code = EIO;
	}
	return ret;
}

static int claim(struct mk_ipam *ipam, const struct mk_ip *ip, const struct mk_ipam_owner *owner,
		 struct mk_error *err)
{
	struct slot *slot = slot_get(ipam, ip, err);
	cleanup_free char *text = NULL;
	char name[NAME_BYTES];
	int ret;

	if (!slot)
		return -ENOMEM;
	if (asprintf(&text, "%s\n%s\n%s\n", owner->container_id, owner->ifname, owner->netns) < 0) {
		text = NULL;
		return mk_error_errno(err, ENOMEM, "address table");
	}
	ret = store(ipam, ip, text, err);
	if (ret < 0)
		goto failed;
	if (slot->sequence)
		unlinkat(ipam->released_fd, format_released_name(slot->sequence, ip, name), 0);
	slot->sequence = 0;
	slot_set_owner(slot, mk_steal_ptr(text));
	return 0;
failed:
	if (!slot->sequence) { /* still never used */
		HASH_DEL(ipam->slots, slot);
		slot_free(slot);
	}
	return ret;
}

static bool is_line(const char *text)
{
	return strchr(text, '\n') == NULL;
}

static int check_owner(const struct mk_ipam_owner *owner, struct mk_error *err)
{
	if (owner->container_id[0] && owner->ifname[0] && is_line(owner->container_id) &&
	    is_line(owner->ifname) && is_line(owner->netns) &&
	    strlen(owner->container_id) + strlen(owner->ifname) + strlen(owner->netns) + 4 <
		    OWNER_BYTES)
		return 0;
	return mk_error_set(err, EINVAL,
			    "owner of an address makes no sense: container '%s' "
			    "interface '%s' namespace '%s'",
			    owner->container_id, owner->ifname, owner->netns);
}

int mk_ipam_allocate(struct mk_ipam *ipam, const struct mk_ip *first, const struct mk_ip *last,
		     const struct mk_ipam_owner *owner, struct mk_ip *ip, struct mk_error *err)
{
	const struct slot *have = slot_of_owner(ipam, owner->container_id, owner->ifname);
	char a[MK_IP_STRLEN], b[MK_IP_STRLEN];
	int ret = check_owner(owner, err);
	unsigned int in_use;

	if (ret < 0)
		return ret;
	if (have) {
		*ip = have->ip;
		return mk_error_set(err, EEXIST,
				    "container '%s' has address %s for interface '%s' already",
				    owner->container_id, mk_ip_format(ip, a), owner->ifname);
	}
	if (choose(ipam, first, last, ip, &in_use))
		return claim(ipam, ip, owner, err);
	return mk_error_set(err, ENOSPC, "no free address between %s and %s: all %u are in use",
			    mk_ip_format(first, a), mk_ip_format(last, b), in_use);
}

int mk_ipam_find(struct mk_ipam *ipam, const char *container_id, const char *ifname,
		 struct mk_ip *ip, struct mk_error *err)
{
	const struct slot *slot = slot_of_owner(ipam, container_id, ifname);

	if (!slot)
		return mk_error_set(err, ENOENT,
				    "no address is allocated to container '%s' interface '%s'",
				    container_id, ifname);
	*ip = slot->ip;
	return 0;
}

bool mk_ipam_is_allocated(struct mk_ipam *ipam, const struct mk_ip *ip)
{
	const struct slot *slot = slot_find(ipam, ip);

	return slot && slot->allocated;
}

/* ---- releasing ----------------------------------------------------------------------------- */

static int slot_release(struct mk_ipam *ipam, struct slot *slot, struct mk_error *err)
{
	char name[MK_IP_STRLEN], released[NAME_BYTES];
	uint64_t sequence = ipam->last_sequence + 1;

	mk_ip_format(&slot->ip, name);
	format_released_name(sequence, &slot->ip, released);
	if (renameat(ipam->dir_fd, name, ipam->released_fd, released) < 0) {
		/* No room for one more directory entry: better a free address whose place in
		 * the order is lost than one that cannot be given back. */
		if (errno != ENOSPC && errno != EDQUOT)
			return mk_error_errno(err, errno, "cannot release '%s/%s'", ipam->path,
					      name);
		if (unlinkat(ipam->dir_fd, name, 0) < 0)
			return mk_error_errno(err, errno, "cannot remove '%s/%s'", ipam->path,
					      name);
	}
	ipam->last_sequence = slot->sequence = sequence;
	slot->allocated = false;
	return 0;
}

int mk_ipam_release(struct mk_ipam *ipam, const char *container_id, const char *ifname,
		    struct mk_error *err)
{
	struct slot *slot = slot_of_owner(ipam, container_id, ifname);

	return slot ? slot_release(ipam, slot, err) : 0;
}

int mk_ipam_release_ip(struct mk_ipam *ipam, const struct mk_ip *ip, struct mk_error *err)
{
	struct slot *slot = slot_find(ipam, ip);

	return slot && slot->allocated ? slot_release(ipam, slot, err) : 0;
}

int mk_ipam_each(struct mk_ipam *ipam,
		 int (*visit)(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner),
		 void *ctx, struct mk_error *err)
{
	struct slot *slot, *next;
	int ret;

	(void)err;
	HASH_ITER(hh, ipam->slots, slot, next) {
		const struct mk_ipam_owner owner = {
			.container_id = slot->container_id,
			.ifname = slot->ifname,
			.netns = slot->netns,
		};

		if (!slot->allocated)
			continue;
		ret = visit(ctx, &slot->ip, &owner);
		if (ret < 0)
			return ret;
	}
	return 0;
}
