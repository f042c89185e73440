package api

import (
	"bytes"
	"context"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
)

// compressedPrefix marks a compressed value in etcd. Values without it, from before compression, are read as they are.
const compressedPrefix = "nave:zstd:1:"

// maxStoredBytes bounds what a stored value may grow to when it is unpacked; a request cannot be larger either.
const maxStoredBytes = 16 << 20

// compressed are the resources whose objects are large and repeat themselves.
var compressed = []schema.GroupResource{
	{Group: "work.open-cluster-management.io", Resource: "manifestworks"},
	{Group: "work.open-cluster-management.io", Resource: "manifestworkreplicasets"},
	{Group: "addon.open-cluster-management.io", Resource: "addontemplates"},
}

// Compression is a storage transformer that keeps works compressed in etcd: YAML turned JSON shrinks to about a fifth,
// in the database, in its memory map and in its log.
type Compression struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

var _ value.ResourceTransformers = &Compression{}
var _ value.Transformer = &Compression{}

// NewCompression makes the transformer; it is safe for concurrent use.
func NewCompression() (*Compression, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("zstd encoder: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxStoredBytes))
	if err != nil {
		return nil, fmt.Errorf("zstd decoder: %w", err)
	}
	return &Compression{encoder: encoder, decoder: decoder}, nil
}

// TransformerForResource returns the compressing transformer for works, and one that changes nothing for all else.
func (c *Compression) TransformerForResource(resource schema.GroupResource) value.Transformer {
	for _, r := range compressed {
		if r == resource {
			return c
		}
	}
	return plain{}
}

// TransformToStorage compresses a value.
func (c *Compression) TransformToStorage(_ context.Context, data []byte, _ value.Context) ([]byte, error) {
	return c.encoder.EncodeAll(data, []byte(compressedPrefix)), nil
}

// TransformFromStorage returns the value, and whether it is still stored uncompressed.
func (c *Compression) TransformFromStorage(_ context.Context, data []byte, _ value.Context) (out []byte, stale bool, err error) {
	packed, ok := bytes.CutPrefix(data, []byte(compressedPrefix))
	if !ok {
		return data, true, nil
	}
	out, err = c.decoder.DecodeAll(packed, nil)
	if err != nil {
		return nil, false, fmt.Errorf("unpack stored object: %w", err)
	}
	return out, false, nil
}

type plain struct{}

func (plain) TransformFromStorage(_ context.Context, data []byte, _ value.Context) ([]byte, bool, error) {
	return data, false, nil
}

func (plain) TransformToStorage(_ context.Context, data []byte, _ value.Context) ([]byte, error) {
	return data, nil
}
