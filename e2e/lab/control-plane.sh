#!/usr/bin/env bash
# Pid 1 of a control plane: etcd, API server, controller manager, scheduler, DNS, volumes.
# Started by machine.sh with MACHINE set, in namespaces of its own.
set -u
. "$(dirname "$0")/init.sh"
. "$LAB/metrics.sh"

# Without fsync: this etcd need only survive the end of its process, not of the real machine.
component etcd "$BIN/etcd" --name "$MACHINE" --data-dir "$DIR/etcd" --unsafe-no-fsync --log-level warn \
  --listen-client-urls https://127.0.0.1:2379 --advertise-client-urls https://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
  --initial-cluster "$MACHINE=http://127.0.0.1:2380" --quota-backend-bytes 8589934592 \
  --client-cert-auth --trusted-ca-file "$PKI/ca.crt" --cert-file "$PKI/etcd.crt" --key-file "$PKI/etcd.key"

# The audit log is one file that is never rotated, so that a test can count what is in it.
# Node names do not resolve here: the API server has to use addresses.
# shellcheck disable=SC2086 # several arguments in one variable
component apiserver "$BIN/kube-apiserver" --etcd-servers https://127.0.0.1:2379 --etcd-cafile "$PKI/ca.crt" \
  --etcd-certfile "$PKI/etcd.crt" --etcd-keyfile "$PKI/etcd.key" \
  --bind-address 0.0.0.0 --advertise-address "$(address "$MACHINE")" --secure-port 6443 \
  --tls-cert-file "$PKI/apiserver.crt" --tls-private-key-file "$PKI/apiserver.key" \
  --client-ca-file "$PKI/ca.crt" --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
  --kubelet-client-certificate "$PKI/apiserver-kubelet-client.crt" --kubelet-client-key "$PKI/apiserver-kubelet-client.key" \
  --kubelet-certificate-authority "$PKI/ca.crt" --kubelet-preferred-address-types InternalIP \
  --service-account-issuer https://kubernetes.default.svc.cluster.local \
  --service-account-key-file "$PKI/sa.key" --service-account-signing-key-file "$PKI/sa.key" \
  --service-cluster-ip-range "$(service_network "$REGION")" --allow-privileged --profiling=false \
  --requestheader-client-ca-file "$PKI/ca.crt" --requestheader-allowed-names front-proxy \
  --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
  --requestheader-extra-headers-prefix X-Remote-Extra- --enable-aggregator-routing \
  --proxy-client-cert-file "$PKI/front-proxy.crt" --proxy-client-key-file "$PKI/front-proxy.key" \
  --audit-policy-file "$LAB/manifests/audit-policy.yaml" --audit-log-path "$DIR/audit.log" \
  --audit-log-mode blocking --audit-log-maxsize 100000 ${API_SERVER_ARGS:-}

# shellcheck disable=SC2086
component controller-manager "$BIN/kube-controller-manager" --kubeconfig "$PKI/controller-manager.kubeconfig" \
  --service-account-private-key-file "$PKI/sa.key" --root-ca-file "$PKI/ca.crt" \
  --cluster-signing-cert-file "$PKI/ca.crt" --cluster-signing-key-file "$PKI/ca.key" \
  --use-service-account-credentials --leader-elect=false --bind-address 127.0.0.1 \
  --flex-volume-plugin-dir /run/volume-plugins ${CONTROLLER_MANAGER_ARGS:-}

# shellcheck disable=SC2086
component scheduler "$BIN/kube-scheduler" --kubeconfig "$PKI/scheduler.kubeconfig" --leader-elect=false \
  --bind-address 127.0.0.1 ${SCHEDULER_ARGS:-}

component coredns "$BIN/coredns" -conf "$STATE/$REGION/Corefile"
component provisioner "$BIN/provisioner" --kubeconfig "$PKI/provisioner.kubeconfig" --state "$STATE/$REGION"
[ -z "${METRICS:-}" ] || metrics_component
wait
