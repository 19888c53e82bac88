# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/software.sh - runs programs of the packages in $TREE (packages.sh) on nodes and on world.

# software_up NODE
software_up()
{
	on "$1" unshare --mount --propagation private "$HERE/lib/with-packages" "$TREE" "$TMP/software-$1" >"$TMP/software-$1.log" 2>&1 &
	wait_for 10 test -s "$TMP/software-$1/pid"
}
# software_on NODE COMMAND...: as root, where the packages are; software: on node1
software_on() { nsenter --target "$(<"$TMP/software-$1/pid")" --net --mount -- "${@:2}"; }
software() { software_on node1 "$@"; }
# daemon NAME[@NODE] COMMAND...: until `end NAME[@NODE]`; its output is $TMP/NAME@NODE.log
daemon()
{
	local name=$1 node=node1
	[[ $name != *@* ]] || node=${name#*@}
	: >"$TMP/$name.log"
	software_on "$node" sh -c 'echo $$ >"$0" && exec "$@"' "$TMP/$name.pid" "${@:2}" >"$TMP/$name.log" 2>&1 </dev/null &
	wait_for 10 test -s "$TMP/$name.pid"
}
end()
{
	kill "$(<"$TMP/$1.pid")"
	wait_for 20 has_ended "$(<"$TMP/$1.pid")"
	rm "$TMP/$1.pid"
}
has_ended() { [[ ! -d /proc/$1 ]]; }
