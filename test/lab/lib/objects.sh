# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/objects.sh - the cluster's objects: objects/ has the applied and the computed
# objects; every node's cluster directory follows it. With an API server the objects are there, and
# objects/ has the applied files.

sync_objects()
{
	if ! has_api; then
		flock "$LAB_DIR/objects" "$LAB_LIB/objects.py" "$LAB_DIR"
	elif ! api_is_gone; then
		in_netns api flock "$LAB_DIR/objects" "$LAB_LIB/api.py" "$LAB_DIR" sync
	fi
}

lab_apply()
{
	local file name
	for file in "$@"; do
		[[ -f $file ]] || die "'$file' is not a file"
		[[ $file == *.yaml || $file == *.yml || $file == *.json ]] ||
			die "'$file': expected a name that ends in .yaml, .yml or .json"
	done
	! has_api || api_change apply "$@"
	for file in "$@"; do
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
	! has_api || delete_objects "$@"
	for file in "$@"; do
		rm "$LAB_DIR/objects/$(basename "$file")"
	done
	sync_objects
}

# Delete from the API server what the files contained when they were applied, whatever they contain
# now.
delete_objects()
{
	local file applied=()
	for file in "$@"; do
		applied+=("$LAB_DIR/objects/$(basename "$file")")
	done
	api_change delete "${applied[@]}"
}

lab_objects() { find "$LAB_DIR/objects" -type f ! -name 'lab-*' -printf '%f\n' | sort; }
