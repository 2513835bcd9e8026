"""The gang scheduler: decides which Pod goes to which node, and which gang waits.

`scheduler` is the shell that watches and binds; `cycle` is one pure scheduling cycle over `state`.
"""
