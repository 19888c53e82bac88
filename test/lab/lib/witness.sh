# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/witness.sh - packets of node1's that met their hook while no program was there, or one that
# let go what it has to take: the host's stack sees them come in, and counts them here.

# witness PODS NODE_PORT OUTSIDE: all that pods send and that the host sends to Services; from other nodes for the
# addresses PODS; for NODE_PORT, and from the address OUTSIDE
witness()
{
	on node1 nft -f - <<-END
		table ip witness {
			chain first {
				type filter hook prerouting priority -400
				iifname "mk*" iifname != { "mkhost0", "mkvxlan" } counter
				iifname "mkvxlan" ip daddr $1 counter
				iifname "eth0" tcp dport $2 counter
				iifname "eth0" udp dport $2 counter
				iifname "eth0" ip saddr $3 counter
			}
		}
	END
}

# How many packets
witnessed()
{
	on node1 nft -j list table ip witness |
		jq '[.nftables[].rule? // empty | .expr[] | .counter? // empty | .packets] | add'
}
