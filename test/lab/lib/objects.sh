# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/objects.sh - the cluster's objects: objects/ holds what was applied and what the
# lab computes; every node's cluster directory follows it.

sync_objects()
{
	flock "$LAB_DIR/objects" "$LAB_LIB/objects.py" "$LAB_DIR"
}

lab_apply()
{
	local file name
	for file in "$@"; do
		[[ -f $file ]] || die "'$file' is not a file"
		[[ $file == *.yaml || $file == *.yml || $file == *.json ]] ||
			die "'$file': expected a name that ends in .yaml, .yml or .json"
		name=$(basename "$file")
		write_atomically "$LAB_DIR/objects/$name" <"$file"
	done
	sync_objects
}

lab_delete()
{
	local file
	for file in "$@"; do
		[[ -f $LAB_DIR/objects/$(basename "$file") ]] ||
			die "no file '$(basename "$file")' was applied; files: $(lab_objects | tr '\n' ' ')"
	done
	for file in "$@"; do
		rm "$LAB_DIR/objects/$(basename "$file")"
	done
	sync_objects
}

lab_objects() { find "$LAB_DIR/objects" -type f ! -name 'lab-*' -printf '%f\n' | sort; }
