# shellcheck shell=bash
# Certificates and kubeconfigs of a region, all signed by its own authority. Pure files.

pki() { echo "$STATE/$1/pki"; } # REGION

# pki_add_region REGION: the authority, every control-plane program, and the administrator.
pki_add_region() {
  local dir service name api; dir=$(pki "$1") service=kubernetes.default.svc.cluster.local
  api=IP:127.0.0.1,IP:$(address "$1"),IP:$(api_service "$1"),DNS:localhost
  for name in kubernetes kubernetes.default kubernetes.default.svc $service; do api=$api,DNS:$name; done
  mkdir -p "$dir"
  chmod 700 "$dir"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
    -subj "/CN=lab-$1-ca" -keyout "$dir/ca.key" -out "$dir/ca.crt" 2> /dev/null
  openssl genrsa -out "$dir/sa.key" 2048 2> /dev/null
  certificate "$1" etcd /CN=etcd IP:127.0.0.1
  certificate "$1" apiserver /CN=kube-apiserver "$api"
  certificate "$1" apiserver-kubelet-client /O=system:masters/CN=apiserver-kubelet-client
  user "$1" admin /O=system:masters/CN=admin
  for name in controller-manager scheduler proxy; do user "$1" $name /CN=system:kube-$name; done
  certificate "$1" front-proxy /CN=front-proxy
  user "$1" coredns /CN=system:coredns
  user "$1" provisioner /CN=lab-provisioner
}

pki_add_node() { # MACHINE
  user "$(region_of "$1")" "$1" "/O=system:nodes/CN=system:node:$1" "DNS:$1,IP:$(address "$1")"
}

# user REGION NAME SUBJECT [ALTERNATIVE-NAMES]: a certificate and a kubeconfig that uses it.
user() {
  local dir; dir=$(pki "$1")
  certificate "$@"
  cat > "$dir/$2.kubeconfig" <<K
{"apiVersion": "v1", "kind": "Config", "current-context": "lab-$1",
 "clusters": [{"name": "lab-$1", "cluster": {"server": "https://$(address "$1"):6443", "certificate-authority": "$dir/ca.crt"}}],
 "users": [{"name": "$2", "user": {"client-certificate": "$dir/$2.crt", "client-key": "$dir/$2.key"}}],
 "contexts": [{"name": "lab-$1", "context": {"cluster": "lab-$1", "user": "$2"}}]}
K
}

# certificate REGION NAME SUBJECT [ALTERNATIVE-NAMES] -> NAME.key, NAME.crt
certificate() {
  local dir; dir=$(pki "$1")
  openssl req -x509 -config "$LAB/openssl.cnf" -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
    -subj "$3" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -keyout "$dir/$2.key" -out "$dir/$2.crt" \
    -addext basicConstraints=critical,CA:FALSE -addext extendedKeyUsage=clientAuth,serverAuth \
    ${4:+-addext "subjectAltName=$4"} 2> "$dir/$2.log" || die "making the certificate of $2 failed: $(tail -3 "$dir/$2.log")"
}
