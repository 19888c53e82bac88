#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_progress.sh - long runs: their output is in a file meanwhile, and a quick run judges no
# goal.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
ROOT=$HERE/../..
FILE=$ROOT/build/progress/t-progress-$$.log

# A line is in the file while the program still runs.
written_meanwhile()
{
	mkfifo "$TMP/go"
	"$ROOT/test/progress" "t-progress-$$" sh -c 'echo first; cat "$0"; echo aside >>"$PROGRESS_FILE"; exit 7' "$TMP/go" >"$TMP/out" &
	wait_for 5 grep -E '^[0-9]{2}:[0-9]{2}:[0-9]{2} first$' "$FILE"
	expect_failure grep ended "$FILE"
	: >"$TMP/go"
	expect_status 7 wait $!
	expect_eq "printed" first "$(<"$TMP/out")"
	grep -x aside "$FILE"
	grep -E ' ended with 7$' "$FILE"
	rm "$FILE"
}

# judged ARGUMENTS GOALS FAILURES: the status with which perf/compare ends
judged()
{
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$ROOT/perf python3 - "$ROOT/perf/compare" "$@" <<-'END'
		import ast, importlib.machinery, importlib.util, sys
		loader = importlib.machinery.SourceFileLoader("compare", sys.argv[1])
		compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
		loader.exec_module(compare)
		print(compare.status_of(*map(ast.literal_eval, sys.argv[2:])))
	END
}

quick_judges_nothing()
{
	expect_eq "all met" 0 "$(judged False '[{"met": True}]' '[]')"
	expect_eq "one missed" 1 "$(judged False '[{"met": True}, {"met": False}]' '[]')"
	expect_eq "one missed, quick" 0 "$(judged True '[{"met": False}]' '[]')"
	expect_eq "something failed, quick" 1 "$(judged True '[]' '["no answer"]')"
}

check "a line is in the file while the program runs; its status is kept" written_meanwhile
check "a quick run of perf/compare judges no goal, but tells what failed" quick_judges_nothing
finish
