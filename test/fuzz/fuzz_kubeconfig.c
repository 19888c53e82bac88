// SPDX-License-Identifier: Apache-2.0
/* test/fuzz/fuzz_kubeconfig.c - a kubeconfig file, which an operator may have written by hand. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cluster/api/credentials.h"
#include "cluster/api/api_internal.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mk_credentials credentials = { 0 };
	struct mk_error err = { 0 };
	char path[64];
	int fd = memfd_create("kubeconfig", MFD_CLOEXEC);

	fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (kubeconfig_load(path, NULL, &credentials, &err) < 0)
		fuzz_check(err.text[0] != '\0');
	mk_credentials_release(&credentials);
	close(fd);
	return 0;
}
