/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/object.h - the BPF object that this binary carries: opened, made this node's own,
 * loaded. Nothing here is pinned or attached. */
#ifndef MK_DATAPATH_MAPS_OBJECT_H
#define MK_DATAPATH_MAPS_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"

struct bpf_object;
struct mk_object;

/* Programs that hooks and the chain run. */
struct mk_program {
	const char *name;
	bool is_hook;
};
extern const struct mk_program mk_programs[];
extern const size_t mk_program_count;

/* Open with the constants @node. */
struct mk_object *mk_object_open(const struct mk_node *node, struct mk_error *err);
/* Before load: entries of the tables of established sessions, and of those of new ones. 0: as built. */
struct mk_session_sizes {
	uint32_t established, half_open;
};
mk_must_check int mk_object_size_sessions(struct mk_object *object,
					  const struct mk_session_sizes *sizes,
					  struct mk_error *err);
/* As mk_object_size_sessions(), of maps affinity and affinity_new. */
mk_must_check int mk_object_size_affinity(struct mk_object *object, uint32_t entries,
					  struct mk_error *err);
/* Before load: do, or do not, load the program @name. Its slot of the chain stays empty. */
void mk_object_leave_out(struct mk_object *object, const char *name, bool left_out);
struct bpf_object *mk_object_get(const struct mk_object *object);
/* Of the programs that this binary carries; of the constants that they have, or get by load. */
uint64_t mk_object_hash(void);
uint64_t mk_object_constants_hash(struct mk_object *object);
/* The map that holds the constants. After load. */
int mk_object_constants_fd(const struct mk_object *object);
/* In place of load: @fd, which the object owns from now on, is program @index of mk_programs. */
void mk_object_reuse_program(struct mk_object *object, size_t index, int fd);
/* Create the maps that were not given one, and pass the verifier. A map that the kernel refuses is
 * named, with its size and what to do. */
mk_must_check int mk_object_load(struct mk_object *object, struct mk_error *err);
/* Was it a map's size that made load or a table's move fail with @ret? */
bool mk_object_lacks_memory(int ret);
/* File descriptors stay the object's; -ENOENT for an unknown name. After load. */
mk_must_check int mk_object_program(const struct mk_object *object, const char *name,
				    struct mk_error *err);
mk_must_check int mk_object_map(const struct mk_object *object, const char *name,
				struct mk_error *err);
/* Put the chain's programs into their slots. */
mk_must_check int mk_object_fill_chain(const struct mk_object *object, struct mk_error *err);
/* How many of the slots are empty. */
mk_must_check int mk_object_chain_missing(const struct mk_object *object, struct mk_error *err);
void mk_object_free(struct mk_object *object);

static inline void mk_cleanup_object(struct mk_object **object)
{
	mk_object_free(*object);
}
#define cleanup_object __attribute__((cleanup(mk_cleanup_object)))

/* The kernel gives up on a program after a million instructions that its verifier walks. Other kernels walk more, and
 * the next change may add some: no program of ours may come nearer than this. */
#define MK_VERIFIED_INSTRUCTIONS_MAX 300000

struct mk_probed {
	const char *program;
	int status; /* 0 or a negative errno; -E2BIG also beyond MK_VERIFIED_INSTRUCTIONS_MAX */
	unsigned int instructions; /* that the verifier walked; 0: not told */
};
/* Pass every program, one by one, through this kernel's verifier with made-up constants, and @report each. Returns
 * the number that failed. */
mk_must_check int mk_object_probe(void (*report)(void *ctx, const struct mk_probed *probed),
				  void *ctx, struct mk_error *err);

#endif
