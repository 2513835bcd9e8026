"""The cluster in a box: object store, scheduler, node agent and controllers in one process.

It implements the protocols of `muster.kube` and knows nothing of training jobs or workflows. Only `server` and `cli`
import it.
"""
