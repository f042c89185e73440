package apiserver

import (
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
)

// storageConfig is the connection to the store for our own kinds; how they are encoded, their factory says.
func (s *Server) storageConfig(completed options.CompletedOptions) storagebackend.Config {
	config := completed.Etcd.StorageConfig
	config.StorageObjectCountTracker = s.generic.StorageObjectCountTracker
	config.Codec, config.EncodeVersioner = nil, nil
	return config
}
