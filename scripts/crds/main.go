// Command crds copies upstream's CustomResourceDefinition files out of the module cache into the folders that embed them.
// They are the dependency's text, so they are git-ignored and made anew by `make generate`.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "open-cluster-management.io/api"

// targets says which definitions go where: the kinds that the hub serves natively, those that it installs in itself, and
// those that an agent installs on its managed cluster.
var targets = map[string][]string{
	"pkg/api/schema/crd": {
		"addon/v1alpha1/*_addontemplates.crd.yaml",
		"addon/v1beta1/*.crd.yaml", // hold v1alpha1 as well
		"cluster/v1/*_managedclusters.crd.yaml",
		"cluster/v1alpha1/*_addonplacementscores.crd.yaml",
		"cluster/v1beta1/*.crd.yaml",
		"cluster/v1beta2/*.crd.yaml",
		"work/v1/*_manifestworks.crd.yaml",
		"work/v1alpha1/*.crd.yaml",
	},
	"manifests/hub": {
		"operator/v1/*_clustermanagers.crd.yaml",
	},
	"manifests/spoke": {
		"cluster/v1alpha1/*_clusterclaims.crd.yaml",
		"operator/v1/*_klusterlets.crd.yaml",
		"work/v1/*_appliedmanifestworks.crd.yaml",
	},
}

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "crds:", err)
		os.Exit(1)
	}
}

func generate() error {
	root, err := goCommand("list", "-m", "-f", "{{.Dir}}", "nave")
	if err != nil {
		return err
	}
	if _, err := goCommand("mod", "download", module); err != nil {
		return err
	}
	source, err := goCommand("list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	for folder, patterns := range targets {
		if err := refill(filepath.Join(root, folder), source, patterns); err != nil {
			return err
		}
	}
	return nil
}

// refill makes folder hold exactly the files that the patterns name below source. A file is called by its group version
// and its own name, since two versions of a kind share one.
func refill(folder, source string, patterns []string) error {
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("empty %s: %w", folder, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", folder, err)
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(source, pattern))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("module %s has no file that matches %s (%v)", module, pattern, err)
		}
		for _, file := range files {
			if err := copyFile(folder, source, file); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyFile(folder, source, file string) error {
	version, err := filepath.Rel(source, filepath.Dir(file))
	if err != nil {
		return fmt.Errorf("name for %s: %w", file, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read definition: %w", err)
	}
	plural := strings.TrimSuffix(filepath.Base(file), ".crd.yaml")
	plural = plural[strings.LastIndex(plural, "_")+1:]
	name := strings.ReplaceAll(version, string(filepath.Separator), "_") + "_" + plural + ".yaml"
	if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
		return fmt.Errorf("write definition: %w", err)
	}
	return nil
}

func goCommand(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
