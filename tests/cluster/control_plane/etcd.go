package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// runEtcd reads the arguments that etcd itself does: what a ready etcd is started with starts this one, too.
func runEtcd() {
	etcdmain.Main(os.Args)
}
