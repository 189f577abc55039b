// Kubernetes renders a Kustomize folder and holds each object to the types of the
// Kubernetes API: a field that does not exist is refused. It prints what it found. It then
// does the same with the overlay that a page prints, and looks for what that one changes.
//
//	go run . ../../deploy/kubernetes ../../docs/optional/kubernetes.md
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var kinds = map[string]func() any{
	"v1/Namespace":                       func() any { return new(corev1.Namespace) },
	"v1/ConfigMap":                       func() any { return new(corev1.ConfigMap) },
	"v1/Service":                         func() any { return new(corev1.Service) },
	"apps/v1/Deployment":                 func() any { return new(appsv1.Deployment) },
	"apps/v1/StatefulSet":                func() any { return new(appsv1.StatefulSet) },
	"networking.k8s.io/v1/Ingress":       func() any { return new(networkingv1.Ingress) },
	"networking.k8s.io/v1/NetworkPolicy": func() any { return new(networkingv1.NetworkPolicy) },
	"policy/v1/PodDisruptionBudget":      func() any { return new(policyv1.PodDisruptionBudget) },
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: kubernetes FOLDER PAGE")
		os.Exit(2)
	}
	if err := errors.Join(check(os.Args[1]), overlay(os.Args[1], os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(folder string) error {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return err
	}
	var wrong []error
	for _, r := range rendered.Resources() {
		if err := fits(r); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", r.CurId(), err))
			continue
		}
		fmt.Println(r.GetApiVersion(), r.GetKind(), r.GetNamespace()+"/"+r.GetName())
	}
	if len(rendered.Resources()) < 8 {
		wrong = append(wrong, fmt.Errorf("only %d objects were rendered", len(rendered.Resources())))
	}
	return errors.Join(wrong...)
}

var (
	printed = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	remote  = regexp.MustCompile(`(?m)^  - https://\S+/deploy/kubernetes\?ref=\S+$`)
)

// overlay checks what a page prints, with the base from here.
func overlay(base, page string) (err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	block := printed.FindSubmatch(text)
	if block == nil || !remote.Match(block[1]) {
		return fmt.Errorf("%s prints no overlay over the base", page)
	}
	dir, err := os.MkdirTemp("", "bloom-overlay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if base, err = filepath.Abs(base); err != nil {
		return err
	}
	if base, err = filepath.Rel(dir, base); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), remote.ReplaceAll(block[1], []byte("  - "+base)), 0o600); err != nil {
		return err
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	all, err := rendered.AsYaml()
	if err != nil {
		return err
	}
	var wrong []error
	for _, r := range rendered.Resources() {
		if err := fits(r); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %s: %w", page, r.CurId(), err))
		}
	}
	for _, want := range []string{"image: YOUR.REGISTRY/bloom:1.0.0", "image: YOUR.REGISTRY/bloom-worker:1.0.0", "host: bloom.YOUR.DOMAIN", "- bloom.YOUR.DOMAIN", "BLOOM_TRUSTED_PROXIES: 10."} {
		if !strings.Contains(string(all), want) {
			wrong = append(wrong, fmt.Errorf("%s: the overlay leads to no %q", page, want))
		}
	}
	if strings.Contains(string(all), "example.org") {
		wrong = append(wrong, fmt.Errorf("%s: the overlay leaves an address of the examples", page))
	}
	return errors.Join(wrong...)
}

func fits(r *resource.Resource) error {
	object, known := kinds[r.GetApiVersion()+"/"+r.GetKind()]
	if !known {
		return errors.New("no type is known for it here")
	}
	text, err := r.AsYAML()
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(text, object())
}
