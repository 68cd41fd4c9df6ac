package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
)

// stored is an object of a case, and what the API server does when one of its kind is created.
type stored struct {
	path     string
	object   runtime.Object
	group    string
	strategy rest.RESTCreateStrategy
}

func (c *filterCase) objects() []stored {
	found := []stored{{"pod", c.Pod, v1.GroupName, pod.Strategy}}
	found = append(found, listed("nodes", c.Nodes, v1.GroupName, node.Strategy)...)
	found = append(found, listed("pods", c.Pods, v1.GroupName, pod.Strategy)...)
	found = append(found, listed("namespaces", c.Namespaces, v1.GroupName, namespace.Strategy)...)
	found = append(found, listed("claims", c.Claims, v1.GroupName, persistentvolumeclaim.Strategy)...)
	found = append(found, listed("volumes", c.Volumes, v1.GroupName, persistentvolume.Strategy)...)
	found = append(found, listed("classes", c.Classes, storagev1.GroupName, storageclass.Strategy)...)
	return found
}

func listed[T runtime.Object](path string, objects []T, group string, strategy rest.RESTCreateStrategy) []stored {
	found := make([]stored, len(objects))
	for i, object := range objects {
		found[i] = stored{fmt.Sprintf("%s[%d]", path, i), object, group, strategy}
	}
	return found
}

// fill gives every object the defaults that the API server would give it.
func (c *filterCase) fill() {
	for _, one := range c.objects() {
		legacyscheme.Scheme.Default(one.object)
	}
}

// create makes the pod what it is once the API server has it: what it says of its own labels is in its selectors.
func (c *filterCase) create() error {
	inside := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(c.Pod, inside, nil); err != nil {
		return err
	}
	pod.Strategy.PrepareForCreate(context.Background(), inside)
	c.Pod = &v1.Pod{}
	return legacyscheme.Scheme.Convert(inside, c.Pod, nil)
}

// findInvalid says what the API server would refuse of a case.
func (c *filterCase) findInvalid() []string {
	found, ctx := []string{}, context.Background()
	for _, one := range c.objects() {
		inside := schema.GroupVersion{Group: one.group, Version: runtime.APIVersionInternal}
		object, err := legacyscheme.Scheme.ConvertToVersion(one.object.DeepCopyObject(), inside)
		if err != nil {
			found = append(found, fmt.Sprintf("%s: %v", one.path, err))
			continue
		}
		if one.object == c.Pod {
			one.strategy.PrepareForCreate(ctx, object)
		}
		for _, wrong := range one.strategy.Validate(ctx, object) {
			found = append(found, fmt.Sprintf("%s: %v", one.path, wrong))
		}
	}
	return found
}
