"""Notebooks and Tensorboards to plan with."""

from __future__ import annotations

from typing import Any

from muster.kube.objects import Object

IMAGE = "kubeflownotebookswg/jupyter-scipy:v1.9.2"


def notebook(name: str = "nb", *, image: str = IMAGE, annotations: dict[str, str] | None = None, **more: Any) -> Object:
    """As Kubeflow's form makes one. `more` are fields of its container."""
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "Notebook",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": "nb-uid",
            "creationTimestamp": "2026-11-17T10:00:00Z",
            "labels": {"app": name},
            "annotations": annotations or {},
        },
        "spec": {"template": {"spec": {"containers": [{"name": name, "image": image, **more}]}}},
    }


def tensorboard(logspath: str = "pvc://logs/run-1", **spec: Any) -> Object:
    return {
        "apiVersion": "tensorboard.kubeflow.org/v1alpha1",
        "kind": "Tensorboard",
        "metadata": {"name": "tb", "namespace": "default", "uid": "tb-uid"},
        "spec": {**({"logspath": logspath} if logspath else {}), **spec},
    }


def pod_of(workspace: Object, *, ready: bool = True, **status: Any) -> Object:
    """Its Pod, as a node reports it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "nb-0",
            "namespace": "default",
            "uid": "pod-uid",
            "ownerReferences": [
                {"kind": workspace["kind"], "uid": workspace["metadata"]["uid"], "controller": True, "name": "nb"}
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": "127.1.0.9",
            "conditions": [
                {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-11-17T10:00:00Z"},
            ],
            **status,
        },
    }


SAMPLES = """
apiVersion: kubeflow.org/v1
kind: Notebook
metadata:
  name: notebook-sample-v1
  namespace: default
spec:
  template:
    spec:
      containers:
        - name: notebook-sample-v1
          image: kubeflownotebookswg/jupyter:v1.9.2
---
apiVersion: kubeflow.org/v1beta1
kind: Notebook
metadata:
  name: notebook-sample-v1beta1
  namespace: default
spec:
  template:
    spec:
      containers:
        - name: notebook-sample-v1beta1
          image: gcr.io/kubeflow-images-public/tensorflow-1.10.1-notebook-cpu:v0.3.0
---
apiVersion: kubeflow.org/v1alpha1
kind: Notebook
metadata:
  name: notebook-sample-v1alpha1
  namespace: default
spec:
  template:
    spec:
      containers:
        - name: notebook-sample-v1alpha1
          image: gcr.io/kubeflow-images-public/tensorflow-1.10.1-notebook-cpu:v0.3.0
---
apiVersion: tensorboard.kubeflow.org/v1alpha1
kind: Tensorboard
metadata:
  name: tensorboard-sample
  namespace: default
spec:
  logspath: pvc://tensorboard-logs/mnist
"""
"""What Kubeflow's samples say: one Notebook in each version that it serves, and a Tensorboard on a claim."""
