"""The Go modules of the cluster, their versions, and what is used of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Source:
    """A Go module, the programs to build from it and the manifests to keep."""

    name: str
    module: str
    version: str
    programs: Mapping[str, str]
    """Name of the program to its package, relative to the module."""
    staged: Mapping[str, str] = field(default_factory=dict)
    """Modules that upstream replaces by a folder of its repository, which is not in the module zip: a path, or a
    prefix that ends in `/`, to the published version to use instead."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Modules in another version than upstream's: a path, or a prefix for those that upstream replaces, to the
    version. Versions of other sources are in Go's cache already, and some cannot be downloaded."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Go variables set by the linker, such as the version."""
    manifests: tuple[str, ...] = ()
    """Folders and files to keep beside the programs."""
    empty_files: tuple[str, ...] = ()
    """Files that the build needs, whatever their content. With any of them, or a symlink, a copy of the module is
    built."""
    main: str = ""
    """A main package to build instead of upstream's, if only a part of a program is needed."""
    fork_of: str = ""
    """The path that the module's go.mod declares and that packages import it by, if it is a fork of that module."""
    symlinks: Mapping[str, str] = field(default_factory=dict)
    """Upstream's symlinks, which are not in the module zip either: link to target, both relative to the module."""
    test_files: tuple[str, ...] = ()
    """Files of a test package, relative to the module. With any of them, the program is `go test -c` of these alone."""

    @property
    def key(self) -> str:
        return f"{self.name}-{self.version}"


KUBERNETES = Source(
    name="kubernetes",
    module="k8s.io/kubernetes",
    version="v1.35.4",
    programs={
        name: f"cmd/{name}" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    },
    staged={"k8s.io/": "v0.35.4"},
    variables={
        "k8s.io/component-base/version.gitVersion": "v1.35.4",
        "k8s.io/component-base/version.gitMajor": "1",
        "k8s.io/component-base/version.gitMinor": "35",
    },
)

KUBERNETES_E2E = replace(
    KUBERNETES,
    name="kubernetes-e2e",
    programs={"e2e.test": "test/e2e"},
    # Without providers.go: it starts clouds, and one of its dependencies cannot be downloaded.
    test_files=tuple(f"test/e2e/{name}" for name in ("e2e.go", "e2e_test.go", "suites.go")),
    manifests=("test/conformance/testdata/conformance.yaml",),
)
"""Not part of the cluster: Kubernetes' own end-to-end tests (`make test-conformance`)."""

AGNHOST = replace(
    KUBERNETES,
    name="agnhost",
    programs={"agnhost": "test/images/agnhost", "nnp": "test/images/nonewprivs"},
)
"""The programs of the images that those tests run in their Pods."""

KUBERNETES_NODE = replace(KUBERNETES, programs={name: f"cmd/{name}" for name in ("kubelet", "kube-proxy")})
"""Needed only for a real node."""

ETCD = Source(name="etcd", module="go.etcd.io/etcd/server/v3", version="v3.6.6", programs={"etcd": ""})

KWOK = Source(
    name="kwok",
    module="sigs.k8s.io/kwok",
    version="v0.7.0",
    programs={"kwok": "cmd/kwok"},
    manifests=(
        "kustomize/stage/pod/fast/pod-ready.yaml",
        "kustomize/stage/pod/fast/pod-complete.yaml",
        "kustomize/stage/pod/fast/pod-delete.yaml",
        "kustomize/stage/node/fast/node-initialize.yaml",
        "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    ),
)

_COREDNS_PLUGINS = ("bind", "cache", "errors", "health", "kubernetes")
COREDNS = Source(
    name="coredns",
    module="github.com/coredns/coredns",
    version="v1.14.6",
    programs={"coredns": ""},
    # Upstream's program has every plugin, and compiles the SDKs of three clouds for some of them.
    main="package main\n\nimport (\n"
    + "".join(f'\t_ "github.com/coredns/coredns/plugin/{name}"\n' for name in _COREDNS_PLUGINS)
    + '\t"github.com/coredns/coredns/coremain"\n)\n\nfunc main() { coremain.Run() }\n',
)

VOLCANO = Source(
    name="volcano",
    module="volcano.sh/volcano",
    version="v1.14.1",
    programs={"vc-scheduler": "cmd/scheduler", "vc-controller-manager": "cmd/controller-manager"},
    staged={"volcano.sh/apis": "v1.14.0"},
    manifests=(
        "config/crd/volcano/bases",
        "config/crd/jobflow/bases",
        "installer/helm/chart/volcano/config/volcano-scheduler.conf",
    ),
)

ARGO = Source(
    name="argo",
    module="github.com/argoproj/argo-workflows/v4",
    version="v4.0.7",
    programs={name: f"cmd/{name}" for name in ("workflow-controller", "argoexec", "argo")},
    variables={"github.com/argoproj/argo-workflows/v4.version": "v4.0.7"},
    manifests=("manifests/base/crds/minimal",),
    empty_files=("ui/dist/app/index.html",),
    symlinks={
        "workflow/executor/osspecific/signal_linux.go": "workflow/executor/osspecific/signal_darwin.go",
    },
)

ARGO_3 = replace(
    ARGO,
    module="github.com/argoproj/argo-workflows/v3",
    version="v3.7.18",
    variables={"github.com/argoproj/argo-workflows/v3.version": "v3.7.18"},
)
"""The oldest minor version that Muster supports."""

VERSITYGW = Source(
    name="versitygw",
    module="github.com/versity/versitygw",
    version="v1.8.0",
    programs={"versitygw": "cmd/versitygw"},
)
"""An S3 server that stores objects as files."""

TRAINING_OPERATOR = Source(
    name="training-operator",
    module="github.com/kubeflow/training-operator",
    version="v1.9.3",
    programs={"training-operator": "cmd/training-operator.v1"},
    manifests=("manifests",),
)

_AS_VOLCANO = {
    # Kubernetes' scheduler and its dependencies: with Volcano's versions, Go's cache has half of them.
    "k8s.io/": "v0.34.1",
    "k8s.io/kubernetes": "v1.34.1",
    "github.com/go-openapi/jsonpointer": "v0.21.1",
    "github.com/go-openapi/swag": "v0.23.1",
    "github.com/mailru/easyjson": "v0.9.0",
    "github.com/prometheus/client_model": "v0.6.2",
    "github.com/prometheus/common": "v0.64.0",
    "github.com/prometheus/procfs": "v0.16.1",
    "go.opentelemetry.io/auto/sdk": "v1.1.0",
    "go.opentelemetry.io/otel": "v1.36.0",
    "go.opentelemetry.io/otel/metric": "v1.36.0",
    "go.opentelemetry.io/otel/trace": "v1.36.0",
    "golang.org/x/exp": "v0.0.0-20240719175910-8a7402abbf56",
    "golang.org/x/net": "v0.41.0",
    "golang.org/x/oauth2": "v0.30.0",
    "golang.org/x/sync": "v0.15.0",
    "golang.org/x/sys": "v0.33.0",
    "golang.org/x/term": "v0.32.0",
    "golang.org/x/text": "v0.26.0",
    "golang.org/x/time": "v0.11.0",
    "google.golang.org/grpc": "v1.64.0",
    "google.golang.org/protobuf": "v1.36.6",
}

SCHEDULER_PLUGINS = Source(
    name="scheduler-plugins",
    module="sigs.k8s.io/scheduler-plugins",
    version="v0.34.7",
    programs={"scheduler-plugins-scheduler": "cmd/scheduler", "scheduler-plugins-controller": "cmd/controller"},
    instead=_AS_VOLCANO,
    manifests=("config/crd/bases", "manifests/coscheduling/scheduler-config.yaml"),
)

_LIBRARIES = (
    "api", "apiextensions-apiserver", "apimachinery", "apiserver", "client-go", "component-base", "component-helpers",
    "kms",
)  # fmt: skip

KUEUE = Source(
    name="kueue",
    module="sigs.k8s.io/kueue",
    version="v0.16.2",
    programs={"kueue": "cmd/kueue"},
    instead={f"k8s.io/{name}": "v0.35.4" for name in _LIBRARIES},  # the cluster's own
    variables={"sigs.k8s.io/kueue/pkg/version.GitVersion": "v0.16.2"},
    manifests=("config",),
)

KUBE_ROUTER = Source(
    name="kube-router",
    # The fork that k3s uses: upstream's own releases are not in every proxy.
    module="github.com/k3s-io/kube-router/v2",
    version="v2.2.1",
    programs={"network-policy-controller": ""},
    fork_of="github.com/cloudnativelabs/kube-router/v2",
    instead={f"k8s.io/{name}": "v0.35.4" for name in ("api", "apimachinery", "client-go")},  # the cluster's own
    main=Path(__file__).with_name("network_policy_controller.go").read_text(),
)
"""Its controller of NetworkPolicies alone, as k3s has it: no routes and no proxy."""

HELM = Source(
    name="helm",
    module="helm.sh/helm/v3",
    version="v3.20.2",
    programs={"helm": "cmd/helm"},
    variables={
        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor": "1",
        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor": "35",
    },
)
"""Not part of the cluster: the chart's tests build it on first use."""

SOURCES = (
    ETCD,
    KUBERNETES,
    KUBERNETES_NODE,
    KWOK,
    COREDNS,
    VOLCANO,
    ARGO,
    ARGO_3,
    TRAINING_OPERATOR,
    SCHEDULER_PLUGINS,
    KUEUE,
    KUBE_ROUTER,
)
