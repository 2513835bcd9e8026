"""What programs have to be told where all Pods share this machine's network: which interface, and how to exec."""

from __future__ import annotations

import sys
from collections.abc import Mapping

ENVIRONMENT: Mapping[str, str] = {
    "MUSTER_EXEC": f"{sys.executable} -m muster exec -i",
    "HYDRA_IFACE": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    # Open MPI refuses to run as root unless told twice; here a Pod is whoever started the cluster.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}
"""Given to every container of the box, below what the Pod itself says."""
