package operator

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"
)

const (
	// established is how long a new definition may take to be served, and establishedPoll how often that is asked.
	established     = 30 * time.Second
	establishedPoll = 20 * time.Millisecond
)

// Definitions reads the CustomResourceDefinitions in the files that match pattern.
func Definitions(files fs.FS, pattern string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, fmt.Errorf("list definitions: %w", err)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("definition: %w", err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, crd); err != nil {
			return nil, fmt.Errorf("definition %s: %w", name, err)
		}
		apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		all = append(all, crd)
	}
	return all, nil
}

// Install makes a cluster serve a definition as it is given, and returns when it does. One that is there already, left by
// an older version or by another product, is replaced unless it is the same; its objects stay.
func Install(ctx context.Context, client apiextensions.Interface, crd *apiextensionsv1.CustomResourceDefinition) error {
	if err := install(ctx, client, crd); err != nil {
		return fmt.Errorf("definition %s: %w", crd.Name, err)
	}
	return nil
}

func install(ctx context.Context, client apiextensions.Interface, crd *apiextensionsv1.CustomResourceDefinition) error {
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	return wait.PollUntilContextTimeout(ctx, establishedPoll, established, true, func(ctx context.Context) (bool, error) {
		current, err := crds.Get(ctx, crd.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = crds.Create(ctx, crd, metav1.CreateOptions{})
			return false, unlessRaced(err)
		case err != nil:
			return false, err
		case current.DeletionTimestamp != nil:
			return false, nil // it comes back once it has gone
		case !equality.Semantic.DeepEqual(current.Spec, crd.Spec):
			next := current.DeepCopy()
			next.Spec = crd.Spec
			_, err = crds.Update(ctx, next, metav1.UpdateOptions{})
			return false, unlessRaced(err)
		}
		return served(current), nil
	})
}

// unlessRaced leaves out what only says that somebody else was quicker; the next look sees what became of it.
func unlessRaced(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func served(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
