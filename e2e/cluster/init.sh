#!/bin/bash
# First process of the cluster's namespaces (see namespaces.py): prepares the mounts, waits for the network
# device that the outside puts in, sets up the addresses, and then lives until it is killed, which ends everything.
# Arguments: the state folder (it marks this process as the handle of that cluster), then addresses and names.
set -euo pipefail
state=$1 link=$2 inside=$3 node=$4 services=$5

mount --make-rprivate /
for folder in /run/containerd /run/netns /var/lib/kubelet /var/lib/cni /var/log/containers /usr/libexec/kubernetes; do
  mkdir -p "$folder"
  mount -t tmpfs -o mode=755 tmpfs "$folder"
done

for _ in $(seq 200); do
  [ -e "/proc/sys/net/ipv4/conf/$link" ] && break
  sleep 0.05
done
ip link set lo up
ip address add "$inside/30" dev "$link"
ip link set "$link" up
# kubelet refuses a loopback address as the node's, and not every kernel has dummy devices: an empty bridge.
ip link add node0 type bridge
ip address add "$node/32" dev node0
ip link set node0 up
ip route add "$services" dev node0
echo 1 > /proc/sys/net/ipv4/ip_forward
touch "$state/run/namespaces-ready"

# Not exec: the first process of a PID namespace has to reap what containerd's shims leave behind.
sleep infinity &
wait
