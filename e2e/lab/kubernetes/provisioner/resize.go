package main

import (
	"context"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// resize grants what claims ask for beyond the size of their volume: a directory has no size of its own,
// so that saying so is all there is to do. The API server has already refused claims that shrink.
func resize(client kubernetes.Interface) {
	factory := informers.NewSharedInformerFactory(client, 0)
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	_, err := claims.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, now any) {
			claim := now.(*v1.PersistentVolumeClaim)
			if err := grant(context.Background(), client, claim); err != nil {
				klog.ErrorS(err, "resizing failed", "claim", klog.KObj(claim))
			}
		},
	})
	if err != nil {
		klog.Fatal(err)
	}
	factory.Start(context.Background().Done())
}

func grant(ctx context.Context, client kubernetes.Interface, claim *v1.PersistentVolumeClaim) error {
	wanted := claim.Spec.Resources.Requests[v1.ResourceStorage]
	had := claim.Status.Capacity[v1.ResourceStorage]
	if claim.Status.Phase != v1.ClaimBound || wanted.Cmp(had) <= 0 {
		return nil
	}
	capacity := v1.ResourceList{v1.ResourceStorage: wanted}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"capacity": capacity}})
	if err != nil {
		return err
	}
	volumes := client.CoreV1().PersistentVolumes()
	if _, err := volumes.Patch(ctx, claim.Spec.VolumeName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	patch, err = json.Marshal(map[string]any{"status": map[string]any{"capacity": capacity}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().PersistentVolumeClaims(claim.Namespace).
		Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
