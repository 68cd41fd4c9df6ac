package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apimachinery "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

const (
	ahead       = 256              // cases that are read before the first of them is answered
	longestLine = 64 * 1024 * 1024 // bytes
)

// filterCase is a pod that is to be placed, and the cluster in which that is asked.
type filterCase struct {
	Pod        *v1.Pod                     `json:"pod"`
	Nodes      []*v1.Node                  `json:"nodes"`
	Pods       []*v1.Pod                   `json:"pods"`
	Namespaces []*v1.Namespace             `json:"namespaces"`
	Claims     []*v1.PersistentVolumeClaim `json:"claims"`
	Volumes    []*v1.PersistentVolume      `json:"volumes"`
	Classes    []*storagev1.StorageClass   `json:"classes"`
}

// filterAnswer is what each filter said of each node, and what was said of the pod before any node was looked at.
type filterAnswer struct {
	Nodes   map[string]map[string][]string `json:"nodes"`
	Refused map[string][]string            `json:"refused"`
	Error   string                         `json:"error"`
	Invalid []string                       `json:"invalid,omitempty"`
}

// runFilter answers the cases that come on standard input, each a line of JSON, in their order. With --check it also
// says what the API server would refuse of them.
func runFilter() {
	check := slices.Contains(os.Args[1:], "--check")
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // the server's rules also speak to its log
	metrics.Register()
	profile, err := defaultProfile()
	if err != nil {
		fail(err)
	}
	type task struct {
		line   []byte
		answer chan []byte
	}
	tasks, waiting := make(chan task), make(chan chan []byte, ahead)
	for range runtime.GOMAXPROCS(0) {
		filters, err := newFilters(profile)
		if err != nil {
			fail(err)
		}
		go func() {
			for task := range tasks {
				task.answer <- filters.answer(task.line, check)
			}
		}()
	}
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		lines.Buffer(make([]byte, 1024*1024), longestLine)
		for lines.Scan() {
			one := task{slices.Clone(lines.Bytes()), make(chan []byte, 1)}
			waiting <- one.answer
			tasks <- one
		}
		if err := lines.Err(); err != nil {
			fail(err)
		}
		close(waiting)
	}()
	out := bufio.NewWriter(os.Stdout)
	for answer := range waiting {
		if _, err := out.Write(append(<-answer, '\n')); err != nil {
			fail(err)
		}
		if len(waiting) == 0 { // whoever asks for one case at a time waits for it
			if err := out.Flush(); err != nil {
				fail(err)
			}
		}
	}
	if err := out.Flush(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "control-plane: filter: %v\n", err)
	os.Exit(1)
}

// defaultProfile is that of a scheduler for which nothing is configured.
func defaultProfile() (*config.KubeSchedulerProfile, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	return &defaults.Profiles[0], nil
}

// filters are the scheduler's own filter plugins, and what they look things up in.
type filters struct {
	plugins []fwk.FilterPlugin
	cluster *cluster
}

// cluster is what the plugins look at: the snapshot and the stores of the case that is being answered.
type cluster struct {
	*schedulercache.Snapshot
	namespaces, claims, volumes, classes cache.Indexer
}

func (c *cluster) NodeInfos() fwk.NodeInfoLister       { return c.Snapshot }
func (c *cluster) StorageInfos() fwk.StorageInfoLister { return c.Snapshot }

func newFilters(profile *config.KubeSchedulerProfile) (*filters, error) {
	client, err := kubernetes.NewForConfig(&rest.Config{}) // never asked: its informers are not started
	if err != nil {
		return nil, err
	}
	shared := informers.NewSharedInformerFactory(client, 0)
	seen := &cluster{
		Snapshot:   schedulercache.NewEmptySnapshot(),
		namespaces: shared.Core().V1().Namespaces().Informer().GetIndexer(),
		claims:     shared.Core().V1().PersistentVolumeClaims().Informer().GetIndexer(),
		volumes:    shared.Core().V1().PersistentVolumes().Informer().GetIndexer(),
		classes:    shared.Storage().V1().StorageClasses().Informer().GetIndexer(),
	}
	registry := plugins.NewInTreeRegistry()
	// Without a profile it has no plugins of its own: one that has runs them all at once, and stops at the first no.
	handle, err := frameworkruntime.NewFramework(context.Background(), registry, nil,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(shared),
		frameworkruntime.WithSnapshotSharedLister(seen),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(shared.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithParallelism(1),
	)
	if err != nil {
		return nil, err
	}
	made := &filters{cluster: seen}
	for _, enabled := range profile.Plugins.MultiPoint.Enabled {
		var args apimachinery.Object
		for _, configured := range profile.PluginConfig {
			if configured.Name == enabled.Name {
				args = configured.Args
			}
		}
		plugin, err := registry[enabled.Name](context.Background(), args, handle)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", enabled.Name, err)
		}
		if one, ok := plugin.(fwk.FilterPlugin); ok {
			made.plugins = append(made.plugins, one)
		}
	}
	return made, nil
}

func (f *filters) answer(line []byte, check bool) []byte {
	var asked filterCase
	answer := filterAnswer{Nodes: map[string]map[string][]string{}, Refused: map[string][]string{}}
	if err := json.Unmarshal(line, &asked); err != nil {
		answer.Error = err.Error()
	} else if asked.Pod == nil {
		answer.Error = "the case has no pod"
	} else {
		asked.fill()
		if check {
			answer.Invalid = asked.findInvalid()
		}
		if err := asked.create(); err != nil {
			fail(err)
		}
		f.show(&asked)
		f.run(asked.Pod, &answer)
	}
	said, err := json.Marshal(answer)
	if err != nil {
		fail(err)
	}
	return said
}

// show lets the plugins see a case's cluster as the scheduler would: pods that have ended are no longer in its cache,
// and of those on nodes that are gone, its snapshot knows nothing.
func (f *filters) show(asked *filterCase) {
	there := map[string]bool{}
	for _, node := range asked.Nodes {
		there[node.Name] = true
	}
	pods := slices.DeleteFunc(slices.Clone(asked.Pods), func(pod *v1.Pod) bool {
		ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		return ended || !there[pod.Spec.NodeName]
	})
	f.cluster.Snapshot = schedulercache.NewSnapshot(pods, asked.Nodes)
	replace(f.cluster.namespaces, asked.Namespaces)
	replace(f.cluster.claims, asked.Claims)
	replace(f.cluster.volumes, asked.Volumes)
	replace(f.cluster.classes, asked.Classes)
}

func replace[T any](store cache.Indexer, objects []T) {
	listed := make([]any, len(objects))
	for i, object := range objects {
		listed[i] = object
	}
	if err := store.Replace(listed, ""); err != nil {
		fail(err)
	}
}

// run asks every plugin of the pod, then of every node, also where another one has said no.
func (f *filters) run(pod *v1.Pod, answer *filterAnswer) {
	nodes, err := f.cluster.List()
	if err != nil {
		fail(err)
	}
	for _, node := range nodes {
		answer.Nodes[node.Node().Name] = map[string][]string{}
	}
	problems := []string{}
	for _, plugin := range f.plugins {
		for _, part := range partsOf(pod, plugin.Name()) {
			problems = append(problems, ask(plugin, part, nodes, answer)...)
		}
	}
	answer.Error = strings.Join(problems, "; ")
}

// partsOf are pods that bring out all that a plugin has to say of one: it stops at the first of its own rules.
func partsOf(pod *v1.Pod, plugin string) []*v1.Pod {
	if plugin != names.InterPodAffinity || pod.Spec.Affinity == nil {
		return []*v1.Pod{pod}
	}
	apart, alone := pod.DeepCopy(), pod.DeepCopy()
	apart.Spec.Affinity.PodAffinity = nil
	alone.Spec.Affinity = nil
	return []*v1.Pod{pod, apart, alone}
}

// ask adds what a plugin says of a pod and of each node to the answer, and returns what went wrong.
func ask(plugin fwk.FilterPlugin, pod *v1.Pod, nodes []fwk.NodeInfo, answer *filterAnswer) []string {
	ctx, state, name := context.Background(), framework.NewCycleState(), plugin.Name()
	var narrowed *fwk.PreFilterResult
	if before, ok := plugin.(fwk.PreFilterPlugin); ok {
		result, status := before.PreFilter(ctx, state, pod, nodes)
		switch {
		case status.IsSkip():
			return nil
		case status.IsRejected():
			answer.Refused[name] = status.Reasons()
			return nil
		case !status.IsSuccess():
			return []string{fmt.Sprintf("%s: %s", name, status.Message())}
		}
		narrowed = result
	}
	problems := []string{}
	for _, node := range nodes {
		said := answer.Nodes[node.Node().Name]
		status := plugin.Filter(ctx, state, pod, node)
		if status.IsRejected() {
			for _, reason := range status.Reasons() {
				if !slices.Contains(said[name], reason) {
					said[name] = append(said[name], reason)
				}
			}
		} else if !status.IsSuccess() {
			problems = append(problems, fmt.Sprintf("%s on %s: %s", name, node.Node().Name, status.Message()))
		} else if !narrowed.AllNodes() && !narrowed.NodeNames.Has(node.Node().Name) {
			said[name] = []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) [%s]", name)}
		}
	}
	return problems
}
