/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/curl.h - libcurl, loaded when the API server is first asked. Linked at build time it would
 * bring some thirty shared libraries into every run of the binary; the command line has no use for
 * HTTP. fork, exec and exit of a program that is linked like it: 0.47 ms static-pie, 0.60 ms with libc
 * alone as shared library, 1.06 ms with all of ours, 5.2 ms with libcurl. A static program cannot
 * dlopen(), so the CNI plugin, which the kubelet runs for each pod and on hosts with other libraries,
 * is linked a second time, statically, with static/no_curl.c in this one's place. */
#ifndef MK_KUBE_CURL_H
#define MK_KUBE_CURL_H

#include <curl/curl.h>

#include "base/error.h"

/* One member per function, of the function's own type: a header that differs does not compile. */
#define MK_CURL_FUNCTIONS(f)                                                                       \
	f(curl_global_init) f(curl_version_info) f(curl_easy_init) f(curl_easy_setopt)             \
		f(curl_easy_getinfo) f(curl_easy_strerror) f(curl_easy_cleanup) f(curl_easy_pause) \
			f(curl_slist_append) f(curl_slist_free_all) f(curl_multi_init)             \
				f(curl_multi_setopt) f(curl_multi_strerror) f(curl_multi_assign)   \
					f(curl_multi_add_handle) f(curl_multi_remove_handle)       \
						f(curl_multi_socket_action)                        \
							f(curl_multi_info_read)                    \
								f(curl_multi_cleanup)

#undef curl_easy_setopt /* type checks by macro, which would not see through the table */
#undef curl_easy_getinfo
#undef curl_multi_setopt

struct mk_curl {
#define MK_CURL_MEMBER(function) __typeof__(&function) function;
	MK_CURL_FUNCTIONS(MK_CURL_MEMBER)
#undef MK_CURL_MEMBER
};

/* The same table each time; it is never unloaded. NULL: not installed, too old, or without what is
 * needed, as @err says. */
const struct mk_curl *mk_curl_load(struct mk_error *err);

#endif
