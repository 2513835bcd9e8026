"""One user and one running cluster: apply, get, logs, exec, wait, delete."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess

import pytest

from tests.cli.commands import WAIT_FOR_GATE, Muster, open_gate, pod, read_until


def test_from_apply_to_delete(cluster: Muster) -> None:
    file = cluster.file("hello.yaml", pod("hello", "echo hello from the Pod", labels="app: greeter"))
    assert cluster("apply", "-f", file).ok().out == "pod/hello created\n"
    assert cluster("apply", "-f", file).ok().out == "pod/hello unchanged\n"
    done = cluster("wait", "pod/hello", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=30s").ok()
    assert done.out == "pod/hello condition met\n"
    assert cluster("logs", "hello").ok().out == "hello from the Pod\n"
    table = cluster("get", "pods", "-l", "app=greeter").ok().out.splitlines()
    assert re.split(r"\s{3,}", table[0]) == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert re.split(r"\s{3,}", table[1])[:4] == ["hello", "0/1", "Completed", "0"]
    happened = cluster("events", "--for", "pod/hello").ok().out
    assert {"Scheduled", "Started"} <= set(happened.split())
    assert cluster("delete", "-f", file).ok().out == 'pod "hello" deleted\n'
    gone = cluster("get", "pod", "hello")
    assert (gone.code, gone.err) == (1, 'Error from server (NotFound): pods "hello" not found\n')
    assert cluster("logs", "hello").ok().out == "hello from the Pod\n", "the log is kept after its Pod"


def test_applying_a_changed_file(cluster: Muster) -> None:
    settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {{rate: '{}'}}\n"
    cluster("apply", "-f", cluster.file("one.yaml", settings.format(1))).ok()
    changed = cluster("apply", "-f", "-", input=settings.format(2)).ok()
    assert changed.out == "configmap/settings configured\n"
    assert cluster("get", "cm", "settings", "-o", "jsonpath={.data.rate}").ok().out == "2\n"


def test_errors_name_file_line_and_field(cluster: Muster) -> None:
    file = cluster.file(
        "bad.yaml",
        """\
        apiVersion: v1
        kind: Pod
        metadata:
          name: bad
        spec:
          containers:
            - name: main
              imag: busybox
        ---
        apiVersion: v1
        kind: Pid
        metadata: {name: x}
        """,
    )
    refused = cluster("apply", "-f", file)
    assert refused.code == 1
    assert 'bad.yaml:8 spec.containers[0].imag: unknown field "imag"; did you mean "image"?' in refused.err
    assert 'bad.yaml:11 kind: this cluster has no kind "Pid"' in refused.err
    assert "Traceback" not in refused.err
    broken = cluster("apply", "-f", cluster.file("broken.yaml", "a: [1\nb: 2\n"))
    assert broken.code == 1
    assert broken.err.startswith("broken.yaml:")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["get", "podz"], 'error: the server doesn\'t have a resource type "podz" (did you mean "pod"?)'),
        (["get", "pods", "-o", "xml"], 'unable to print "xml"'),
        (["get", "pods", "-l", "a in"], "Error from server (BadRequest)"),
        (["logs"], "specify a Pod"),
        (["delete", "pods"], "specify the objects"),
        (["wait", "pods", "--for=ready", "--all"], "use condition=Complete"),
        (["get", "pods", "--watchh"], "No such option"),
        (["frobnicate"], "there is no command"),
    ],
)
def test_invalid_arguments_are_explained(cluster: Muster, words: list[str], complaint: str) -> None:
    refused = cluster(*words)
    assert refused.code == 1
    assert complaint in refused.err
    assert "Traceback" not in refused.err


def test_the_logs_of_a_job_without_its_kind(cluster: Muster) -> None:
    pod = "{restartPolicy: Never, containers: [{name: a, image: busybox, command: ['true']}]}"
    spec = f"{{suspend: true, template: {{spec: {pod}}}}}"
    job = f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: nightly}}\nspec: {spec}\n"
    cluster("apply", "-f", cluster.file("job.yaml", job)).ok()
    told = cluster("logs", "nightly")
    assert told.code == 1
    assert told.err.startswith('error: there is no Pod "nightly" in namespace default')
    assert told.err.endswith("muster logs job/nightly\n")
    cluster("delete", "-f", "job.yaml").ok()


def test_several_kinds_and_forms(cluster: Muster) -> None:
    both = pod("form", "true") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: form}\n"
    cluster("apply", "-f", cluster.file("form.yaml", both)).ok()
    shown = cluster("get", "pods,configmaps", "-A").ok().out
    assert re.search(r"^default\s+pod/form\s", shown, re.MULTILINE)
    assert re.search(r"^NAMESPACE\s+NAME\s+DATA\s+AGE$", shown, re.MULTILINE)
    assert cluster("get", "pod/form", "-o", "name").ok().out == "pod/form\n"
    assert json.loads(cluster("get", "pod", "form", "-o", "json").ok().out)["metadata"]["name"] == "form"
    assert cluster("get", "pod", "form", "-o", "yaml").ok().out.startswith("apiVersion: v1\nkind: Pod\n")
    assert "NODE" in cluster("get", "pod", "form", "-o", "wide").ok().out
    nothing = cluster("get", "pods", "-l", "app=nothing").ok()
    assert (nothing.out, nothing.err) == ("", "No resources found in default namespace.\n")
    assert cluster("get", "priorityclasses", "-l", "app=nothing").ok().err == "No resources found\n"


def test_watching_shows_every_change(cluster: Muster) -> None:
    file = cluster.file("watched.yaml", pod("watched", WAIT_FOR_GATE, labels="app: watched"))
    cluster("apply", "-f", file).ok()
    watch = cluster.start("get", "pods", "-w", "-l", "app=watched")
    assert read_until(watch, "Running").splitlines()[0].startswith("NAME")
    open_gate(cluster, "watched")
    cluster("wait", "pod/watched", "--for=jsonpath={.status.phase}=Succeeded").ok()
    changes = read_until(watch, "Completed")
    assert "NAME" not in changes
    watch.terminate()


def test_describe_gives_the_reason(cluster: Muster) -> None:
    cluster("apply", "-f", cluster.file("sad.yaml", pod("sad", "echo the last words; exit 3"))).ok()
    hungry = pod("hungry", "true", more="      resources: {limits: {nvidia.com/gpu: 64}}\n")
    cluster("apply", "-f", cluster.file("hungry.yaml", hungry)).ok()
    cluster("wait", "pod/sad", "--for=jsonpath={.status.phase}=Failed").ok()
    told = cluster("describe", "pod", "sad").ok().out
    assert re.search(r'^Why: +container "main" exited with code 3$', told, re.MULTILINE)
    assert re.search(r"^ +Last Log Lines: +the last words$", told, re.MULTILINE)
    assert re.search(r"^ +Exit Code: +3$", told, re.MULTILINE)
    cluster("wait", "pod/hungry", "--for=condition=PodScheduled=false").ok()
    waiting = cluster("describe", "pod/hungry").ok().out
    assert re.search(
        r"^Why: +Unschedulable: 0/1 nodes are available: .*Insufficient nvidia.com/gpu", waiting, re.MULTILINE
    )
    assert "FailedScheduling" in waiting
    cluster("delete", "pod", "hungry").ok()


def test_describe_knows_every_kind(cluster: Muster) -> None:
    kinds = ["nodes", "namespaces", "queues", "serviceaccounts", "events"]
    for kind in kinds:
        assert "Name:" in cluster("describe", kind).ok().out, kind
    assert "Allocated resources:" in cluster("describe", "node").ok().out


def test_logs_of_many_pods(cluster: Muster) -> None:
    both = "---\n".join(pod(f"many-{n}", f"echo one-{n}; echo two-{n}", labels="app: many") for n in range(2))
    cluster("apply", "-f", cluster.file("many.yaml", both)).ok()
    cluster("wait", "pod", "-l", "app=many", "--for=jsonpath={.status.phase}=Succeeded").ok()
    lines = cluster("logs", "-l", "app=many").ok().out.splitlines()
    assert sorted(lines) == ["[many-0] one-0", "[many-0] two-0", "[many-1] one-1", "[many-1] two-1"]
    assert cluster("logs", "many-0", "--tail=1").ok().out == "two-0\n"
    stamped = cluster("logs", "many-0", "--timestamps").ok().out
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z one-0\n", stamped)
    followed = cluster("logs", "-f", "-l", "app=many").ok().out.splitlines()
    assert sorted(followed) == sorted(lines)


def test_follow_ends_when_the_container_ends(cluster: Muster) -> None:
    script = f"echo first; {WAIT_FOR_GATE}; echo last"
    cluster("apply", "-f", cluster.file("slow.yaml", pod("slow", script))).ok()
    follow = cluster.start("logs", "-f", "slow")
    assert read_until(follow, "first") == "first\n"
    open_gate(cluster, "slow")
    assert read_until(follow, "last") == "last\n"
    assert follow.wait(30) == 0


def test_the_log_of_the_previous_container(cluster: Muster) -> None:
    script = "if [ -e /kept/mark ]; then echo again; sleep 60; fi; touch /kept/mark; echo first time; exit 1"
    kept = "      volumeMounts: [{name: kept, mountPath: /kept}]\n  volumes: [{name: kept, emptyDir: {}}]\n"
    cluster("apply", "-f", cluster.file("twice.yaml", pod("twice", script, restart="OnFailure", more=kept))).ok()
    ready = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1"
    cluster("wait", "pod/twice", ready, "--timeout=40s").ok()
    assert cluster("logs", "twice", "--previous").ok().out == "first time\n"
    follow = cluster.start("logs", "-f", "twice")
    assert read_until(follow, "again") == "again\n"
    follow.terminate()
    cluster("delete", "pod", "twice", "--grace-period=1").ok()


def test_logs_of_a_job(cluster: Muster) -> None:
    job = """\
        apiVersion: batch/v1
        kind: Job
        metadata: {name: sums}
        spec:
          completions: 2
          template:
            spec:
              restartPolicy: Never
              containers:
                - {name: main, image: busybox, command: [sh, -c, "echo $((1+1))"]}
        """
    cluster("apply", "-f", cluster.file("job.yaml", job)).ok()
    assert cluster("wait", "job/sums", "--for=condition=complete").ok().out == "job.batch/sums condition met\n"
    lines = cluster("logs", "job/sums").ok().out.splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["2", "2"]
    assert cluster("delete", "job", "sums").ok().out == 'job.batch "sums" deleted\n'
    assert cluster("wait", "pods", "-l", "job-name=sums", "--for=delete").ok()


def test_exec(cluster: Muster) -> None:
    cluster("apply", "-f", cluster.file("inside.yaml", pod("inside", "sleep 300"))).ok()
    cluster("wait", "pod/inside", "--for=condition=Ready").ok()
    assert cluster("exec", "inside", "--", "sh", "-c", "echo $((6*7))").ok().out == "42\n"
    failed = cluster("exec", "inside", "--", "sh", "-c", "echo oops >&2; exit 7")
    assert (failed.code, failed.out) == (7, "")
    assert failed.err == "oops\ncommand terminated with exit code 7\n"
    assert cluster("exec", "-i", "inside", "--", "tr", "a-z", "A-Z", input="quiet").ok().out == "QUIET"
    cluster("delete", "pod", "inside", "--now").ok()


def test_exec_with_a_terminal(cluster: Muster) -> None:
    cluster("apply", "-f", cluster.file("screen.yaml", pod("screen", "sleep 300"))).ok()
    cluster("wait", "pod/screen", "--for=condition=Ready").ok()
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        cluster.command("exec", "-it", "screen", "--", "sh", "-c", "stty size; tty -s && read line && echo got $line"),
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=cluster.environment,
    )
    os.close(follower)
    os.write(leader, b"typed ahead\n")
    seen = b""
    while b"got typed ahead" not in seen:
        seen += os.read(leader, 1000)
    assert process.wait(30) == 0
    os.close(leader)
    cluster("delete", "pod", "screen", "--now").ok()


def test_a_closed_pipe_is_not_an_error(cluster: Muster) -> None:
    piped = subprocess.run(
        ["bash", "-c", f"{' '.join(cluster.command('get', 'events', '-A', '-o', 'yaml'))} | head -1"],
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (piped.stdout, piped.stderr) == ("apiVersion: v1\n", "")


def test_selectors_waits_and_dry_runs(cluster: Muster) -> None:
    file = cluster.file("dry.yaml", pod("dry", "true", labels="app: dry"))
    assert cluster("apply", "-f", file, "--dry-run=server").ok().out == "pod/dry created (server dry run)\n"
    assert cluster("get", "pod", "dry", "--ignore-not-found").ok().out == ""
    late = cluster("wait", "node", "--all", "--for=condition=Sunshine", "--timeout=100ms")
    assert late.code == 1
    assert "error: timed out waiting for the condition on nodes/" in late.err
    assert cluster("wait", "pod/dry", "--for=condition=Ready").code == 1
    assert cluster("delete", "pod", "dry", "--ignore-not-found").ok()


def test_top_shows_usage(cluster: Muster) -> None:
    cluster("apply", "-f", cluster.file("busy.yaml", pod("busy", "while :; do :; done"))).ok()
    cluster("wait", "pod/busy", "--for=condition=Ready").ok()
    nodes = cluster("top", "nodes").ok().out.splitlines()
    assert re.split(r"\s{3,}", nodes[0]) == ["NAME", "CPU(cores)", "CPU%", "MEMORY(bytes)", "MEMORY%"]
    pods = cluster("top", "pods").ok().out
    assert re.search(r"^busy\s+\d+m\s+\d+Mi$", pods, re.MULTILINE)
    cluster("delete", "pod", "busy", "--now").ok()


def test_version_shows_client_and_server(cluster: Muster) -> None:
    lines = cluster("version").ok().out.splitlines()
    assert lines[0].startswith("muster ")
    assert lines[1].startswith("cluster v1.")
