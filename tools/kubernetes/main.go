// Kubernetes renders a Kustomize folder and holds each object to the types of the
// Kubernetes API: a field that does not exist is refused. It prints what it found.
//
//	go run . ../../deploy/kubernetes
package main

import (
	"errors"
	"fmt"
	"os"

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
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kubernetes FOLDER")
		os.Exit(2)
	}
	if err := check(os.Args[1]); err != nil {
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
