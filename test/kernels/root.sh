# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/kernels/root.sh - the root file system of a kernel under test: an init, the test programs,
# and the programs that they call, copied from this machine with their libraries.

# Programs of test/kernels/smoke, encrypted, nodes and uplinks
SMOKE_PROGRAMS=(bash ip bridge mount nft ping socat jq sed grep tail head cat wc mkdir mv rm stat sleep sort
	timeout)
# Each after those that it needs. A kernel may have a module built in.
KERNEL_MODULES=(llc stp bridge udp_tunnel ip6_udp_tunnel vxlan veth sch_ingress cls_bpf dummy tun
	garp mrp 8021q tls bonding macvlan vrf
	libchacha chacha-x86_64 libpoly1305 poly1305-x86_64 libchacha20poly1305 libcurve25519-generic
	curve25519-x86_64 libcurve25519 libblake2s wireguard
	nf_defrag_ipv4 nf_defrag_ipv6 crc32c_generic libcrc32c nf_conntrack nf_nat nfnetlink nf_tables nft_chain_nat nft_masq)

# install_program PROGRAM TARGET: with its libraries, below $1 of root_begin
install_program()
{
	local program=$1 target=$2 library
	install -D "$program" "$target"
	for library in $(ldd "$program" 2>/dev/null | grep -oE '/[^ ]+'); do
		[[ -e $ROOT_DIR$library ]] || install -D "$library" "$ROOT_DIR$library"
	done
}

install_smoke()
{
	local program
	for program in "${SMOKE_PROGRAMS[@]}"; do
		install_program "$(PATH=$PATH:/usr/sbin:/sbin type -P "$program")" "$ROOT_DIR/bin/$program"
	done
	ln -s bash "$ROOT_DIR/bin/sh"
	cp "$ROOT/test/kernels/smoke" "$ROOT_DIR/tests/z-smoke"
	cp "$ROOT/test/kernels/encrypted" "$ROOT_DIR/tests/y-encrypted"
	cp "$ROOT/test/kernels/nodes" "$ROOT_DIR/tests/x-nodes"
	cp "$ROOT/test/kernels/uplinks" "$ROOT_DIR/tests/w-uplinks"
}

# a test is a program without arguments
install_tests()
{
	gcc -static -O2 -x c -o "$ROOT_DIR/tests/0-probe" - <<'END'
#include <unistd.h>
int main(void) { return execl("/bin/monokube", "monokube", "probe", (char *)0); }
END
	install_program "$BPF_TESTS" "$ROOT_DIR/tests/bpf"
	gcc -static -O2 -x c -o "$ROOT_DIR/tests/bpf6" - <<'END'
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	setenv("MK_TEST_FAMILY", "6", 1);
	setenv("MK_FLOWS_MATRIX_STEP", "40", 1); /* instead of FEWER's: time */
	return execl("/tests/bpf", "bpf", (char *)0);
}
END
}

# build_root DIR: everything except the kernel's modules, as $DIR/initrd
build_root()
{
	ROOT_DIR=$1/root
	mkdir -p "$ROOT_DIR"/{tests,bin,modules,etc}
	gcc -static -O2 -o "$ROOT_DIR/init" "$ROOT/test/kernels/init.c"
	install_program "$MK_BIN" "$ROOT_DIR/bin/monokube"
	install_tests
	install_smoke
	(cd "$ROOT_DIR" && find . | cpio --quiet -o -H newc) >"$1/initrd"
}

# keep_modules TREE DIR: copy KERNEL_MODULES from below TREE to DIR, numbered in their order
keep_modules()
{
	local number=10 name file
	mkdir -p "$2"
	for name in "${KERNEL_MODULES[@]}"; do
		number=$((number + 1))
		file=$(find "$1" -name "$name.ko" -o -name "$name.ko.xz" | head -n 1)
		case $file in
		*.xz) xz -dc "$file" >"$2/$number-$name" ;;
		*.ko) cp "$file" "$2/$number-$name" ;;
		esac
	done
}

# build_modules DIR FILE: as a cpio archive, which the kernel unpacks after the root's
build_modules()
{
	local top
	top=$(mktemp -d "$TMP/modules.XXXXXX")
	cp -r "$1" "$top/modules"
	(cd "$top" && find modules | cpio --quiet -o -H newc) >"$2"
}
