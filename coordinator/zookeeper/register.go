package zookeeper

import "github.com/baton-go/baton/coordinator"

func init() {
	for _, scheme := range []string{"zk", "zookeeper", "zks"} {
		coordinator.Register(scheme, Open)
	}
}
