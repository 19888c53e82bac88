# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/kernels/kernel.sh - Debian's cloud kernels, fetched by apt with sources, lists and a cache of
# its own. They stay in build/kernels, $CACHE. Needs $ROOT, and root.sh.

CACHE=$ROOT/build/kernels
# shellcheck source=src/deps/apt.sh
. "$ROOT/src/deps/apt.sh"

depends_of() { apt_for "$1" apt-cache depends "$2" | sed -nE "s/.*Depends: ($3)\$/\1/p"; }

# Print the packages of the kernel and its modules: the image of the suite's cloud kernel and, since
# 7.0, packages that the image depends on.
kernel_packages()
{
	local image
	image=$(depends_of "$1" linux-image-cloud-amd64 'linux-image-[0-9].*' | head -n 1)
	[[ -n $image ]] || { echo "# no cloud kernel in $1" >&2; return 1; }
	echo "$image"
	depends_of "$1" "$image" 'linux-(binary|modules)-[0-9].*'
}

fetch_kernel()
{
	local suite=$1 dir=$CACHE/$1 tree=$CACHE/$1/tree packages package
	[[ ! -s $dir/vmlinuz || $(cat "$dir/modules.list" 2>/dev/null) != "${KERNEL_MODULES[*]}" ]] || return 0
	rm -rf "$dir"
	write_sources "$suite"
	apt_for "$suite" apt-get -qq update || return 1
	packages=$(kernel_packages "$suite") || return 1
	# shellcheck disable=SC2086 # a list
	(cd "$dir" && apt_for "$suite" apt-get -qq download $packages) || return 1
	for package in "$dir"/*.deb; do
		dpkg-deb -x "$package" "$tree" || return 1
	done
	keep_modules "$tree" "$dir/modules" || return 1
	mv "$(find "$tree" -name 'vmlinuz*' -type f | head -n 1)" "$dir/vmlinuz" || return 1
	echo "${KERNEL_MODULES[*]}" >"$dir/modules.list"
	rm -rf "$dir"/*.deb "$dir/apt" "$tree"
}
