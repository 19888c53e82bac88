// SPDX-License-Identifier: Apache-2.0
#include "probes/path_mtu.h"

void path_mtu_set(struct path_mtu *path, uint16_t most_bytes, uint16_t known_bytes)
{
	if (path->most_bytes == most_bytes)
		return;
	if (path->most_bytes)
		known_bytes = path->found_bytes < path->most_bytes ? path->found_bytes : 0;
	*path = (struct path_mtu){ .most_bytes = most_bytes, .found_bytes = most_bytes };
	if (known_bytes && known_bytes < most_bytes)
		path->found_bytes = known_bytes;
}

static uint16_t middle_of(const struct path_mtu *path)
{
	uint16_t half = (uint16_t)((path->high_bytes - path->low_bytes) / 2);

	return (uint16_t)(path->low_bytes + half - half % PATH_MTU_STEP);
}

uint16_t path_mtu_next(struct path_mtu *path)
{
	path->answered = false;
	if (path->wait_rounds) {
		path->wait_rounds--;
		path->sent_bytes = 0;
	} else if (path->searches) {
		path->sent_bytes = middle_of(path);
	} else {
		path->sent_bytes = path->until_retry ? path->found_bytes : path->most_bytes;
	}
	return path->sent_bytes;
}

bool path_mtu_repeats(const struct path_mtu *path)
{
	return path->lost > 0;
}

/* Nothing is left to try for now. */
static void rest(struct path_mtu *path)
{
	path->searches = false;
	path->wait_rounds = PATH_MTU_ROUNDS - 1;
	path->until_retry = path->until_retry ? path->until_retry - 1 : PATH_MTU_RETRY;
}

/* Go on between @low_bytes and @high_bytes. */
static void narrow(struct path_mtu *path, uint16_t low_bytes, uint16_t high_bytes)
{
	path->searches = true;
	path->low_bytes = low_bytes;
	path->high_bytes = high_bytes;
	if (high_bytes >= low_bytes + 2 * PATH_MTU_STEP)
		return;
	path->found_bytes = low_bytes;
	rest(path);
}

static void take_answer(struct path_mtu *path)
{
	if (path->searches) {
		narrow(path, path->sent_bytes, path->high_bytes);
		return;
	}
	path->found_bytes = path->sent_bytes;
	rest(path);
}

static void take_loss(struct path_mtu *path)
{
	uint16_t sent_bytes = path->sent_bytes;

	if (path->searches)
		narrow(path, path->low_bytes, sent_bytes);
	else if (sent_bytes > path->found_bytes)
		narrow(path, path->found_bytes, sent_bytes);
	else if (sent_bytes > PATH_MTU_LEAST)
		narrow(path, PATH_MTU_LEAST, sent_bytes);
	else
		rest(path);
}

void path_mtu_end(struct path_mtu *path, bool answers)
{
	if (!path->sent_bytes)
		return;
	if (path->answered) {
		path->lost = 0;
		take_answer(path);
	} else if (answers && ++path->lost == PATH_MTU_LOST) {
		path->lost = 0;
		take_loss(path);
	}
}
