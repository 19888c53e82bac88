// SPDX-License-Identifier: Apache-2.0
#include "agent/core/hash_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/state_file.h"
#include "datapath/policy/names.h"

static int make(const char *path, uint8_t key[MK_SIPHASH_KEY_BYTES], struct mk_error *err)
{
	if (getrandom(key, MK_SIPHASH_KEY_BYTES, 0) != MK_SIPHASH_KEY_BYTES)
		return mk_error_errno(err, errno, "no random numbers for '%s'", path);
	return mk_file_replace(path, key, MK_SIPHASH_KEY_BYTES, 0600, err);
}

int mk_hash_key_read(const char *state_dir, uint8_t key[MK_SIPHASH_KEY_BYTES], struct mk_error *err)
{
	cleanup_free char *data = NULL;
	char path[PATH_MAX];
	size_t size = 0;
	int ret = mk_state_path(state_dir, MK_POLICY_KEY_FILE, path, err);

	if (ret < 0)
		return ret;
	ret = mk_file_read(path, MK_SIPHASH_KEY_BYTES, &data, &size, err);
	if (ret < 0 && ret != -ENOENT && ret != -EFBIG)
		return ret;
	if (ret < 0 || size != MK_SIPHASH_KEY_BYTES)
		return make(path, key, err);
	memcpy(key, data, MK_SIPHASH_KEY_BYTES);
	return 0;
}
