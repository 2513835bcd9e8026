"""`muster run`: one command from a file to a result."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest

from tests.cli.commands import WAIT_FOR_GATE, Muster, open_gate, pod, read_until


def test_no_cluster_says_what_to_do(muster: Muster) -> None:
    refused = muster("get", "pods")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        "no cluster is running; start one with `muster up`, or run a file directly with `muster run FILE`\n"
    )
    assert muster("down").ok().out == "no cluster is running\n"


def test_work_that_succeeds(muster: Muster) -> None:
    done = muster("run", muster.file("good.yaml", pod("good", "echo working; echo done")))
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "pod/good created"
    assert [line for line in lines if "|" in line] == ["good | working", "good | done"]
    assert re.fullmatch(r"pod/good succeeded in \d+\.\ds", lines[-1])
    assert done.err == ""


def test_failed_work_gives_its_reason(muster: Muster) -> None:
    done = muster("run", muster.file("bad.yaml", pod("bad", "echo loading; echo 'ValueError: no data' >&2; exit 3")))
    assert done.code == 1
    assert "pod/bad failed\n" in done.out
    assert '  container "main" exited with code 3\n' in done.out
    assert '  last lines of container "main":\n    loading\n    ValueError: no data\n' in done.out
    assert done.out.endswith("1 of 1 failed\n")


def test_a_job_with_its_pods(muster: Muster) -> None:
    job = """\
        apiVersion: batch/v1
        kind: Job
        metadata: {name: count}
        spec:
          completions: 3
          parallelism: 3
          completionMode: Indexed
          template:
            spec:
              restartPolicy: Never
              containers:
                - {name: main, image: busybox, command: [sh, -c, "echo I am $JOB_COMPLETION_INDEX"]}
        """
    done = muster("run", muster.file("job.yaml", job)).ok()
    assert sorted(re.findall(r"^count-\S+ \| I am (\d)$", done.out, re.MULTILINE)) == ["0", "1", "2"]
    assert re.search(r"^job.batch/count Succeeded after .*: 3/3 done$", done.out, re.MULTILINE)


def test_all_errors_are_reported_before_anything_is_stored(muster: Muster) -> None:
    text = pod("fine", "true") + "---\n" + pod("wrong", "true").replace("image:", "imag:")
    file = muster.file("half.yaml", text + "---\n" + pod("Wrong_Name", "true"))
    refused = muster("run", file)
    assert refused.code == 1
    assert re.search(r'^half.yaml:\d+ spec.containers\[0\].imag: unknown field "imag"', refused.err, re.MULTILINE)
    assert re.search(r"^half.yaml:\d+ metadata.name: ", refused.err, re.MULTILINE)
    assert "created" not in refused.out
    missing = muster("run", "nowhere.yaml")
    assert (missing.code, missing.err) == (1, "nowhere.yaml: no such file\n")


def test_a_manifest_s_namespace_is_created(muster: Muster) -> None:
    text = pod("far", "echo here").replace("name: far", "name: far\n  namespace: kubeflow", 1)
    refused = muster("run", muster.file("far.yaml", text.replace("image:", "imag:")))
    assert 'unknown field "imag"' in refused.err
    muster("up", "-d").ok()
    assert "kubeflow" not in muster("get", "namespaces", "-o", "name").ok().out
    done = muster("run", "--rm", muster.file("far.yaml", text)).ok()
    assert done.out.splitlines()[:2] == ["namespace/kubeflow created", "pod/far created"]
    assert "kubeflow" not in muster("get", "namespaces", "-o", "name").ok().out
    job = """\
        apiVersion: kubeflow.org/v1
        kind: JAXJob
        metadata: {name: far, namespace: research}
        spec: {jaxReplicaSpecs: {Worker: {template: {spec: {containers: [{name: jax, image: a, command: ["true"]}]}}}}}
        """
    assert muster("run", muster.file("job.yaml", job)).ok().out.startswith("namespace/research created\n")
    assert muster("run", "-n", "mine", muster.file("near.yaml", pod("near", "true"))).ok()
    assert muster("get", "pods", "-n", "mine", "-o", "name").ok().out == "pod/near\n"
    applied = muster("apply", "-f", "far.yaml")
    assert applied.err == (
        'far.yaml:5 metadata.namespace: namespace "kubeflow" does not exist; '
        "create it with `muster create namespace kubeflow`\n"
    )
    muster("create", "namespace", "kubeflow").ok()
    muster("apply", "-f", "far.yaml").ok()


def test_a_warning_is_printed_once_with_and_without_a_server(muster: Muster) -> None:
    workflow = """\
        apiVersion: argoproj.io/v1alpha1
        kind: Workflow
        metadata: {name: far}
        spec:
          entrypoint: main
          templates:
            - name: main
              inputs: {artifacts: [{name: a, path: /tmp/a, hdfs: {addresses: [x:1], path: /a, hdfsUser: me}}]}
              container: {image: busybox, command: ["true"]}
        """
    file = muster.file("far.yaml", workflow)
    warning = (
        "Warning: spec.templates[0].inputs.artifacts[0].hdfs: will fail: "
        "hdfs artifacts are not supported here; use s3, http or git\n"
    )
    assert muster("run", "--rm", file).err == warning
    muster("up", "-d").ok()
    assert muster("run", "--rm", file).err == warning


def test_pending_work_gives_its_reason_and_times_out(muster: Muster) -> None:
    hungry = pod("hungry", "true", more="      resources: {limits: {nvidia.com/gpu: 64}}\n")
    done = muster("run", "--timeout=3s", muster.file("hungry.yaml", hungry))
    assert done.code == 1
    reason = r"Unschedulable: 0/1 nodes are available: .*Insufficient nvidia.com/gpu"
    assert re.search(f"^pod/hungry Pending: {reason}", done.out, re.MULTILINE)
    assert re.search(f"^pod/hungry had not finished at the timeout\n  {reason}", done.out, re.MULTILINE)


def test_the_reason_to_wait_is_printed_while_waiting(muster: Muster) -> None:
    text = pod("mounts", "cat /settings/key", more="      volumeMounts: [{name: s, mountPath: /settings}]\n")
    gang = """\
        apiVersion: kubeflow.org/v1
        kind: JAXJob
        metadata: {name: gang}
        spec:
          runPolicy: {schedulingPolicy: {minAvailable: 2}}
          jaxReplicaSpecs:
            Worker:
              replicas: 2
              template:
                spec:
                  containers:
                    - {name: jax, image: a, command: ["true"], resources: {limits: {nvidia.com/gpu: 64}}}
        """
    run = muster.start(
        "run",
        muster.file("mounts.yaml", text + "  volumes: [{name: s, configMap: {name: settings}}]\n"),
        muster.file("gang.yaml", gang),
    )
    waits = (
        'pod/mounts ContainerCreating: FailedMount: MountVolume.SetUp failed for volume "s" : '
        'configmap "settings" not found\n',
        "podgroup/gang waits for room: 2/0 tasks in gang unschedulable: pod group is not ready, 2 minAvailable; "
        "minResources not met: nvidia.com/gpu: 128 asked, 0 free\n",
    )
    said = ""
    while not all(line in said for line in waits):
        said += read_until(run, "")
    settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {key: found}\n"
    muster("apply", "-f", muster.file("settings.yaml", settings)).ok()
    read_until(run, "mounts | found")


@pytest.mark.parametrize("words", [["run", "one.yaml"], ["up"], ["up", "-d"]])
def test_a_broken_image_engine_is_reported_at_once(
    muster: Muster, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    muster.file("one.yaml", pod("one", "true"))
    (muster.folder / "docker").write_text("#!/bin/sh\necho Cannot connect to the Docker daemon.\nexit 1\n")
    (muster.folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{muster.folder}:{os.environ['PATH']}")
    refused = muster(*words, "--runtime=docker")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        "error: docker does not work here: Cannot connect to the Docker daemon. "
        "Start it with `systemctl start docker`, or open Docker Desktop.\n"
        "Pods were to be run by docker (--runtime, or `runtime` in config.yaml). `--runtime sandbox` runs them as "
        "processes of this machine, without an engine; `muster doctor` shows what works here.\n"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
def test_a_full_disk_is_reported_and_work_continues_when_there_is_room(muster: Muster) -> None:
    muster.home.mkdir()
    disk = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(muster.home)]
    if subprocess.run(disk, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        script = "dd if=/dev/zero of=/tmp/big bs=4k 2>/dev/null; while test -e /tmp/big; do sleep 0.1; done"
        run = muster.start("run", muster.file("greedy.yaml", pod("greedy", script)))
        read_until(run, f"waiting: the disk of {muster.home}/store is full: nothing was stored; free some")
        refused = muster("run", muster.file("more.yaml", pod("more", "true")))
        assert (refused.code, refused.err) == (
            1,
            f"more.yaml:1 the disk of {muster.home}/store is full: nothing was stored; free some space\n",
        )
        next(muster.home.glob("pods/*/tmp-main/big")).unlink()
        read_until(run, "pod/greedy succeeded in")
        assert run.wait(30) == 0
    finally:
        muster("down").ok()
        subprocess.run(["umount", "--lazy", muster.home], check=True)


def test_running_a_file_again_runs_it_again(muster: Muster) -> None:
    file = muster.file("again.yaml", pod("again", "echo once"))
    muster("run", file).ok()
    second = muster("run", file).ok()
    assert "pod/again replaced\n" in second.out
    assert "again | once\n" in second.out


def test_other_commands_see_the_run(muster: Muster) -> None:
    run = muster.start("run", muster.file("slow.yaml", pod("slow", f"echo waiting; {WAIT_FOR_GATE}")))
    read_until(run, "slow | waiting")
    assert "Running" in muster("get", "pod", "slow").ok().out
    assert muster("exec", "slow", "--", "echo", "hi").ok().out == "hi\n"
    open_gate(muster, "slow")
    assert read_until(run, "succeeded")
    assert run.wait(30) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_deletes_what_was_applied(muster: Muster, number: signal.Signals) -> None:
    text = pod("forever", "echo up; sleep 300") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
    run = muster.start("run", muster.file("forever.yaml", text))
    read_until(run, "forever | up")
    run.send_signal(number)
    said, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "pod/forever deleted\nconfigmap/settings deleted\n" in said
    muster("up", "-d").ok()
    left = muster("get", "pods,configmaps", "-o", "name").ok().out
    assert left == "configmap/kube-root-ca.crt\n", "which every namespace has"


def test_services_are_deleted_with_the_work_they_served(muster: Muster) -> None:
    text = pod("server", "sleep 300", restart="Always") + "---\n" + pod("client", "echo asked")
    muster("run", muster.file("pair.yaml", text)).ok()
    muster("up", "-d").ok()
    assert muster("get", "pods", "-o", "name").ok().out == "pod/client\n"


@pytest.mark.parametrize(("option", "left"), [("--rm", ""), ("--keep", "pod/client\npod/server\n")])
def test_what_is_kept_can_be_chosen(muster: Muster, option: str, left: str) -> None:
    text = pod("server", "sleep 300", restart="Always") + "---\n" + pod("client", "echo asked")
    muster("run", option, muster.file("pair.yaml", text)).ok()
    muster("up", "-d").ok()
    assert muster("get", "pods", "-o", "name").ok().out == left
    muster("delete", "pods", "--all", "--now").ok()


def test_work_that_never_ends_can_have_a_time_limit(muster: Muster) -> None:
    done = muster("run", "--timeout=1s", muster.file("server.yaml", pod("server", "sleep 300", restart="Always"))).ok()
    assert "no object ends by itself" in done.out
    assert re.search(r"^stopped after \d", done.out, re.MULTILINE)


def test_a_run_continues_after_the_run_that_started_the_cluster(muster: Muster) -> None:
    first = muster.start("run", muster.file("first.yaml", pod("first", WAIT_FOR_GATE)))
    read_until(first, "pod/first Running")
    script = f"echo here; {WAIT_FOR_GATE}; echo finished"
    second = muster.start("run", muster.file("second.yaml", pod("second", script)))
    read_until(second, "second | here")
    open_gate(muster, "first")
    assert first.wait(30) == 0
    while muster("get", "pod", "second").code:  # until the second run has taken over
        assert second.poll() is None
    open_gate(muster, "second")
    assert "second | finished\n" in read_until(second, "succeeded")
    assert second.wait(30) == 0


def test_a_running_cluster_is_used(muster: Muster) -> None:
    up = muster("up", "-d").ok()
    assert "the cluster is up" in up.out
    assert "already running" in muster("up").ok().out
    file = muster.file("guest.yaml", pod("guest", f"{WAIT_FOR_GATE}; echo hi"))
    muster("apply", "-f", file).ok()
    run = muster.start("run", file)
    read_until(run, "pod/guest is already running; following it. To start it again, delete it first")
    read_until(run, "pod/guest Running")
    open_gate(muster, "guest")
    assert "guest | hi\n" in read_until(run, "pod/guest succeeded in")
    assert run.wait(30) == 0
    assert "Completed" in muster("get", "pod", "guest").ok().out
    assert "the cluster is down" in muster("down").ok().out


def test_doctor_reports_what_this_machine_can_do(muster: Muster) -> None:
    told = muster("doctor").ok().out
    for word in ("system", "machine", "gpus", "sandbox", "limits", "podman", "docker", "ports", "data", "cluster"):
        assert re.search(f"^[✓!✗] {word} ", told, re.MULTILINE), told


def test_a_terminal_gets_a_table(muster: Muster) -> None:
    file = muster.file("shown.yaml", pod("shown", "echo visible"))
    done = subprocess.run(
        ["script", "-qec", " ".join(muster.command("run", file)), "/dev/null"],
        env={**muster.environment, "TERM": "xterm"},
        cwd=muster.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stdout)
    assert "shown │ visible" in plain
    assert re.search(r"✓ pod/shown\s+Succeeded", plain)
