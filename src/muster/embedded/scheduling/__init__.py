"""The scheduler: which Pod goes where, and which gang waits.

`requests`, `profile` and `fit` say what a Pod asks for and which node may take it; `machine` keeps what is free,
`topology` who stands next to whom; `placement` finds nodes for a set of Pods, `admission` holds capacity for a gang
without Pods, `reservation` for one that has waited long. `groups` and `queues` say whose turn it is, `state` gathers
all of it from objects, and `passes` decides. None of these does I/O or reads a clock. `scheduler` is the shell around
them: it watches, binds and reports.
"""
