"""The scheduler: which Pod goes where, and which gang waits.

`profile`, `neighbours` and `fit` say what a Pod asks for and which node may take it; `machine` keeps what is free,
`topology` who stands next to whom; `choices` and `placement` find nodes for a set of Pods, `admission` holds capacity
for a gang without Pods, `reservation` keeps it for one that has waited long. `groups`, `queues` and `line` say whose
turn it is, `state` gathers all of it from objects, and `passes` decides. None of these does I/O or reads a clock.
`scheduler` is the shell around them: it watches, binds and, through `reports`, tells.
"""
