// provisioner makes, grows and removes the lab's volumes: plain directories that it can see itself, since
// all machines of the lab share the file system of the one machine that they run on.
//
//	class lab         STATE/NODE/volumes/PV   a disk of the node that the scheduler chose
//	class lab-shared  STATE/shared/PV         bound to no node, like a cloud disk that follows its pod
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"
)

// name is what a StorageClass gives as its provisioner.
const name = "lab/path"

// provisioner holds the directory of the region's state, below which every volume lies.
type provisioner struct{ state string }

func (p provisioner) Provision(_ context.Context, o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: o.PVC.Spec.Resources.Requests[v1.ResourceStorage]},
		},
	}
	if o.StorageClass.Parameters["shared"] == "true" {
		pv.Spec.HostPath = &v1.HostPathVolumeSource{Path: filepath.Join(p.state, "shared", o.PVName)}
	} else {
		if o.SelectedNode == nil {
			return nil, controller.ProvisioningFinished, errors.New("no node was selected: the StorageClass needs volumeBindingMode WaitForFirstConsumer")
		}
		node := o.SelectedNode.Labels[v1.LabelHostname]
		pv.Spec.Local = &v1.LocalVolumeSource{Path: filepath.Join(p.state, node, "volumes", o.PVName)}
		pv.Spec.NodeAffinity = onlyOn(node)
	}
	return pv, controller.ProvisioningFinished, makeDirectory(directory(pv))
}

func (p provisioner) Delete(_ context.Context, pv *v1.PersistentVolume) error {
	dir := directory(pv)
	if inside, err := filepath.Rel(p.state, dir); err != nil || !filepath.IsLocal(inside) {
		return fmt.Errorf("volume %s is at %s, which is not below %s: not removed", pv.Name, dir, p.state)
	}
	return os.RemoveAll(dir)
}

func onlyOn(node string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{
			Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{node},
		}},
	}}}}
}

func directory(pv *v1.PersistentVolume) string {
	if pv.Spec.HostPath != nil {
		return pv.Spec.HostPath.Path
	}
	return pv.Spec.Local.Path
}

func makeDirectory(path string) error {
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	return os.Chmod(path, 0o777) // Whatever the umask; pods without fsGroup may write too.
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the region's API server")
	state := flag.String("state", "", "the directory of the region's state")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Fatal(err)
	}
	config.QPS, config.Burst = 100, 200 // The default of 5 requests a second is slower than a kubelet starts pods.
	client := kubernetes.NewForConfigOrDie(config)
	resize(client)
	controller.NewProvisionController(klog.Background(), client, name, provisioner{*state},
		controller.LeaderElection(false), controller.Threadiness(8)).Run(context.Background())
}
