#!/usr/bin/env bash
# Tests of the chart that need no cluster: lint, schema, and what it renders.
#
#   chart.sh          check
#   chart.sh update   write the golden renders again
set -euo pipefail
. "$(dirname "$0")/steps.sh"
CHART=$ROOT/charts/petracache
GOLDEN=$ROOT/charts/golden
failures=0

template() { helm template petracache "$CHART" --namespace petracache-system "$@"; }

# render NAME [helm arguments]: what the chart makes of these values, against charts/golden/NAME.yaml.
render() {
  local name=$1 golden=$GOLDEN/$1.yaml now; shift
  now=$(template --set crds.install=false "$@" 2>/dev/null)
  [ "${UPDATE:-}" != yes ] || { mkdir -p "$GOLDEN"; printf '%s\n' "$now" > "$golden"; }
  if diff -u "$golden" <(printf '%s\n' "$now"); then echo "ok      render $name"
  else echo "FAILED  render $name: if the change is meant, run \`make golden\` and commit the diff"; failures=1; fi
}

# refused WORDS [helm arguments]: values that the schema must not accept, with a message that has WORDS.
refused() {
  local words=$1 said; shift
  if said=$(template "$@" 2>&1); then echo "FAILED  accepted: $*"; failures=1
  elif ! grep -q -- "$words" <<< "$said"; then echo "FAILED  refused without the word $words: $said"; failures=1
  else echo "ok      refused $*"; fi
}

# The chart's CRD is the generated one, kept when the chart is uninstalled.
holds_crd() {
  local crd; crd=$(template --show-only templates/crd.yaml 2>/dev/null)
  if grep -q 'name: petraclusters.petracache.io' <<< "$crd" && grep -q 'helm.sh/resource-policy: keep' <<< "$crd"
  then echo "ok      holds the CRD"; else echo "FAILED  the CRD is missing or not kept"; failures=1; fi
}

# Every metric that an alert or the dashboard asks for is one that a program exports.
metrics_exist() {
  local metric missing=
  while read -r metric; do
    metric=${metric%_bucket}
    grep -rq "\"$metric\"" "$ROOT/node/src" "$ROOT/operator/src" || missing+=" $metric"
  done < <(cat "$CHART"/files/{alerts.yaml,dashboard.json} | grep -oE 'petra(cache|_operator)_[a-z_]+' | sort -u)
  if [ -z "$missing" ]; then echo "ok      every metric of the alerts and the dashboard exists"
  else echo "FAILED  nobody exports$missing"; failures=1; fi
}

[ "${1:-}" != update ] || UPDATE=yes
helm lint --strict "$CHART" 2>&1 | { grep -v 'found symbolic link' || true; }
render default
render one-namespace --set watchNamespace=cache --set region=ankara
render images --set image.tag=dev,image.pullPolicy=Never --set defaultImages.node=n:1,defaultImages.router=r:1
render monitoring --set monitoring.podMonitors=true,monitoring.rules=true,monitoring.dashboard=true
metrics_exist
refused replica --set replica=3
refused pullPolicy --set image.pullPolicy=Sometimes
refused region --set region=Not_A_Label
holds_crd
exit $failures
