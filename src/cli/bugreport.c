// SPDX-License-Identifier: Apache-2.0
/* `monokube bugreport`: one tar (ustar) with what this program and iproute2 say of the node, and
 * monokube's own files. No environment, no kubeconfig, no token, no packet's content. */
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/cli_internal.h"
#include "clusters/clusters.h"
#include "datapath/policy/names.h"
#include "datapath/services/names.h"
#include "host/agent_state.h"
#include "host/record.h"
#include "sfc/sfc.h"

#define OUTPUT_BYTES_MAX (16 * 1024 * 1024)
#define LOG_BYTES_MAX	 (1024 * 1024)
#define SELF		 "/proc/self/exe"
#define TAR_BLOCK	 512

struct report {
	const struct mk_cli_options *options;
	FILE *tar;
	time_t now;
};

/* ---- tar ------------------------------------------------------------------------------------- */

struct tar_header { /* POSIX.1-1988, ustar */
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
	char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8];
	char prefix[155], pad[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "one block");

static void put_octal(char *field, size_t size, unsigned long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%0*lo", (int)size - 1, value);
	memcpy(field, text, size);
}

static void add_member(struct report *report, const char *name, const char *data, size_t size)
{
	static const char zeros[TAR_BLOCK];
	struct tar_header header = { .type = '0', .magic = "ustar", .version = { '0', '0' } };
	unsigned int sum = 0;

	snprintf(header.name, sizeof(header.name), "monokube-bugreport/%s", name);
	put_octal(header.mode, sizeof(header.mode), 0600);
	put_octal(header.uid, sizeof(header.uid), 0);
	put_octal(header.gid, sizeof(header.gid), 0);
	put_octal(header.size, sizeof(header.size), size);
	put_octal(header.mtime, sizeof(header.mtime), (unsigned long)report->now);
	memset(header.checksum, ' ', sizeof(header.checksum));
	for (size_t i = 0; i < sizeof(header); i++)
		sum += ((const unsigned char *)&header)[i];
	put_octal(header.checksum, sizeof(header.checksum) - 1, sum);
	fwrite(&header, sizeof(header), 1, report->tar);
	fwrite(data, 1, size, report->tar);
	if (size % TAR_BLOCK)
		fwrite(zeros, 1, TAR_BLOCK - size % TAR_BLOCK, report->tar);
}

/* ---- members --------------------------------------------------------------------------------- */

struct output {
	FILE *out, *errors;
};

/* Add what @file holds, from its beginning, as a member of the tar. An empty file is added only
 * with @always. */
static void add_stream(struct report *report, const char *name, FILE *file, bool always)
{
	cleanup_free char *text = NULL;
	size_t size = 0;
	long end;

	if (!file || fseek(file, 0, SEEK_END) < 0)
		return;
	end = ftell(file);
	rewind(file);
	size = end < 0 ? 0 : end > OUTPUT_BYTES_MAX ? OUTPUT_BYTES_MAX : (size_t)end;
	text = malloc(size + 1);
	if (!text || (size == 0 && !always))
		return;
	size = fread(text, 1, size, file);
	add_member(report, name, text, size);
}

static void run(const char *const *argv, const struct output *to)
{
	pid_t child = fork();

	if (child == 0) {
		dup2(fileno(to->out), STDOUT_FILENO);
		dup2(fileno(to->errors), STDERR_FILENO);
		execvp(argv[0], (char **)(uintptr_t)argv);
		fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
}

/* Add what @argv prints. Its errors go into a member of their own, so that JSON stays JSON. */
static void add_output(struct report *report, const char *name, const char *const *argv)
{
	cleanup_fclose FILE *out = tmpfile(), *errors = tmpfile();
	const struct output to = { out, errors };
	char errors_name[80];

	if (!out || !errors)
		return;
	run(argv, &to);
	snprintf(errors_name, sizeof(errors_name), "%s.stderr", name);
	add_stream(report, name, out, true);
	add_stream(report, errors_name, errors, false);
}

static void add_commands(struct report *report)
{
	static const char *const commands[] = { "status", "check",    "pods", "nodes",
						"drops",  "services", "nat",  "sessions",
						"policy", "chains",   "peers" };
	static const struct {
		const char *name;
		const char *argv[8];
	} others[] = {
		{ "ip-link", { "ip", "-d", "-s", "link" } },
		{ "ip-addr", { "ip", "addr" } },
		{ "ip-route", { "ip", "route", "show", "table", "all" } },
		{ "ip-rule", { "ip", "rule" } },
		{ "ip-route-ipv6", { "ip", "-6", "route", "show", "table", "all" } },
		{ "ip-rule-ipv6", { "ip", "-6", "rule" } },
		{ "ip-neigh", { "ip", "neigh" } },
		{ "bridge-fdb", { "bridge", "fdb" } },
		{ "tc-qdisc", { "tc", "qdisc", "show" } },
		{ "version", { SELF, "version" } },
		{ "probe", { SELF, "probe" } },
	};

	for (size_t i = 0; i < MK_ARRAY_SIZE(commands); i++) {
		const char *const argv[] = { SELF,   commands[i],   "-o",
					     "json", "--state-dir", report->options->state_dir,
					     NULL };
		char name[64];

		snprintf(name, sizeof(name), "%s.json", commands[i]);
		add_output(report, name, argv);
	}
	for (size_t i = 0; i < MK_ARRAY_SIZE(others); i++)
		add_output(report, others[i].name, others[i].argv);
}

static void add_file(struct report *report, const char *name, const char *path)
{
	cleanup_free char *text = NULL;
	size_t size;

	if (mk_file_read(path, OUTPUT_BYTES_MAX, &text, &size, NULL) == 0)
		add_member(report, name, text, size);
}

static void add_answer(struct report *report, const struct mk_record *record, const char *path,
		       const char *name)
{
	cleanup_free char *body = NULL;
	struct mk_error err = { 0 };
	struct mk_ip_port at;
	size_t size;

	if (mk_ip_port_parse(record->metrics, &at) < 0)
		return; /* off, or no agent ever ran */
	if (cli_ask(&at, path, &body, &size, &err) < 0)
		add_member(report, name, mk_error_text(&err), strlen(mk_error_text(&err)));
	else
		add_member(report, name, body, size);
}

/* Add the end of the agent's log, if the kubelet keeps it on this host. */
static void add_log(struct report *report)
{
	glob_t found = { 0 };

	if (glob("/var/log/pods/kube-system_monokube-*/agent/*.log", 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++) {
			cleanup_fclose FILE *file = fopen(found.gl_pathv[i], "re");
			cleanup_free char *text = malloc(LOG_BYTES_MAX);
			char name[64];

			if (!file || !text)
				continue;
			if (fseek(file, -(long)LOG_BYTES_MAX, SEEK_END) < 0)
				rewind(file);
			snprintf(name, sizeof(name), "agent-%zu.log", i);
			add_member(report, name, text, fread(text, 1, LOG_BYTES_MAX, file));
		}
	globfree(&found);
}

static void add_files(struct report *report, const struct mk_record *record)
{
	static const char *const names[] = { MK_RECORD_NAME,	   MK_SETTINGS_NAME,
					     MK_AGENT_STATE,	   MK_SYSCTLS_FILE,
					     MK_NAMES_FILE,	   MK_NAMES_FILE_IPV6,
					     MK_POLICY_NAMES_FILE, MK_CHAIN_NAMES_FILE,
					     MK_CLUSTER_NAMES_FILE };
	char path[PATH_MAX + 32];
	struct utsname kernel;
	char text[256];

	for (size_t i = 0; i < MK_ARRAY_SIZE(names); i++) {
		if (snprintf(path, sizeof(path), "%s/%s", report->options->state_dir, names[i]) >=
		    (int)sizeof(path))
			continue;
		add_file(report, names[i], path);
	}
	add_file(report, "cni.conflist", record->cni_conf_path);
	add_answer(report, record, "/metrics", "metrics");
	add_answer(report, record, "/metrics/services", "metrics-services");
	add_answer(report, record, "/metrics/policies", "metrics-policies");
	add_answer(report, record, "/metrics/chains", "metrics-chains");
	add_log(report);
	add_file(report, "ip_local_reserved_ports", "/proc/sys/net/ipv4/ip_local_reserved_ports");
	if (uname(&kernel) == 0) {
		snprintf(text, sizeof(text), "%s %s %s\n", kernel.release, kernel.version,
			 kernel.machine);
		add_member(report, "kernel", text, strlen(text));
	}
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Create a new file, readable only by its owner. An existing file or link is refused. */
static int open_tar(struct report *report, const char *given, char *path, struct mk_error *err)
{
	int fd;

	if (given)
		snprintf(path, PATH_MAX, "%s", given);
	else
		snprintf(path, PATH_MAX, "/tmp/monokube-bugreport-%lld.tar",
			 (long long)report->now);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return mk_error_errno(err, errno,
				      "cannot create '%s' (--file FILE chooses another)", path);
	report->tar = fdopen(fd, "w");
	if (report->tar)
		return 0;
	close(fd);
	return mk_error_errno(err, ENOMEM, "cannot write '%s'", path);
}

static int write_tar(struct report *report, const char *path, struct mk_error *err)
{
	static const char end[2 * TAR_BLOCK];
	struct mk_record record;
	int ret = mk_record_read(report->options->state_dir, &record, err);
	bool failed;

	if (ret == 0) {
		add_commands(report);
		add_files(report, &record);
		fwrite(end, sizeof(end), 1, report->tar);
	}
	failed = ferror(report->tar) != 0;
	failed |= fclose(report->tar) != 0;
	if (ret == 0 && failed)
		ret = mk_error_errno(err, errno ? errno : EIO, "cannot write '%s'", path);
	return ret;
}

int cli_bugreport(int argc, char **argv)
{
	struct mk_cli_options options;
	struct report report = { .options = &options, .now = time(NULL) };
	struct mk_error err = { 0 };
	char path[PATH_MAX];
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret > 0)
		return 0;
	ret = ret ?: open_tar(&report, options.file, path, &err);
	ret = ret ?: write_tar(&report, path, &err);
	if (ret < 0)
		return mk_cli_fail(argv[0], &err);
	printf("%s\nIf it has no agent-0.log, add the agent's log: kubectl -n kube-system logs ds/monokube\n",
	       path);
	return 0;
}
