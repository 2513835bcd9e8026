"""`muster env`: what other clients of the cluster need to find it, for `eval`."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from muster.cli.failures import NO_CLUSTER, Failure
from muster.cli.options import Debug, Namespace, configure_logging
from muster.cli.output import say
from muster.cli.session import home


def env(
    namespace: Namespace = "",
    unset: Annotated[bool, typer.Option("--unset", help="Take it all back.")] = False,
    debug: Debug = False,
) -> None:
    """Print the settings with which kubectl, argo and Hera find the cluster.

    As in: eval "$(muster env)". They contain the administrator's token.
    """
    configure_logging(debug)
    if unset:
        say("\n".join(f"unset {name}" for name in variables("", "", "", "")))
        return
    from muster.kube.remote.kubeconfig import Token, load_kubeconfig
    from muster.server.presence import running

    info = running(home())
    if info is None:
        raise Failure(NO_CLUSTER)
    access = load_kubeconfig([info.kubeconfig])
    token = access.credentials.value if isinstance(access.credentials, Token) else ""
    settings = variables(info.url, info.kubeconfig, token, namespace or access.namespace)
    say("\n".join(f"export {name}={shlex.quote(value)}" for name, value in settings.items()))


def variables(url: str, kubeconfig: str, token: str, namespace: str) -> dict[str, str]:
    return {
        "KUBECONFIG": kubeconfig,
        "ARGO_SERVER": url.removeprefix("https://"),
        "ARGO_HTTP1": "true",
        "ARGO_SECURE": "true",
        # argo takes no certificate authority but the machine's own.
        "ARGO_INSECURE_SKIP_VERIFY": "true",
        "ARGO_NAMESPACE": namespace,
        "ARGO_TOKEN": f"Bearer {token}",
    }
