"""etcd, the API server, the controller manager and the scheduler."""

from __future__ import annotations

import yaml

from tools.cluster.build import program
from tools.cluster.layout import API_PORT, API_SERVICE_ADDRESS, NODE_ADDRESS, POD_RANGE, SERVICE_RANGE, Layout
from tools.cluster.processes import Component, Health
from tools.cluster.sources import ETCD, KUBERNETES

assert API_SERVICE_ADDRESS.startswith(SERVICE_RANGE.removesuffix("0.0/16"))


def etcd(layout: Layout) -> Component:
    client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    command = [
        str(program(ETCD, "etcd")),
        f"--data-dir={layout.root / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--quota-backend-bytes=4294967296",
        # A power cut ends this cluster anyway.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
    return Component("etcd", command, health=Health(2379, "/health"))


def api_server(layout: Layout) -> Component:
    certificates = layout.certificates
    command = [
        str(program(KUBERNETES, "kube-apiserver")),
        "--etcd-servers=http://127.0.0.1:2379",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={NODE_ADDRESS}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--tls-cert-file={certificates / 'apiserver.crt'}",
        f"--tls-private-key-file={certificates / 'apiserver.key'}",
        f"--client-ca-file={certificates / 'ca.crt'}",
        f"--token-auth-file={certificates / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates / 'service-accounts.key'}",
        f"--service-account-signing-key-file={certificates / 'service-accounts.key'}",
        f"--kubelet-certificate-authority={certificates / 'ca.crt'}",
        f"--kubelet-client-certificate={certificates / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={certificates / 'apiserver-kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        # Webhooks are reached at their Service's endpoints, even without kube-proxy.
        "--enable-aggregator-routing=true",
        "--allow-privileged=true",
        # Tests use admission policies for what the single node cannot do: pull images, and hold the Pods of many
        # machines.
        "--feature-gates=MutatingAdmissionPolicy=true",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
        "--shutdown-send-retry-after=true",
    ]
    return Component("kube-apiserver", command, health=Health(API_PORT, "/readyz", tls=True))


def controller_manager(layout: Layout) -> Component:
    certificates = layout.certificates
    command = [
        str(program(KUBERNETES, "kube-controller-manager")),
        f"--kubeconfig={layout.kubeconfig_of('kube-controller-manager')}",
        f"--service-account-private-key-file={certificates / 'service-accounts.key'}",
        f"--root-ca-file={certificates / 'ca.crt'}",
        f"--cluster-signing-cert-file={certificates / 'ca.crt'}",
        f"--cluster-signing-key-file={certificates / 'ca.key'}",
        f"--cluster-cidr={POD_RANGE}",
        "--allocate-node-cidrs=false",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        # This is never measured.
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--concurrent-gc-syncs=20",
    ]
    return Component("kube-controller-manager", command, health=Health(10257, tls=True))


def scheduler(layout: Layout) -> Component:
    configuration = layout.configuration / "scheduler.yaml"
    configuration.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": {
                    "kubeconfig": str(layout.kubeconfig_of("kube-scheduler")),
                    "qps": 1000,
                    "burst": 2000,
                },
            }
        )
    )
    command = [
        str(program(KUBERNETES, "kube-scheduler")),
        f"--config={configuration}",
        "--bind-address=127.0.0.1",
        # By default, it reads the API server's authentication settings, which needs another user's permissions.
        "--authentication-tolerate-lookup-failure=true",
    ]
    return Component("kube-scheduler", command, health=Health(10259, tls=True))
