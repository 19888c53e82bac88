#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_ipv6_over_ipv4.sh - t_ipv6.sh with an overlay over IPv4 (underlayFamily).
set -euo pipefail
MK_LAB_UNDERLAY=4 exec "$(dirname "$(realpath "$0")")/t_ipv6.sh"
