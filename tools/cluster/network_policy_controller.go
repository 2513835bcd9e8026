// The controller of NetworkPolicies of kube-router, without its routes and its proxy. When it is stopped, it removes its
// rules: those of Pods that are gone would apply to the next Pod with the same address.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "")
	node := flag.String("hostname-override", "", "")
	services := flag.String("service-cluster-ip-range", "", "")
	health := flag.String("healthz-bind-address", "127.0.0.1:20244", "")
	flag.Parse()

	rest, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	check(err)
	client, err := kubernetes.NewForConfig(rest)
	check(err)

	config := options.NewKubeRouterConfig()
	config.EnableIPv4 = true
	config.EnableIPv6 = false
	config.HostnameOverride = *node
	config.ClusterIPCIDRs = []string{*services}
	config.NodePortRange = "30000-32767"

	running, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	stop := running.Done()
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(stop)
	for kind, synced := range factory.WaitForCacheSync(stop) {
		if !synced {
			log.Fatalf("cannot list %v", kind)
		}
	}

	tables, sets, err := netpol.NewIPTablesHandlers(config)
	check(err)
	var lock sync.Mutex
	controller, err := netpol.NewNetworkPolicyController(
		client, config, pods, policies, namespaces, &lock, tables, sets)
	check(err)
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods: controller.PodEventHandler, namespaces: controller.NamespaceEventHandler,
		policies: controller.NetworkPolicyEventHandler,
	} {
		_, err = informer.AddEventHandler(handler)
		check(err)
	}

	beats := make(chan *healthcheck.ControllerHeartbeat, 10)
	var started atomic.Bool
	go func() {
		for range beats {
			started.Store(true)
		}
	}()
	go func() {
		check(http.ListenAndServe(*health, http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
			if !started.Load() {
				answer.WriteHeader(http.StatusServiceUnavailable)
			}
		})))
	}()
	var tasks sync.WaitGroup
	tasks.Add(1)
	controller.Run(beats, stop, &tasks)
	tasks.Wait()
	(&netpol.NetworkPolicyController{}).Cleanup()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
