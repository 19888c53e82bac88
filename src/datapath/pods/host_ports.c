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

struct mk_host_ports {
	char dir[PATH_MAX];
	const char *state_dir; /* owned by the caller */
	struct mk_table table;
	/* entries that the current change removes */
	struct mk_host_port_entry *retired;
	size_t retired_count;
};

struct mk_host_ports *mk_host_ports_open(const char *bpf_dir, const char *state_dir,
					 struct mk_error *err)
{
	struct mk_host_ports *ports = calloc(1, sizeof(*ports));

	if (!ports) {
		(void)mk_error_errno(err, ENOMEM, "cannot open map 'host_ports'");
		return NULL;
	}
	mk_bpflog_init();
	ports->state_dir = state_dir;
	if (mk_pin_first_dir(ports->dir, bpf_dir, err) < 0 ||
	    mk_table_open(&ports->table, ports->dir, "host_ports", sizeof(struct mk_host_port_key),
			  sizeof(struct mk_host_port), err) < 0) {
		free(ports);
		return NULL;
	}
	return ports;
}

void mk_host_ports_free(struct mk_host_ports *ports)
{
	if (!ports)
		return;
	mk_table_close(&ports->table);
	free(ports->retired);
	free(ports);
}

const char *mk_host_port_format(const struct mk_host_port_key *key, char *buf)
{
	const struct mk_ip_port at = { mk_ip_from_addr(&key->addr), ntohs(key->port) };
	const char *proto = key->proto == IPPROTO_UDP	 ? "udp"
			    : key->proto == IPPROTO_SCTP ? "sctp"
							 : "tcp";
	char text[MK_IP_PORT_STRLEN];

	snprintf(buf, MK_HOST_PORT_STRLEN, "%s/%s", mk_ip_port_format(&at, text), proto);
	return buf;
}

int mk_host_ports_get(struct mk_host_ports *ports, const struct mk_host_port_key *key,
		      struct mk_host_port *to, struct mk_error *err)
{
	return mk_table_get(&ports->table, key, to, err);
}

static int get_runtime(const struct mk_host_ports *ports, struct mk_runtime *now,
		       struct mk_error *err)
{
	cleanup_table struct mk_table table = { 0 };
	__u32 key = 0;
	int ret = mk_table_open(&table, ports->dir, "runtime", sizeof(key), sizeof(*now), err);

	return ret < 0 ? ret : mk_table_get(&table, &key, now, err);
}

int mk_host_ports_state(struct mk_host_ports *ports, size_t *count, bool *told,
			struct mk_error *err)
{
	cleanup_free void *keys = NULL;
	struct mk_runtime now;
	int ret = mk_table_keys(&ports->table, &keys, count, err);

	ret = ret ?: get_runtime(ports, &now, err);
	if (ret < 0)
		return ret;
	*told = now.host_ports != 0;
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

static int cut_sessions(const struct mk_host_ports *ports, struct mk_error *err)
{
	static const char *const names[] = { "sessions", "sessions_young" };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(names); i++) {
		cleanup_table struct mk_table table = { 0 };
		struct cutting cutting = { ports, &table };

		ret = mk_table_open(&table, ports->dir, names[i], sizeof(struct mk_tuple),
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

static bool is_empty(const struct mk_host_ports *ports)
{
	struct mk_host_port_key key;

	return bpf_map_get_next_key(ports->table.fd, NULL, &key) < 0 && errno == ENOENT;
}

static int tell_udp_ports(const struct mk_host_ports *ports, struct mk_error *err)
{
	struct mk_port_set set = { 0 };
	cleanup_free void *list = NULL;
	size_t count;
	bool some = false;
	int ret = mk_table_keys(&ports->table, &list, &count, err);

	for (size_t i = 0; ret == 0 && i < count; i++) {
		const struct mk_host_port_key *key = (const struct mk_host_port_key *)list + i;
		struct mk_host_port to;

		if (key->proto != IPPROTO_UDP || mk_table_get(&ports->table, key, &to, NULL) < 0)
			continue;
		mk_port_set_add(&set, ntohs(to.port));
		some = true;
	}
	if (ret < 0 || !some)
		return ret;
	return mk_udp_ports_add(ports->dir, ports->state_dir, &set, err);
}

/* Write the programs' settings from the table's contents, after every change and under the lock, so
 * that the last writer is right. Returns 1 if a setting changed. */
static int tell_programs(const struct mk_host_ports *ports, struct mk_error *err)
{
	const struct mk_runtime_change change = {
		.set_host_ports = true,
		.host_ports = !is_empty(ports),
	};
	int ret = tell_udp_ports(ports, err);

	return ret < 0 ? ret : mk_runtime_change(ports->dir, ports->state_dir, &change, err);
}

static int remember(struct mk_host_ports *ports, const struct mk_host_port_key *key,
		    const struct mk_host_port *to, struct mk_error *err)
{
	struct mk_host_port_entry *bigger =
		realloc(ports->retired, (ports->retired_count + 1) * sizeof(*bigger));

	if (!bigger)
		return mk_error_errno(err, ENOMEM, "cannot change map 'host_ports'");
	ports->retired = bigger;
	ports->retired[ports->retired_count++] =
		(struct mk_host_port_entry){ .key = *key, .to = *to };
	return 0;
}

/* Remove the remembered entries, and cut their sessions first. Nothing else cuts them: after the
 * pod's address is assigned again, a UDP client that keeps sending would reach the new pod. Entries
 * are marked before that and removed last, so that after a kill the next sweep completes the
 * work. */
static int retire(struct mk_host_ports *ports, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < ports->retired_count; i++) {
		struct mk_host_port to = ports->retired[i].to;

		to.leaving = 1;
		ret = mk_table_put(&ports->table, &ports->retired[i].key, &to, err);
	}
	if (ret == 0 && ports->retired_count)
		ret = cut_sessions(ports, err);
	for (size_t i = 0; ret >= 0 && i < ports->retired_count; i++)
		ret = mk_table_delete(&ports->table, &ports->retired[i].key, err);
	return ret < 0 ? ret : 0;
}

/* ---- claiming -------------------------------------------------------------------------------- */

/* Does another pod that is alive hold the port of @entry? 1 with *@holder, 0, or an error. An entry
 * whose pod is gone is remembered for removal. */
static int is_held(struct mk_host_ports *ports, const struct mk_host_port_entry *entry,
		   const struct mk_host_port_judge *judge, struct mk_host_port_entry *holder,
		   struct mk_error *err)
{
	int ret = mk_host_ports_get(ports, &entry->key, &holder->to, err);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	holder->key = entry->key;
	if (mk_addr_eq(&holder->to.addr, &entry->to.addr) &&
	    holder->to.ifindex == entry->to.ifindex)
		return 0;
	if (!holder->to.leaving)
		ret = judge->is_alive(judge->ctx, &holder->to, err);
	return ret != 0 ? ret : remember(ports, &holder->key, &holder->to, err);
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
		return mk_error_set(err, EEXIST, "host port %s is in use by another pod",
				    mk_host_port_format(&holder->key, text));
	ret = ret ?: retire(ports, err);
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = mk_table_put(&ports->table, &entries[i].key, &entries[i].to, err);
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

/* Remove the entries whose pod is gone according to @judge. Returns their number. */
static int remove_locked(struct mk_host_ports *ports, const struct mk_host_port_judge *judge,
			 struct mk_error *err)
{
	cleanup_free void *list = NULL;
	size_t count;
	int ret = mk_table_keys(&ports->table, &list, &count, err);

	for (size_t i = 0; ret == 0 && i < count; i++) {
		const struct mk_host_port_key *key = (const struct mk_host_port_key *)list + i;
		struct mk_host_port to;

		if (mk_table_get(&ports->table, key, &to, NULL) < 0)
			continue;
		ret = to.leaving ? 0 : judge->is_alive(judge->ctx, &to, err);
		if (ret == 0)
			ret = remember(ports, key, &to, err);
		else if (ret > 0)
			ret = 0;
	}
	ret = ret ?: retire(ports, err);
	ret = ret ?: tell_programs(ports, err);
	if (ret > 0 && !ports->retired_count) /* not because of our own change */
		mk_log_warn(
			"a setting of the programs was wrong and is repaired map=runtime host_ports=%d",
			!is_empty(ports));
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

	if (is_empty(ports)) /* on most nodes; then take no lock */
		return 0;
	ret = mk_host_ports_sweep(ports, &judge, err);
	return ret < 0 ? ret : 0;
}
