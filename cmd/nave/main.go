package main

import (
	_ "github.com/sirupsen/logrus"
	_ "github.com/spf13/cobra"
	_ "github.com/stretchr/testify/require"
	_ "go.etcd.io/etcd/server/v3/embed"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "k8s.io/kubernetes/pkg/controlplane/apiserver"
	_ "k8s.io/kubectl/pkg/cmd"
	_ "open-cluster-management.io/api/addon/v1alpha1"
	_ "open-cluster-management.io/api/client/work/clientset/versioned"
	_ "open-cluster-management.io/api/client/addon/clientset/versioned"
	_ "open-cluster-management.io/api/client/cluster/clientset/versioned"
	_ "open-cluster-management.io/api/client/operator/clientset/versioned"
)

func main() {}
