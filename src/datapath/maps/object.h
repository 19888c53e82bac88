/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/object.h - the BPF object that is embedded in this binary: open it, set this
 * node's constants, load it. Nothing is pinned or attached here. */
#ifndef MK_DATAPATH_MAPS_OBJECT_H
#define MK_DATAPATH_MAPS_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "monokube/abi.h"
#include "base/error.h"

struct bpf_object;
struct mk_object;

/* The programs of the hooks and of the chain. */
struct mk_program {
	const char *name;
	bool is_hook;
};
extern const struct mk_program mk_programs[];
extern const size_t mk_program_count; /* of IPv4; IPv6 has one more, the last */

/* The programs of the hooks, by slot of map `other_family` (enum mk_entry). */
extern const char *const mk_entry_programs[];

/* Return the family of a node's programs and tables. */
static inline sa_family_t mk_node_family(const struct mk_node *node)
{
	return mk_mask_is_ipv6(&node->pod_mask) ? AF_INET6 : AF_INET;
}

/* Open the object of the family of @node, with these constants. */
struct mk_object *mk_object_open(const struct mk_node *node, struct mk_error *err);
/* Before load: set the sizes of the tables of established and of new sessions, in entries. 0: the
 * default. */
struct mk_session_sizes {
	uint32_t established, half_open;
};
mk_must_check int mk_object_size_sessions(struct mk_object *object,
					  const struct mk_session_sizes *sizes,
					  struct mk_error *err);
/* As mk_object_size_sessions(), for maps `affinity` and `affinity_new`. */
mk_must_check int mk_object_size_affinity(struct mk_object *object, uint32_t entries,
					  struct mk_error *err);
/* Before load: leave out program @name, or not. If left out, its slot in the chain stays empty. */
void mk_object_leave_out(struct mk_object *object, const char *name, bool left_out);
/* Do the programs see where a pod lets a device write a checksum (bpf/partial.h)? */
bool mk_object_sees_checksums(const struct mk_object *object);
struct bpf_object *mk_object_get(const struct mk_object *object);
/* Return a hash of the embedded programs, or of the constants that they are (or will be) loaded
 * with. */
uint64_t mk_object_hash(const struct mk_object *object);
uint64_t mk_object_constants_hash(struct mk_object *object);
/* After load: return the map that holds the constants. */
int mk_object_constants_fd(const struct mk_object *object);
size_t mk_object_program_count(const struct mk_object *object);
/* Instead of load: use @fd, which the object owns from now on, as program @index of mk_programs. */
void mk_object_reuse_program(struct mk_object *object, size_t index, int fd);
/* Create the maps that have no file descriptor yet and load the programs. If the kernel refuses a
 * map, @err names the map, its size and the remedy. */
mk_must_check int mk_object_load(struct mk_object *object, struct mk_error *err);
/* Does @ret mean that load or a migration failed because of a map's size? */
bool mk_object_lacks_memory(int ret);
/* After load: return a file descriptor, which the object still owns. -ENOENT: unknown name. */
mk_must_check int mk_object_program(const struct mk_object *object, const char *name,
				    struct mk_error *err);
mk_must_check int mk_object_map(const struct mk_object *object, const char *name,
				struct mk_error *err);
/* Write the chain's programs into their slots. */
mk_must_check int mk_object_fill_chain(const struct mk_object *object, struct mk_error *err);
/* Return the number of empty slots. */
mk_must_check int mk_object_chain_missing(const struct mk_object *object, struct mk_error *err);
void mk_object_free(struct mk_object *object);

static inline void mk_cleanup_object(struct mk_object **object)
{
	mk_object_free(*object);
}
#define cleanup_object __attribute__((cleanup(mk_cleanup_object)))

/* The kernel rejects a program after its verifier has walked a million instructions. Other kernels
 * walk more, and the next change may add some, so our limit is lower. */
#define MK_VERIFIED_INSTRUCTIONS_MAX 200000

struct mk_probed {
	sa_family_t family;
	const char *program;
	int status; /* 0 or a negative errno; -E2BIG also beyond MK_VERIFIED_INSTRUCTIONS_MAX */
	unsigned int instructions; /* that the verifier walked; 0: not known */
};
typedef void mk_probe_fn(void *ctx, const struct mk_probed *probed);
/* Load every program of both families, one by one, with made-up constants to run this kernel's
 * verifier, and @report each. Returns the number of failures. */
mk_must_check int mk_object_probe(mk_probe_fn *report, void *ctx, struct mk_error *err);

#endif
