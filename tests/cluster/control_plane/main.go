// Command control-plane is a Kubernetes control plane in one binary: its first argument says which part it is.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	part := ""
	if len(os.Args) > 1 {
		part = os.Args[1]
		os.Args = append([]string{part}, os.Args[2:]...) // each part reads its own arguments
	}
	switch part {
	case "etcd":
		runEtcd()
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			os.Exit(1)
		}
	case "filter":
		runFilter()
	default:
		fmt.Fprintf(os.Stderr, "control-plane: %q is no part: say etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl or filter\n", part)
		os.Exit(2)
	}
}
