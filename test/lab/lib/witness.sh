# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/witness.sh - count node1's packets that passed their hook while it had no program, or
# whose program did not take them: the host's stack receives and counts them here.

IP_TABLE=$(by_family ip ip6)

# witness PODS NODE_PORT OUTSIDE: all packets from pods, and from the host to Services; from other
# nodes to the addresses PODS; to NODE_PORT, and from the address OUTSIDE
witness()
{
	in_family "$(cat <<-END
		table $IP_TABLE witness {
			chain first {
				type filter hook prerouting priority -400
				iifname "mk*" iifname != { "mkhost0", "mkvxlan" } counter
				iifname "mkvxlan" $IP_TABLE daddr $1 counter
				iifname "eth0" tcp dport $2 counter
				iifname "eth0" udp dport $2 counter
				iifname "eth0" $IP_TABLE saddr $3 counter
			}
		}
	END
	)" | on node1 nft -f -
}

# Print the number of packets
witnessed()
{
	on node1 nft -j list table "$IP_TABLE" witness |
		jq '[.nftables[].rule? // empty | .expr[] | .counter? // empty | .packets] | add'
}
