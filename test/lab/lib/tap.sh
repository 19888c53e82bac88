# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/tap.sh - the tests t_*.sh speak TAP.
# shellcheck source=test/lab/lib/client.sh
. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/client.sh"
# shellcheck source=test/lab/lib/web.sh
. "$HERE/lib/web.sh"
tests_run=0
tests_failed=0

# check NAME FUNCTION ARGS...: one test. The function runs in a subshell under `set -e` and
# says with expect_* what is wrong; its output, and the commands that failed, are shown only if it
# fails.
check()
{
	local name=$1 status
	shift
	tests_run=$((tests_run + 1))
	if [[ ${SKIP:-} ]]; then # ipv4_only
		echo "ok $tests_run - $name # SKIP $SKIP"
		return
	fi
	: >"$TMP/failed"
	set +e
	(
		set -eE
		IN_CHECK=yes
		trap 'echo "${BASH_SOURCE[0]##*/}: line $LINENO: $BASH_COMMAND" >>"$TMP/failed"' ERR
		"$@"
	) >"$TMP/output" 2>&1
	status=$?
	set -e
	if ((status == 0)); then
		echo "ok $tests_run - $name"
		return
	fi
	tests_failed=$((tests_failed + 1))
	echo "not ok $tests_run - $name"
	sed 's/^/# /' "$TMP/output" "$TMP/failed"
	[[ $(type -t explain) != function ]] || explain 2>&1 | sed 's/^/#   /'
}

# ipv4_only REASON COMMAND...: the tests that COMMAND checks, which IPv6 cannot have because of REASON
ipv4_only()
{
	local SKIP=''
	[[ $FAMILY == 4 ]] || SKIP=$1
	shift
	"$@"
}

# The last line of a test file.
finish()
{
	echo "1..$tests_run"
	((tests_failed == 0))
}
