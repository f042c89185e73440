package agent

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const (
	// established is how long a new definition may take to be served, and establishedPoll how often that is asked.
	established     = 30 * time.Second
	establishedPoll = 50 * time.Millisecond
)

// ensureCRDs installs the definitions in files (spoke/*.yaml) on the managed cluster, where they are missing, and returns
// when they are served.
func ensureCRDs(ctx context.Context, config *rest.Config, files fs.FS) error {
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client of the managed cluster: %w", err)
	}
	names, err := fs.Glob(files, "spoke/*.yaml")
	if err != nil {
		return fmt.Errorf("list definitions: %w", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return fmt.Errorf("definition: %w", err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, crd); err != nil {
			return fmt.Errorf("definition %s: %w", name, err)
		}
		if err := ensureCRD(ctx, client, crd); err != nil {
			return fmt.Errorf("definition %s on the managed cluster: %w", crd.Name, err)
		}
	}
	return nil
}

func ensureCRD(ctx context.Context, client apiextensions.Interface, crd *apiextensionsv1.CustomResourceDefinition) error {
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, establishedPoll, established, true, func(ctx context.Context) (bool, error) {
		live, err := crds.Get(ctx, crd.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range live.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}
