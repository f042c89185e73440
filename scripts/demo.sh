#!/bin/sh
# Brings a hub and two real clusters up on this machine, sends both a work, and shows what came of it.
set -eu
cd "$(dirname "$0")/.."
nave=$PWD/bin/nave
lab=${NAVE_DEMO_DIR:-$PWD/bin/demo}
sample=manifests/samples/hello.yaml

hub() { "$nave" kubectl --kubeconfig "$lab/hub.kubeconfig" "$@"; }
on() { cluster=$1; shift; "$nave" kubectl --kubeconfig "$lab/$cluster.kubeconfig" "$@"; }
say() { printf '\n== %s\n' "$*"; }

say "a hub and two clusters, each a real kube-apiserver and kube-controller-manager with simulated nodes"
"$nave" lab up --clusters 2 --data-dir "$lab"

say "the same work for both: a namespace, a config map and a deployment ($sample)"
for cluster in cluster1 cluster2; do
	hub apply -n "$cluster" -f "$sample"
done
for cluster in cluster1 cluster2; do
	hub wait -n "$cluster" --for=condition=Available --timeout=60s manifestwork/hello
	on "$cluster" rollout status -n hello --timeout=60s deployment/web
done

say "what the hub sees"
hub get managedclusters
hub get manifestworks -A -o custom-columns='CLUSTER:.metadata.namespace,WORK:.metadata.name,APPLIED:.status.conditions[?(@.type=="Applied")].status,AVAILABLE:.status.conditions[?(@.type=="Available")].status'
for cluster in cluster1 cluster2; do
	say "what is on $cluster"
	on "$cluster" get -n hello configmaps,deployments,pods
done

say "a placement selects clusters, and says why"
for cluster in cluster1 cluster2; do
	hub label --overwrite managedcluster "$cluster" region=eu
done
hub get -n demo placement/web >/dev/null 2>&1 ||
	"$nave" placement create web -n demo --set global --labels region=eu --kubeconfig "$lab/hub.kubeconfig"
"$nave" placement explain web -n demo --kubeconfig "$lab/hub.kubeconfig"

rollout() { "$nave" work apply -f - --name web --placement web -n demo --rollout progressive --max-concurrency 1 --wait=1m --kubeconfig "$lab/hub.kubeconfig"; }
page() { printf '{apiVersion: v1, kind: ConfigMap, metadata: {name: page, namespace: default}, data: {text: "%s"}}\n' "$1"; }
say "one cluster after the other gets it, and then what is new"
page "good morning" | rollout
page "good evening" | rollout
"$nave" work rollout status web -n demo --kubeconfig "$lab/hub.kubeconfig"
for cluster in cluster1 cluster2; do
	on "$cluster" get configmap page -o 'jsonpath={.data.text}{"\n"}'
done

cat <<END

== go on

  $nave kubectl --kubeconfig $lab/hub.kubeconfig get managedclusters,manifestworks -A
  $nave kubectl --kubeconfig $lab/cluster1.kubeconfig delete -n hello deployment/web      # and look again: it is back
  $nave kubectl --kubeconfig $lab/hub.kubeconfig delete -n cluster1 manifestwork/hello    # and it is gone from cluster1
  $nave lab status --data-dir $lab

== stop it, and leave nothing behind

  $nave lab down --data-dir $lab
END
