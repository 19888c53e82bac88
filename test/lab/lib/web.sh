# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/web.sh - objects of a lab, and the Service web that many labs have, with its pods.

# apply FILE: objects from standard input, as $TMP/FILE.yaml, in the lab's family
apply()
{
	local objects
	objects=$(cat)
	[[ $FAMILY == 4 ]] || objects=$(in_family "${objects//addressType: IPv4/addressType: IPv6}" | sed 's/: \(::[0-9a-f]*\)/: "\1"/g')
	echo "$objects" >"$TMP/$1.yaml"
	lab apply "$TMP/$1.yaml"
}

# service_yaml NAME APP ADDRESS PORTS [MORE]: a Service of the pods with label app=APP. PORTS (a
# list) and MORE (of its spec) are YAML. nodePort and loadBalancerSourceRanges give its type.
service_yaml()
{
	local type=ClusterIP
	[[ $4 != *nodePort:* ]] || type=NodePort
	[[ ${5:-} != *loadBalancer* ]] || type=LoadBalancer
	cat <<-END
		---
		apiVersion: v1
		kind: Service
		metadata: {name: $1}
		spec: {type: $type, clusterIP: $3, selector: {app: $2}, ports: [${4//[$'\t\n']/ }]${5:+, $5}}
	END
}

# serve_http POD FOLDER: an HTTP server at port 8000
serve_http()
{
	on "$1" python3 -m http.server --bind "$(by_family 0.0.0.0 ::)" --directory "$2" 8000 >/dev/null 2>&1 </dev/null &
	wait_for 10 on "$1" curl -sfg "$(url "$LOCALHOST" 8000)/" -o /dev/null
}

# Pods client and web-1 on node1, and web-2 on node2, with the addresses ADDR_1 and ADDR_2. web-1, web-2 and
# world serve TCP and UDP at port 8080. WEB_1_OPTIONS are of `lab pod`.
WEB_1_OPTIONS=()
web_pods_up()
{
	local name
	lab pod node1 client >/dev/null
	# shellcheck disable=SC2034 # read by the tests
	ADDR_1=$(lab pod node1 web-1 "${WEB_1_OPTIONS[@]}")
	# shellcheck disable=SC2034 # read by the tests
	ADDR_2=$(lab pod node2 web-2)
	for name in web-1 web-2 world; do
		serve "$name" "$name" --tcp 8080 --udp 8080
	done
}

# web_service_up: at port 8080 of $VIP and node port 30080, TCP and UDP
web_service_up()
{
	service_yaml web web "$VIP" "{name: tcp, port: 8080, targetPort: 8080, nodePort: 30080},
		{name: udp, port: 8080, targetPort: 8080, nodePort: 30080, protocol: UDP}" | apply services
	wait_for 10 ask client tcp "$VIP:8080"
	wait_for 10 ask world tcp "$NODE1:30080"
}

# serve6 WHERE PORT: an HTTP server that answers with the client's address
serve6()
{
	on "$1" python3 - "$2" >/dev/null 2>&1 <<-'END' &
		import http.server, socket, sys
		class Server(http.server.ThreadingHTTPServer):
		    address_family = socket.AF_INET6
		class Handler(http.server.BaseHTTPRequestHandler):
		    def do_GET(self):
		        body = self.client_address[0].encode()
		        self.send_response(200)
		        self.send_header("Content-Length", str(len(body)))
		        self.end_headers()
		        self.wfile.write(body)
		    def log_message(self, *args):
		        pass
		Server(("::", int(sys.argv[1])), Handler).serve_forever()
	END
	wait_for 40 on "$1" curl -sg --max-time 1 "http://[::1]:$2/" -o /dev/null
}
# asks WHO URL: the address that the server saw
asks() { on "$1" curl -sSg --max-time 5 "http://$2/"; }

# asked_as ADDRESS WHO URL: the server saw this address
asked_as() { expect_eq "client's address" "$1" "$(asks "${@:2}")"; }
