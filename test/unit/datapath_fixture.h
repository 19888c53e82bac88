/* SPDX-License-Identifier: Apache-2.0 */
/* The real programs and tables in their own network and mount namespace: an uplink, an overlay
 * device, the host's pair and one pod's pair. */
#ifndef MK_TEST_DATAPATH_FIXTURE_H
#define MK_TEST_DATAPATH_FIXTURE_H

#include <net/if.h>
#include <stdint.h>

#include "base/netlink/netlink.h"
#include "datapath/datapath.h"
#include "datapath/maps/hook.h"
#include "datapath/maps/pin.h"
#include "unit/unit.h"

struct datapath_fixture {
	struct mk_error err;
	struct mk_nl *nl;
	struct mk_node constants;
	struct mk_datapath_links links;
	int pod_ifindex, uplink_ifindex;
	char dir[64], bpf_dir[96], state_dir[96];
};
extern struct datapath_fixture fx;

/* Check a call that reports its failure in fx.err. */
#define fx_ok(call) ck_assert_msg((call) >= 0, "%s: %s", #call, mk_error_text(&fx.err))

void fx_setup(void);
void fx_teardown(void);
int fx_veth(const char *name, const char *peer, const struct mk_mac *mac);
/* Return the next agent's datapath; the caller frees it. */
struct mk_datapath *fx_loaded(void);
struct mk_datapath *fx_loaded_again(void);
struct mk_datapath *fx_attached(void);
uint32_t fx_program_at(int ifindex, enum mk_direction direction);
/* Return the id of the pinned object, 0: none. */
uint32_t fx_pinned_id(const char *kind, const char *name);
/* Return the number of slots of the pinned chain @name with a program. */
int fx_chain_length(const char *name);
/* Return the number of pins whose name contains @part. */
unsigned int fx_pins(const char *kind, const char *part);
/* Return the number of the object's maps that must be pinned. */
unsigned int fx_object_maps(void);
void fx_put_pod(const char *address, int ifindex);

#endif
