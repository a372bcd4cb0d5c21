# shellcheck shell=bash
# Addresses, network namespaces and the links between them. Knows nothing of processes.
#
#   198.18.0.0/24           links between this machine and the regions, a /30 each
#   198.18.1.0/24           links between regions, a /30 each
#   198.18.(16 i + 0).0/24  machines of region i (a = 1): .1 is control plane, router and DNS, .10+k is node k
#   198.18.(16 i + k).0/24  pods of its node k
#   198.19.(16 i + 0).0/20  its Services, known inside the region only
#
# A region's router knows this machine and the regions it is linked to: there is no way out of the lab.

netns() { echo "petra-$1"; }                       # MACHINE
region_of() { echo "${1%%-*}"; }                   # MACHINE
number_of() { case $1 in *-*) echo "${1#*-}" ;; *) echo 0 ;; esac; }
index() { case $1 in a) echo 1 ;; b) echo 2 ;; c) echo 3 ;; esac; }
region_network() { echo "198.18.$((16 * $(index "$1"))).0/20"; }
service_network() { echo "198.19.$((16 * $(index "$1"))).0/20"; }
api_service() { echo "198.19.$((16 * $(index "$1"))).1"; } # the first address: Service kubernetes
pod_network() { echo "198.18.$((16 * $(index "$(region_of "$1")") + $(number_of "$1"))).0/24"; }
router() { echo "198.18.$((16 * $(index "$1"))).1"; }
address() { # MACHINE
  case $1 in
    *-*) echo "198.18.$((16 * $(index "$(region_of "$1")"))).$((10 + $(number_of "$1")))" ;;
    *) router "$1" ;;
  esac
}

in_net() { nsenter --net="/run/netns/$(netns "$1")" "${@:2}"; } # unlike ip netns exec, keeps /sys and its cgroups

# The network of a control plane: a bridge for the region's machines, a link to this machine.
network_add_region() { # REGION
  local name host=198.18.0.$((4 * $(index "$1"))); name=$(netns "$1")
  ip netns add "$name"
  ip link add "$name" type veth peer name host netns "$name"
  ip addr add "${host%.*}.$((${host##*.} + 1))/30" dev "$name"
  ip link set "$name" up
  in_net "$1" sh -ec "
    ip link set lo up
    ip addr add ${host%.*}.$((${host##*.} + 2))/30 dev host; ip link set host up
    ip link add br0 type bridge; ip addr add $(router "$1")/24 dev br0; ip link set br0 up
    sysctl -qw net.ipv4.ip_forward=1"
  ip route replace "$(region_network "$1")" via "${host%.*}.$((${host##*.} + 2))"
}

network_add_node() { # MACHINE
  local region name; region=$(region_of "$1") name=$(netns "$1")
  ip netns add "$name"
  ip link add "$name" netns "$(netns "$region")" type veth peer name eth0 netns "$name"
  in_net "$region" ip link set "$name" master br0 up
  in_net "$1" sh -ec "
    ip link set lo up
    ip addr add $(address "$1")/24 dev eth0; ip link set eth0 up
    ip route add default via $(router "$region")
    sysctl -qw net.ipv4.ip_forward=1"
  in_net "$region" ip route add "$(pod_network "$1")" via "$(address "$1")"
}

# Only when no process is left in it; the kernel removes the other ends of its links with it.
network_remove() { # MACHINE
  local name; name=$(netns "$1")
  ip link del "$name" 2> /dev/null || true
  [ ! -e "/run/netns/$name" ] || ip netns del "$name"
}

# Every machine of REGION that has a network, running or not, whatever is left of its state.
networks() { # REGION
  local path
  for path in "/run/netns/$(netns "$1")" "/run/netns/$(netns "$1")"-*; do
    [ ! -e "$path" ] || echo "${path#/run/netns/petra-}"
  done
}

# The link between two regions. Their addresses on it: the alphabetically first has .1 of the /30.
link_base() { echo $((16 * $(index "$1") + 4 * $(index "$2"))); }
network_link() { # REGION REGION, in alphabetical order
  local base; base=$(link_base "$1" "$2")
  ip link add "to-$2" netns "$(netns "$1")" type veth peer name "to-$1" netns "$(netns "$2")"
  in_net "$1" ip addr add "198.18.1.$((base + 1))/30" dev "to-$2"
  in_net "$2" ip addr add "198.18.1.$((base + 2))/30" dev "to-$1"
  network_heal "$1" "$2"
}
network_linked() { in_net "$1" ip link show "to-$2" > /dev/null 2>&1; } # REGION REGION
network_partition() { # REGION REGION, in alphabetical order
  in_net "$1" ip link set "to-$2" down
  in_net "$2" ip link set "to-$1" down
}
network_heal() { # REGION REGION, in alphabetical order; routes go with a link that goes down
  local base; base=$(link_base "$1" "$2")
  in_net "$1" ip link set "to-$2" up
  in_net "$2" ip link set "to-$1" up
  in_net "$1" ip route replace "$(region_network "$2")" via "198.18.1.$((base + 2))"
  in_net "$2" ip route replace "$(region_network "$1")" via "198.18.1.$((base + 1))"
}
