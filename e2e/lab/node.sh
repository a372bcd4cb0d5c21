#!/usr/bin/env bash
# Pid 1 of a node: containerd, kubelet, kube-proxy, at their standard paths, which are private mounts here.
# Started by machine.sh with MACHINE set, in namespaces of its own.
set -u
. "$(dirname "$0")/init.sh"

mkdir -p "$DIR"/{containerd,kubelet,varlog,volumes} /run/cni/net.d
mount --bind "$DIR/kubelet" /var/lib/kubelet
mount --bind "$DIR/varlog" /var/log
mount -t tmpfs tmpfs /var/lib/cni # what libcni remembers of pods' networks, which a boot ends
mount --make-rshared /
: > /run/resolv.conf # pods must not see this machine's resolver

cat > /run/cni/net.d/10-lab.conflist <<C
{"cniVersion": "1.0.0", "name": "lab", "plugins": [
 {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": "$(pod_network "$MACHINE")"}]],
           "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
C

# restrict_oom_score_adj: root of some virtual machines lacks CAP_SYS_RESOURCE; then a negative oom_score_adj fails
# and runc only says "can't get final child's PID from pipe: EOF".
cat > /run/containerd.toml <<C
version = 2
root = "$DIR/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/petracache/pause:dev"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/run/cni/net.d"
C

# cgroupRoot keeps the pods of several kubelets apart. Nothing is ever evicted or collected: the disk is not the
# node's own. What is not said here is as in production, syncFrequency and leases too, unless `lab up` was told.
cat > /run/kubelet.yaml <<C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $PKI/$MACHINE.crt
tlsPrivateKeyFile: $PKI/$MACHINE.key
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
volumePluginDir: /run/kubelet-plugins
cgroupDriver: cgroupfs
cgroupRoot: /petra-$MACHINE
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
resolvConf: /run/resolv.conf
clusterDomain: cluster.local
clusterDNS: [$(router "$REGION")]
syncFrequency: ${SYNC:-1m}
nodeLeaseDurationSeconds: ${LEASE:-40}
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%"}
localStorageCapacityIsolation: false
maxPods: 200
C

# The conntrack settings are those of the whole machine and cannot be written in a network namespace.
cat > /run/proxy.yaml <<C
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ${PROXY_MODE:-iptables}
hostnameOverride: $MACHINE
oomScoreAdj: 0
clientConnection: {kubeconfig: $PKI/proxy.kubeconfig}
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
C

component containerd containerd -c /run/containerd.toml
until ctr version > /dev/null 2>&1; do sleep 0.1; done
for image in "$IMAGES"/*.tar; do
  ctr -n k8s.io images import "$image" >> "$DIR/log/images.log" 2>&1 || echo "image $image was not imported" >&2
done
component kubelet "$BIN/kubelet" --config /run/kubelet.yaml --kubeconfig "$PKI/$MACHINE.kubeconfig" \
  --hostname-override "$MACHINE" --node-ip "$(address "$MACHINE")" \
  --node-labels "topology.kubernetes.io/region=$REGION,topology.kubernetes.io/zone=$MACHINE"
component kube-proxy "$BIN/kube-proxy" --config /run/proxy.yaml
wait
