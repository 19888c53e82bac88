// SPDX-License-Identifier: Apache-2.0
#include "datapath/pods/host_ports.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/maps/bpflog.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/runtime.h"
#include "datapath/maps/table.h"
#include "datapath/sessions/sweep.h"

/* The tables of a family. */
struct family {
	sa_family_t family;
	char dir[PATH_MAX];
	struct mk_table table; /* without a name: the family is not pinned */
};

struct mk_host_ports {
	const char *state_dir; /* owned by the caller */
	struct family families[MK_FAMILIES];
	/* entries that the current change removes */
	struct mk_host_port_entry *retired;
	size_t retired_count;
};

/* Returns 1, or 0 if the map is not pinned. */
static int open_family(struct family *family, const char *bpf_dir, struct mk_error *err)
{
	struct mk_error cause = { 0 };
	int ret = mk_pin_dir(family->dir, bpf_dir, family->family, err);

	if (ret < 0)
		return ret;
	ret = mk_table_open(&family->table, family->dir, "host_ports",
			    sizeof(struct mk_host_port_key), sizeof(struct mk_host_port), &cause);
	if (ret == -ENOENT)
		return 0;
	if (ret < 0)
		*err = cause;
	return ret < 0 ? ret : 1;
}

static int open_families(struct mk_host_ports *ports, const char *bpf_dir, struct mk_error *err)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };
	int found = 0;

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		int ret;

		ports->families[i].family = families[i];
		ret = open_family(&ports->families[i], bpf_dir, err);
		if (ret < 0)
			return ret;
		found += ret;
	}
	return found ? 0
		     : mk_error_set(err, ENOENT, "no map 'host_ports' is pinned below '%s'",
				    bpf_dir);
}

struct mk_host_ports *mk_host_ports_open(const char *bpf_dir, const char *state_dir,
					 struct mk_error *err)
{
	cleanup_host_ports struct mk_host_ports *ports = calloc(1, sizeof(*ports));

	if (!ports) {
		(void)mk_error_errno(err, ENOMEM, "cannot open map 'host_ports'");
		return NULL;
	}
	mk_bpflog_init();
	ports->state_dir = state_dir;
	return open_families(ports, bpf_dir, err) < 0 ? NULL : mk_steal_ptr(ports);
}

void mk_host_ports_free(struct mk_host_ports *ports)
{
	if (!ports)
		return;
	for (size_t i = 0; i < MK_FAMILIES; i++)
		mk_table_close(&ports->families[i].table);
	free(ports->retired);
	free(ports);
}

/* Get the tables of @family. -ENOENT: they are not pinned. */
static int family_of(struct mk_host_ports *ports, sa_family_t family, struct family **found,
		     struct mk_error *err)
{
	*found = &ports->families[mk_family_index(family)];
	if ((*found)->table.name)
		return 0;
	return mk_error_set(err, ENOENT, "no map 'host_ports' of %s is pinned",
			    mk_family_name(family));
}

bool mk_host_ports_has(const struct mk_host_ports *ports, sa_family_t family)
{
	return ports->families[mk_family_index(family)].table.name;
}

const char *mk_host_port_format(const struct mk_host_port_entry *entry, char *buf)
{
	const struct mk_host_port_key *key = &entry->key;
	const struct mk_ip_port at = { mk_ip_of_family(&key->addr, entry->family),
				       ntohs(key->port) };
	const char *proto = key->proto == IPPROTO_UDP	 ? "udp"
			    : key->proto == IPPROTO_SCTP ? "sctp"
							 : "tcp";
	char text[MK_IP_PORT_STRLEN];

	snprintf(buf, MK_HOST_PORT_STRLEN, "%s/%s", mk_ip_port_format(&at, text), proto);
	return buf;
}

int mk_host_ports_get(struct mk_host_ports *ports, sa_family_t family,
		      const struct mk_host_port_key *key, struct mk_host_port *to,
		      struct mk_error *err)
{
	struct family *of;
	int ret = family_of(ports, family, &of, err);

	return ret ?: mk_table_get(&of->table, key, to, err);
}

static int get_runtime(const struct family *family, struct mk_runtime *now, struct mk_error *err)
{
	cleanup_table struct mk_table table = { 0 };
	__u32 key = 0;
	int ret = mk_table_open(&table, family->dir, "runtime", sizeof(key), sizeof(*now), err);

	return ret < 0 ? ret : mk_table_get(&table, &key, now, err);
}

int mk_host_ports_state(struct mk_host_ports *ports, struct mk_host_ports_state *state,
			struct mk_error *err)
{
	*state = (struct mk_host_ports_state){ 0 };
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		cleanup_free void *keys = NULL;
		struct mk_runtime now;
		size_t count;
		int ret;

		if (!ports->families[i].table.name)
			continue;
		ret = mk_table_keys(&ports->families[i].table, &keys, &count, err);
		ret = ret ?: get_runtime(&ports->families[i], &now, err);
		if (ret < 0)
			return ret;
		state->count += count;
		state->filled |= (unsigned int)(count != 0) << i;
		state->told |= (unsigned int)(now.host_ports != 0) << i;
	}
	return 0;
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* Did the session come through the host port @entry? Its forward entry has the port as key and
 * leads to the pod. Sessions of Services have an id, and untranslated flows to the same pod keep
 * their destination address. */
static bool came_by(const struct mk_host_port_entry *entry, const struct mk_tuple *key,
		    const struct mk_session *session)
{
	return session->flags & MK_SESSION_FORWARD && session->set_id == 0 &&
	       key->proto == entry->key.proto && key->dport == entry->key.port &&
	       session->to.dport == entry->to.port &&
	       mk_addr_eq(&session->to.daddr, &entry->to.addr) &&
	       !mk_addr_eq(&key->daddr, &session->to.daddr);
}

struct cutting {
	const struct mk_host_ports *ports;
	const struct mk_table *table;
};

static int cut_one(void *ctx, const void *key, const void *session, struct mk_error *err)
{
	const struct cutting *cutting = ctx;
	const struct mk_host_ports *ports = cutting->ports;
	struct mk_tuple pair_key = mk_session_pair_key(session);
	size_t i = 0;
	int ret;

	while (i < ports->retired_count && !came_by(&ports->retired[i], key, session))
		i++;
	if (i == ports->retired_count)
		return 0;
	ret = mk_table_delete(cutting->table, key, err);
	if (ret >= 0)
		ret = mk_table_delete(cutting->table, &pair_key, err);
	return ret < 0 ? ret : 0;
}

static int cut_sessions(const struct mk_host_ports *ports, const struct family *family,
			struct mk_error *err)
{
	static const char *const names[] = { "sessions", "sessions_young" };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(names); i++) {
		cleanup_table struct mk_table table = { 0 };
		struct cutting cutting = { ports, &table };

		ret = mk_table_open(&table, family->dir, names[i], sizeof(struct mk_tuple),
				    sizeof(struct mk_session), err);
		ret = ret ?: mk_table_each(&table, cut_one, &cutting, err);
	}
	return ret;
}

/* ---- changes, under the lock ----------------------------------------------------------------- */

static int lock(const struct mk_host_ports *ports, struct mk_error *err)
{
	return mk_state_lock(ports->state_dir, MK_LOCK_HOST_PORTS, LOCK_EX, err);
}

static bool is_empty(const struct family *family)
{
	struct mk_host_port_key key;

	return bpf_map_get_next_key(family->table.fd, NULL, &key) < 0 && errno == ENOENT;
}

static bool some_entries(const struct mk_host_ports *ports)
{
	bool some = false;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		some = some || (ports->families[i].table.name && !is_empty(&ports->families[i]));
	return some;
}

static int tell_udp_ports(const struct mk_host_ports *ports, const struct family *family,
			  struct mk_error *err)
{
	struct mk_port_set set = { 0 };
	cleanup_free void *list = NULL;
	size_t count;
	bool some = false;
	int ret = mk_table_keys(&family->table, &list, &count, err);

	for (size_t i = 0; ret == 0 && i < count; i++) {
		const struct mk_host_port_key *key = (const struct mk_host_port_key *)list + i;
		struct mk_host_port to;

		if (key->proto != IPPROTO_UDP || mk_table_get(&family->table, key, &to, NULL) < 0)
			continue;
		mk_port_set_add(&set, ntohs(to.port));
		some = true;
	}
	if (ret < 0 || !some)
		return ret;
	return mk_udp_ports_add(family->dir, ports->state_dir, &set, err);
}

/* Returns 1 if a setting changed. */
static int tell_family(const struct mk_host_ports *ports, const struct family *family,
		       struct mk_error *err)
{
	const struct mk_runtime_change change = {
		.set_host_ports = true,
		.host_ports = !is_empty(family),
	};
	int ret = tell_udp_ports(ports, family, err);

	return ret < 0 ? ret : mk_runtime_change(family->dir, ports->state_dir, &change, err);
}

/* Write the programs' settings from the tables' contents, after every change and under the lock, so
 * that the last writer is right. Returns 1 if a setting changed. */
static int tell_programs(const struct mk_host_ports *ports, struct mk_error *err)
{
	int changed = 0;

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		int ret = 0;

		if (ports->families[i].table.name)
			ret = tell_family(ports, &ports->families[i], err);
		if (ret < 0)
			return ret;
		changed |= ret;
	}
	return changed;
}

static int remember(struct mk_host_ports *ports, const struct mk_host_port_entry *entry,
		    struct mk_error *err)
{
	struct mk_host_port_entry *added = mk_append(ports->retired, ports->retired_count);

	if (!added)
		return mk_error_errno(err, ENOMEM, "cannot change map 'host_ports'");
	*added = *entry;
	return 0;
}

static int mark_retired(const struct mk_host_ports *ports, const struct family *family,
			struct mk_error *err)
{
	int marked = 0;

	for (size_t i = 0; i < ports->retired_count; i++) {
		struct mk_host_port to = ports->retired[i].to;
		int ret;

		if (ports->retired[i].family != family->family)
			continue;
		to.leaving = 1;
		ret = mk_table_put(&family->table, &ports->retired[i].key, &to, err);
		if (ret < 0)
			return ret;
		marked++;
	}
	return marked;
}

static int delete_retired(const struct mk_host_ports *ports, const struct family *family,
			  struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < ports->retired_count; i++)
		if (ports->retired[i].family == family->family)
			ret = mk_table_delete(&family->table, &ports->retired[i].key, err);
	return ret < 0 ? ret : 0;
}

/* Remove the remembered entries, and cut their sessions first. Nothing else cuts them: after the
 * pod's address is assigned again, a UDP client that keeps sending would reach the new pod. Entries
 * are marked before that and removed last, so that after a kill the next sweep completes the
 * work. */
static int retire(struct mk_host_ports *ports, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		const struct family *family = &ports->families[i];

		ret = mark_retired(ports, family, err);
		if (ret > 0)
			ret = cut_sessions(ports, family, err)
				      ?: delete_retired(ports, family, err);
	}
	return ret;
}

/* ---- claiming -------------------------------------------------------------------------------- */

/* Does another pod that is alive hold the port of @entry? 1 with *@holder, 0, or an error. An entry
 * whose pod is gone is remembered for removal. */
static int is_held(struct mk_host_ports *ports, const struct mk_host_port_entry *entry,
		   const struct mk_host_port_judge *judge, struct mk_host_port_entry *holder,
		   struct mk_error *err)
{
	struct family *family;
	int ret = family_of(ports, entry->family, &family, err);

	if (ret < 0)
		return ret;
	*holder = *entry;
	ret = mk_table_get(&family->table, &entry->key, &holder->to, err);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (mk_addr_eq(&holder->to.addr, &entry->to.addr) &&
	    holder->to.ifindex == entry->to.ifindex)
		return 0;
	if (!holder->to.leaving)
		ret = judge->is_alive(judge->ctx, &holder->to, err);
	return ret != 0 ? ret : remember(ports, holder, err);
}

static int claim_locked(struct mk_host_ports *ports, const struct mk_host_port_entry *entries,
			size_t count, const struct mk_host_port_judge *judge,
			struct mk_host_port_entry *holder, struct mk_error *err)
{
	char text[MK_HOST_PORT_STRLEN];
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = is_held(ports, &entries[i], judge, holder, err);
	if (ret > 0)
		return mk_error_set(
			err, EEXIST,
			"host port %s is in use by another pod: delete that pod, or choose another hostPort",
			mk_host_port_format(holder, text));
	ret = ret ?: retire(ports, err);
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = mk_table_put(&ports->families[mk_family_index(entries[i].family)].table,
				   &entries[i].key, &entries[i].to, err);
	if (ret >= 0)
		ret = tell_programs(ports, err);
	return ret < 0 ? ret : 0;
}

int mk_host_ports_claim(struct mk_host_ports *ports, const struct mk_host_port_entry *entries,
			size_t count, const struct mk_host_port_judge *judge,
			struct mk_host_port_entry *holder, struct mk_error *err)
{
	cleanup_close int fd = lock(ports, err);
	int ret = fd < 0 ? fd : claim_locked(ports, entries, count, judge, holder, err);

	ports->retired_count = 0;
	return ret;
}

/* ---- removing -------------------------------------------------------------------------------- */

/* Remember the entries of @family whose pod is gone according to @judge. */
static int find_gone(struct mk_host_ports *ports, const struct family *family,
		     const struct mk_host_port_judge *judge, struct mk_error *err)
{
	cleanup_free void *list = NULL;
	size_t count;
	int ret = mk_table_keys(&family->table, &list, &count, err);

	for (size_t i = 0; ret == 0 && i < count; i++) {
		struct mk_host_port_entry entry = {
			.family = family->family,
			.key = ((const struct mk_host_port_key *)list)[i],
		};

		if (mk_table_get(&family->table, &entry.key, &entry.to, NULL) < 0)
			continue;
		ret = entry.to.leaving ? 0 : judge->is_alive(judge->ctx, &entry.to, err);
		if (ret == 0)
			ret = remember(ports, &entry, err);
		else if (ret > 0)
			ret = 0;
	}
	return ret;
}

/* Remove the entries whose pod is gone according to @judge. Returns their number. */
static int remove_locked(struct mk_host_ports *ports, const struct mk_host_port_judge *judge,
			 struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (ports->families[i].table.name)
			ret = find_gone(ports, &ports->families[i], judge, err);
	ret = ret ?: retire(ports, err);
	ret = ret ?: tell_programs(ports, err);
	if (ret > 0 && !ports->retired_count) /* not because of our own change */
		mk_log_warn(
			"a setting of the programs was wrong and is repaired map=runtime host_ports=%d",
			some_entries(ports));
	return ret < 0 ? ret : (int)ports->retired_count;
}

int mk_host_ports_sweep(struct mk_host_ports *ports, const struct mk_host_port_judge *judge,
			struct mk_error *err)
{
	cleanup_close int fd = lock(ports, err);
	int ret = fd < 0 ? fd : remove_locked(ports, judge, err);

	ports->retired_count = 0;
	return ret;
}

struct leaving {
	const struct mk_addr *addr; /* NULL: unknown */
	uint32_t ifindex; /* 0: unknown */
};

static int is_of_another(void *ctx, const struct mk_host_port *to, struct mk_error *err)
{
	const struct leaving *leaving = ctx;

	(void)err;
	return !(leaving->addr && mk_addr_eq(leaving->addr, &to->addr)) &&
	       !(leaving->ifindex && leaving->ifindex == to->ifindex);
}

int mk_host_ports_remove(struct mk_host_ports *ports, const struct mk_ip *ip, uint32_t ifindex,
			 struct mk_error *err)
{
	const struct mk_addr addr = ip ? mk_ip_to_addr(ip) : (struct mk_addr){ 0 };
	struct leaving leaving = { .addr = ip ? &addr : NULL, .ifindex = ifindex };
	const struct mk_host_port_judge judge = { .is_alive = is_of_another, .ctx = &leaving };
	int ret;

	if (!some_entries(ports)) /* on most nodes; then take no lock */
		return 0;
	ret = mk_host_ports_sweep(ports, &judge, err);
	return ret < 0 ? ret : 0;
}
