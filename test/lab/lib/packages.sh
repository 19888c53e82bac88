# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/packages.sh - Debian's packages for a lab. Those that the machine lacks are unpacked into
# build/NAME, and not installed.
# shellcheck source=src/deps/apt.sh
. "$HERE/../../src/deps/apt.sh"
SUITE=bookworm

download() { apt_for $SUITE apt-get -qq --download-only --no-install-recommends --yes "$@" >/dev/null; }

# The machine's own packages count as there.
fetch_packages()
{
	local package
	rm -rf "$CACHE"
	write_sources $SUITE
	echo "deb [signed-by=$KEYRING] $MIRROR/debian $SUITE-backports main" >>"$CACHE/$SUITE/apt/sources.list"
	cp /var/lib/dpkg/status "$CACHE/$SUITE/apt/status"
	apt_for $SUITE apt-get -qq update
	# shellcheck disable=SC2086 # lists of words
	download -t $SUITE-backports install $1
	# shellcheck disable=SC2086
	download install $2
	mkdir -p "$TREE.new"
	for package in "$CACHE/$SUITE"/apt/cache/archives/*.deb; do # of two versions, the later one comes last
		dpkg-deb -x "$package" "$TREE.new"
	done
	merge_usr "$TREE.new"
	mv "$TREE.new" "$TREE"
	rm -rf "${CACHE:?}/$SUITE"
}

# Debian 12 has /lib and the like in /usr; packages may still name them.
merge_usr()
{
	local dir
	for dir in bin sbin lib lib64; do
		[[ ! -d $1/$dir ]] || { mkdir -p "$1/usr/$dir" && cp -a "$1/$dir/." "$1/usr/$dir/" && rm -r "${1:?}/$dir"; }
	done
}

# packages_in NAME: $TREE is where unpack_packages puts them
packages_in()
{
	CACHE=$(realpath -m "$HERE/../../build/$1")
	TREE=$CACHE/tree
}

# unpack_packages BACKPORTS PACKAGES: lists of packages. One lab fetches them, others wait.
unpack_packages()
{
	mkdir -p "$(dirname "$CACHE")"
	(
		flock 9
		[[ -d $TREE ]] || fetch_packages "$1" "$2"
	) 9>"$CACHE.lock"
}
