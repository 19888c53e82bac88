// SPDX-License-Identifier: Apache-2.0
/* test/lab/pause.c - the only process of a pod's sandbox: it waits for the end. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void end(int signal_number)
{
	(void)signal_number;
	_exit(EXIT_SUCCESS);
}

int main(void)
{
	signal(SIGTERM, end);
	signal(SIGINT, end);
	for (;;)
		pause();
}
