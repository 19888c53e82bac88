# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/e2e/lib/build.sh - what the cluster is made of: Kubernetes built from Debian's source, etcd,
# containerd and runc from Debian, and the images that nodes need. All of it stays in $CACHE;
# nothing is installed.

SUITE=bookworm # the last one whose source package has the servers; later ones have kubectl alone
GO=golang-1.19
KUBERNETES_VERSION=v1.20.2 # of the source, whose own name for it is a commit's
KUBERNETES=(kubectl kubelet kube-apiserver kube-controller-manager kube-scheduler)
PACKAGES=(etcd-server containerd runc)
FIREWALL_IMAGE=registry.example/nft:1 # as manifests/examples/chains.yaml names it
IDS_IMAGE=registry.example/suricata:7 # too
POD_IMAGE=docker.io/library/python:3-slim # as test/e2e/run names it
PAUSE_IMAGE=k8s.gcr.io/pause:3.2 # as Kubernetes names it
KUBERNETES_AT=k8s.io/kubernetes
REFLECT=github.com/modern-go/reflect2 # a module that the source bears a copy of
REFLECT_PACKAGE=golang-github-modern-go-reflect2-dev

# The build's own apt, with source packages
open_suite()
{
	[[ ! -s $CACHE/$SUITE/apt/opened ]] || return 0
	write_sources $SUITE deb deb-src
	echo "deb [signed-by=$KEYRING] $MIRROR/debian $SUITE-backports main" >>"$CACHE/$SUITE/apt/sources.list" # suricata
	apt_for $SUITE apt-get -qq update
	date >"$CACHE/$SUITE/apt/opened"
}

# ---- Kubernetes

fetch_kubernetes()
{
	local package
	mkdir -p "$CACHE"/build/{packages,path/src/$KUBERNETES_AT}
	cd "$CACHE/build/packages" || return
	apt_for $SUITE apt-get -qq source --download-only kubernetes
	apt_for $SUITE apt-get -qq download $GO-go $GO-src
	for package in "$GO"-*.deb; do
		dpkg-deb -x "$package" ../go
	done
	tar -xf kubernetes_*.orig.tar.* -C "../path/src/$KUBERNETES_AT" --strip-components=1
	renew_reflect
	touch ../fetched
}

# The copy of the source is older than Go 1.18: with it, kube-apiserver ends at the first object of
# a CustomResourceDefinition. Debian's package has the repaired version.
renew_reflect()
{
	local copy=../path/src/$KUBERNETES_AT/vendor/$REFLECT
	apt_for $SUITE apt-get -qq download $REFLECT_PACKAGE
	dpkg-deb -x "$REFLECT_PACKAGE"_*.deb ../reflect
	rm -rf "$copy"
	cp -r "../reflect/usr/share/gocode/src/$REFLECT" "$copy"
}

# In the source, with its own Go and nothing of the machine's
run_go()
{
	local goroot=$CACHE/build/go/usr/lib/${GO/lang/}
	cd "$CACHE/build/path/src/$KUBERNETES_AT" || return
	GO111MODULE=off GOROOT=$goroot GOPATH=$CACHE/build/path GOCACHE=$CACHE/build/cache CGO_ENABLED=0 \
		PATH=$goroot/bin:$PATH nice -n 10 "$@"
}

go_build()
{
	local output=$1 package=$2 flags
	flags="-s -w -X $KUBERNETES_AT/vendor/k8s.io/component-base/version.gitVersion=$KUBERNETES_VERSION"
	flags+=" -X $KUBERNETES_AT/vendor/k8s.io/client-go/pkg/version.gitVersion=$KUBERNETES_VERSION"
	run_go go "${@:3}" -o "$output" -ldflags "$flags" "$KUBERNETES_AT/$package"
}

# The one file that upstream's build makes and the source does not have: the API server's
# description of its types
generate_openapi()
{
	local source=$CACHE/build/path/src/$KUBERNETES_AT folders
	[[ ! -s $source/pkg/generated/openapi/zz_generated.openapi.go ]] || return 0
	go_build "$CACHE/build/openapi-gen" vendor/k8s.io/kube-openapi/cmd/openapi-gen build
	cd "$source" || return
	folders=$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg cmd staging/src/k8s.io |
		grep -v 'code-generator/\|sample-apiserver/' | xargs -n 1 dirname | sort -u |
		sed "s|^staging/src/|vendor/|; s|^|$KUBERNETES_AT/|" | paste -sd,)
	run_go "$CACHE/build/openapi-gen" --logtostderr --go-header-file hack/boilerplate/boilerplate.generatego.txt \
		-i "$folders" -p $KUBERNETES_AT/pkg/generated/openapi -O zz_generated.openapi -r "$CACHE/build/violations"
}

# ... and one that its conformance tests have
generate_test_data()
{
	go_build "$CACHE/build/go-bindata" vendor/github.com/go-bindata/go-bindata/go-bindata build
	run_go "$CACHE/build/go-bindata" -nometadata -o test/e2e/generated/bindata.go -pkg generated \
		-ignore .jpg -ignore .png -ignore .md -ignore 'BUILD(\.bazel)?' test/conformance/testdata/... \
		test/e2e/testing-manifests/... test/e2e_node/testing-manifests/... test/images/... test/fixtures/...
}

build_command()
{
	local name=$1 output=$2
	case $name in
	e2e.test)
		generate_test_data
		# its tests of network policies forget the brackets around an IPv6 address
		sed -i 's|agnhost connect %s:%d|agnhost connect [%s]:%d|' "$CACHE/build/path/src/$KUBERNETES_AT/test/e2e/network/network_policy.go"
		go_build "$output" test/e2e test -c -vet=off
		;;
	agnhost)
		cp "$CACHE/build/path/src/$KUBERNETES_AT"/test/images/agnhost/porter/localhost.{crt,key} "$CACHE/bin/"
		go_build "$output" test/images/agnhost build
		;;
	*)
		generate_openapi
		go_build "$output" "cmd/$name" build
		;;
	esac
}

# build_kubernetes NAME...: the programs that $CACHE/bin lacks
build_kubernetes()
{
	local name missing=''
	for name; do
		[[ -x $CACHE/bin/$name ]] || missing+=" $name"
	done
	[[ $missing ]] || return 0
	say "building$missing of Kubernetes $KUBERNETES_VERSION: minutes, and 3 GB in $CACHE"
	[[ -e $CACHE/build/fetched ]] || (fetch_kubernetes)
	for name in $missing; do
		(build_command "$name" "$CACHE/bin/.$name")
		mv "$CACHE/bin/.$name" "$CACHE/bin/$name"
	done
	cp "$CACHE/build/path/src/$KUBERNETES_AT/build/pause/linux/pause.c" "$CACHE/pause.c"
	rm -rf "$CACHE/build"
}

# ---- Debian's packages, unchanged

fetch_packages()
{
	local package dir=$CACHE/packages
	[[ ! -x $CACHE/bin/etcd || ! -x $CACHE/bin/containerd || ! -x $CACHE/bin/runc ]] || return 0
	mkdir -p "$dir"
	(cd "$dir" && apt_for $SUITE apt-get -qq download "${PACKAGES[@]}")
	for package in "$dir"/*.deb; do
		dpkg-deb -x "$package" "$dir/tree"
	done
	cp "$dir"/tree/usr/bin/{etcd,containerd,containerd-shim-runc-v2,ctr} "$dir"/tree/usr/sbin/runc "$CACHE/bin/"
	for package in "$dir"/*.deb; do
		dpkg-deb --show --showformat='${Package} ${Version}\n' "$package"
	done >"$CACHE/versions"
	rm -rf "$dir"
}

# ---- images, since there is no registry

build_pause()
{
	local files=$CACHE/images/pause
	[[ ! -s $CACHE/pause.tar ]] || return 0
	mkdir -p "$files"
	gcc -O2 -static -o "$files/pause" "$CACHE/pause.c"
	"$HERE/lib/image" --name $PAUSE_IMAGE --archive "$CACHE/pause.tar" "$files" /pause
}

# unpack_into DIR PACKAGE...: packages of Debian's, and all that they need
unpack_into()
{
	local files=$1 package
	shift
	rm -f "$CACHE/$SUITE"/apt/cache/archives/*.deb
	apt_for $SUITE apt-get -qq --download-only --no-install-recommends --yes install "$@" >/dev/null
	mkdir -p "$files"/{proc,sys,dev,tmp,etc}
	for package in "$CACHE/$SUITE"/apt/cache/archives/*.deb; do
		dpkg-deb -x "$package" "$files"
	done
	rm -rf "$files"/usr/share/{doc,man,locale}
}

build_python()
{
	local files=$CACHE/images/python
	[[ ! -s $CACHE/python.tar ]] || return 0
	unpack_into "$files" python3
	"$HERE/lib/image" --name $POD_IMAGE --archive "$CACHE/python.tar" "$files" /usr/bin/python3
}

# The images of manifests/examples/chains.yaml
build_functions()
{
	local files=$CACHE/images
	[[ -s $CACHE/nft.tar ]] || {
		unpack_into "$files/nft" nftables dash coreutils
		ln -sf dash "$files/nft/bin/sh"
		"$HERE/lib/image" --name $FIREWALL_IMAGE --archive "$CACHE/nft.tar" "$files/nft" /bin/sh
	}
	[[ -s $CACHE/suricata.tar ]] || {
		unpack_into "$files/suricata" -t $SUITE-backports suricata
		"$HERE/lib/image" --name $IDS_IMAGE --archive "$CACHE/suricata.tar" "$files/suricata" /usr/bin/suricata
	}
}

build_all()
{
	mkdir -p "$CACHE/bin"
	[[ -s $ROOT/build/monokube-image.tar ]] ||
		die "build/monokube-image.tar is missing; write it with: make image"
	open_suite
	build_kubernetes "${KUBERNETES[@]}" ${conformance:+e2e.test agnhost}
	fetch_packages
	build_pause
	build_python
	build_functions
	rm -rf "$CACHE/images"
}

versions()
{
	"$CACHE/bin/kubelet" --version
	cat "$CACHE/versions"
	echo "Linux $(uname -r)"
}
