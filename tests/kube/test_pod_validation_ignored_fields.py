from __future__ import annotations

from muster.kube.objects import Object
from muster.kube.pod_validation import ignored_fields


def pod(**spec: object) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **spec}}


def test_an_ordinary_pod_has_none() -> None:
    ordinary = pod(
        restartPolicy="Never",
        securityContext={"runAsUser": 1, "fsGroup": 2},
        hostPID=False,
        containers=[{"name": "c", "tty": False, "volumeMounts": [{"name": "v", "mountPropagation": "None"}]}],
    )
    assert list(ignored_fields(ordinary, "namespaces")) == []


def test_what_means_nothing_here_is_named_by_its_path() -> None:
    odd = pod(
        hostPID=True,
        dnsConfig={"nameservers": ["1.1.1.1"]},
        securityContext={"seLinuxOptions": {"level": "a"}},
        initContainers=[{"name": "i"}],
        containers=[
            {"name": "a"},
            {
                "name": "b",
                "securityContext": {"privileged": True, "capabilities": {"add": ["SYS_PTRACE"]}},
                "resources": {"limits": {"ephemeral-storage": "1Gi"}},
                "volumeMounts": [{"name": "v", "mountPropagation": "Bidirectional"}],
                "ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 8080}],
                "livenessProbe": {"grpc": {"port": 1}},
            },
        ],
    )
    assert list(ignored_fields(odd, "namespaces")) == [
        "spec.hostPID",
        "spec.dnsConfig",
        "spec.securityContext.seLinuxOptions",
        "spec.containers[1].securityContext.capabilities",
        "spec.containers[1].securityContext.privileged",
        "spec.containers[1].resources.limits.ephemeral-storage",
        "spec.containers[1].volumeMounts[0].mountPropagation",
        "spec.containers[1].ports[1].hostPort",
        "spec.containers[1].livenessProbe.grpc.service",
    ]
    by_engine = list(ignored_fields(odd, by_engine=True))
    assert not [path for path in by_engine if "privileged" in path or "capabilities" in path]


def test_without_isolation_even_less_is_possible() -> None:
    custom = pod(containers=[{"name": "c", "terminationMessagePath": "/tmp/why"}])
    assert list(ignored_fields(custom, "namespaces")) == []
    assert list(ignored_fields(custom, "none")) == ["spec.containers[0].terminationMessagePath"]
    sealed = pod(containers=[{"name": "c", "securityContext": {"readOnlyRootFilesystem": True}}])
    assert list(ignored_fields(sealed, "namespaces")) == []
    assert list(ignored_fields(sealed, "none")) == ["spec.containers[0].securityContext.readOnlyRootFilesystem"]


def test_what_depends_on_machine_and_engine() -> None:
    limited = pod(
        volumes=[
            {"name": "a", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "b", "emptyDir": {"sizeLimit": "1Gi", "medium": "Memory"}},
            {"name": "c", "emptyDir": {"medium": "HugePages"}},
        ],
        containers=[{"name": "c", "resources": {"limits": {"cpu": "1"}}}],
    )
    always = ["spec.volumes[0].emptyDir.sizeLimit", "spec.volumes[2].emptyDir.medium"]
    assert list(ignored_fields(limited)) == always
    assert list(ignored_fields(limited, limits_cpu=False)) == [*always, "spec.containers[0].resources.limits.cpu"]
    assert "spec.volumes[1].emptyDir.sizeLimit" in list(ignored_fields(limited, by_engine=True))
    assert "spec.imagePullSecrets" in list(ignored_fields(pod(imagePullSecrets=[{"name": "s"}]), by_engine=True))
