"""The REST API of Argo Server (v4.0), for the `argo` command, Hera and other clients."""
