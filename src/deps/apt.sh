# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# src/deps/apt.sh - an apt of our own, with its own sources, lists and cache: nothing is installed and the machine's
# apt stays as it is. It lies in $CACHE/SUITE/apt. Wants $CACHE.

MIRROR=http://deb.debian.org
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# apt_for SUITE COMMAND...
apt_for()
{
	local suite=$1 tool=$2 dir=$CACHE/$1/apt
	shift 2
	"$tool" -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State="$dir/state" -o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" \
		-o APT::Architecture=amd64 -o APT::Sandbox::User=root -o Acquire::Languages=none \
		-o Acquire::Check-Valid-Until=false "$@"
}

# write_sources SUITE [TYPE...]: deb (binary packages, what no TYPE means), deb-src (source packages)
write_sources()
{
	local suite=$1 dir=$CACHE/$1/apt type
	mkdir -p "$dir"/{state/lists/partial,cache/archives/partial}
	touch "$dir/status"
	for type in "${@:2}" $( (($# > 1)) || echo deb); do
		echo "$type [signed-by=$KEYRING] $MIRROR/debian $suite main"
		[[ $suite == *-backports || $suite == sid ]] ||
			echo "$type [signed-by=$KEYRING] $MIRROR/debian-security $suite-security main"
	done >"$dir/sources.list"
}
